package chaostest

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// kind is a kind of fault.
type kind string

const (
	// kill -9, and a new one in its place
	killWorker kind = "kill"
	// frozen for longer than its leases last
	stopWorker kind = "stop"
	// SIGTERM, an orderly end, and a new one
	drainOne kind = "drain"
	// kill -9, and up again on its store
	killServer kind = "server"
	// the same for the node that leads the stream of runs
	killLeader kind = "leader"
	// frozen for longer than leases last, with all that waits for it
	haltServer kind = "halt"
	// frozen for half of the time, as if its disk were slow
	dragServer kind = "drag"
	cutConn    kind = "cut" // a worker's connection is reset
	// nothing passes for longer than the worker's leases last, then all of
	// it
	holdConn kind = "hold"
	slowConn kind = "slow" // everything passes late, for a while

	// nobody does it: what a cluster does about a fault, some time later
	leaderMoved kind = "moved"
)

// fault is something to be done, after the one before.
type fault struct {
	after time.Duration
	kind  kind
	// a worker, a node: the first that is free from here on
	whom int
	// of one that lasts, from 0 to 1
	long float64
}

// drill is a line of faults. Several of them may run at once.
type drill struct {
	// between the end of a fault and the next one, on average
	every time.Duration
	kinds []kind
}

// schedule draws a drill's faults. They follow from the seed and from nothing
// that happens.
type schedule struct {
	drill
	rng *rand.Rand
}

func (d drill) schedule(seed uint64, number int) *schedule {
	return &schedule{d, rand.New(rand.NewPCG(seed, uint64(number)))}
}

func (s *schedule) next() fault {
	return fault{
		after: s.every/2 + time.Duration(s.rng.Int64N(int64(s.every))),
		kind:  s.kinds[s.rng.IntN(len(s.kinds))],
		whom:  s.rng.IntN(workers),
		long:  s.rng.Float64(),
	}
}

// hit is a fault as it happened: to whom ("" for all workers), and how long
// until its effects were over.
type hit struct {
	kind     kind
	who      string
	from, to time.Time // to is zero while it lasts
}

// hits is all that was done.
type hits struct {
	log *journal
	mu  sync.Mutex
	all []*hit
}

// begin notes a fault before it is done; the caller calls over when it is over.
func (h *hits) begin(k kind, who string) (over func()) {
	one := &hit{kind: k, who: who, from: time.Now()}
	h.log.say("%s %s", k, who)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, one)
	return func() {
		h.log.say("%s %s is over", k, who)
		h.mu.Lock()
		defer h.mu.Unlock()
		one.to = time.Now()
	}
}

// moved notes that something has another leader.
func (h *hits) moved(what string) {
	h.log.say("%s has another leader", what)
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	h.all = append(h.all, &hit{kind: leaderMoved, from: now, to: now})
}

// count is how many faults there were, of one kind or ("") of all that were
// done.
func (h *hits) count(k kind) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, one := range h.all {
		if one.kind == k || k == "" && one.kind != leaderMoved {
			n++
		}
	}
	return n
}

// struck reports whether a worker felt a fault, of some kinds or any, between
// two moments. What it causes may come later than it by as much as after.
func (h *hits) struck(who string, from, to time.Time, after time.Duration, kinds ...kind) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.all {
		mine := (one.who == "" || one.who == who) && (len(kinds) == 0 || slices.Contains(kinds, one.kind))
		if mine && !one.from.After(to) && (one.to.IsZero() || !one.to.Add(after).Before(from)) {
			return true
		}
	}
	return false
}

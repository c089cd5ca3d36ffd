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
	// kill -9 of a worker, and a new worker in its place.
	killWorker kind = "kill"
	// A worker is frozen for longer than its leases last.
	freezeWorker kind = "freeze"
	// SIGTERM to a worker, an orderly end, and a new worker.
	drainWorker kind = "drain"
	// kill -9 of a server, and a restart on its store.
	killServer kind = "server"
	// kill -9 of the node that leads the stream of runs, and a restart.
	killLeader kind = "leader"
	// The server is frozen for longer than leases last, with all workers
	// waiting.
	freezeServer kind = "freeze-server"
	// The server is frozen half of the time, as if its disk were slow.
	slowServer kind = "slow-server"
	// A worker's connection is reset.
	cutConn kind = "cut"
	// No data passes for longer than the worker's leases last, and then all
	// of it.
	stallConn kind = "stall"
	// Data passes late for a while.
	slowConn kind = "slow"

	// A stream or consumer has a new leader. No schedule has it: a cluster
	// moves leaders some time after a fault.
	leaderMoved kind = "moved"
)

// fault is a fault that a schedule plans.
type fault struct {
	// after is the time between the previous fault and this one.
	after time.Duration
	kind  kind
	// target is the number of a worker or node. The fault strikes the first
	// free one from that number on.
	target int
	// duration, from 0 to 1, scales the duration of a fault, or the delay
	// of a slow connection.
	duration float64
}

// faultSequence says which faults strike one after the other, and how often.
// Several sequences may run at once.
type faultSequence struct {
	// every is the average time between two faults.
	every time.Duration
	// kinds are drawn from. A kind that is listed twice is twice as likely.
	kinds []kind
}

// schedule draws the faults of a sequence. They follow from the seed, and from
// no event of the run.
type schedule struct {
	faultSequence
	rng *rand.Rand
}

// schedule returns the schedule of the sequence for a seed. The numbers of the
// sequences of a scenario make their schedules differ.
func (q faultSequence) schedule(seed uint64, number int) *schedule {
	return &schedule{q, rand.New(rand.NewPCG(seed, uint64(number)))}
}

// next draws the next fault.
func (s *schedule) next() fault {
	return fault{
		after:    s.every/2 + time.Duration(s.rng.Int64N(int64(s.every))),
		kind:     s.kinds[s.rng.IntN(len(s.kinds))],
		target:   s.rng.IntN(workers),
		duration: s.rng.Float64(),
	}
}

// injectedFault is a fault that has happened.
type injectedFault struct {
	kind kind
	// worker is the worker that the fault struck, "" for all.
	worker string
	// from and to bound the effects of the fault. To is zero while they
	// last.
	from, to time.Time
}

// faultLog holds all faults that have happened.
type faultLog struct {
	journal *journal

	mu  sync.Mutex
	all []*injectedFault
}

// begin records a fault before it happens. The caller calls over when the
// effects of the fault are over.
func (l *faultLog) begin(k kind, worker string) (over func()) {
	f := &injectedFault{kind: k, worker: worker, from: time.Now()}
	l.journal.log("%s %s", k, worker)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, f)
	return func() {
		l.journal.log("%s %s is over", k, worker)
		l.mu.Lock()
		defer l.mu.Unlock()
		f.to = time.Now()
	}
}

// moved records that a stream or consumer has another leader.
func (l *faultLog) moved(asset string) {
	l.journal.log("%s has another leader", asset)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.all = append(l.all, &injectedFault{kind: leaderMoved, from: now, to: now})
}

// count returns the number of faults of a kind. For the kind "" it returns the
// number of all scheduled faults.
func (l *faultLog) count(k kind) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, f := range l.all {
		if f.kind == k || k == "" && f.kind != leaderMoved {
			n++
		}
	}
	return n
}

// struck reports whether a fault of one of the kinds struck a worker between
// two moments. Without kinds every fault counts. A fault counts until the time
// late after its end.
func (l *faultLog) struck(worker string, from, to time.Time, late time.Duration, kinds ...kind) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.all {
		mine := (f.worker == "" || f.worker == worker) && (len(kinds) == 0 || slices.Contains(kinds, f.kind))
		if mine && !f.from.After(to) && (f.to.IsZero() || !f.to.Add(late).Before(from)) {
			return true
		}
	}
	return false
}

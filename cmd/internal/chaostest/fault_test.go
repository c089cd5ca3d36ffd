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
	stopWorker kind = "stop"
	// SIGTERM to a worker, an orderly end, and a new worker.
	drainOne kind = "drain"
	// kill -9 of a server, and a restart on its store.
	killServer kind = "server"
	// kill -9 of the node that leads the stream of runs, and a restart.
	killLeader kind = "leader"
	// The server is frozen for longer than leases last, with all workers
	// waiting.
	haltServer kind = "halt"
	// The server is frozen half of the time, as if its disk were slow.
	dragServer kind = "drag"
	cutConn    kind = "cut" // a worker's connection is reset
	// No data passes for longer than the worker's leases last, and then all
	// of it.
	holdConn kind = "hold"
	slowConn kind = "slow" // data passes late for a while

	// A stream or consumer has a new leader. No schedule has it: a cluster
	// moves leaders some time after a fault.
	leaderMoved kind = "moved"
)

// fault is a fault of a schedule. It begins some time after the previous one.
type fault struct {
	after time.Duration
	kind  kind
	// target is the number of a worker or node. The fault strikes the first
	// free one from that number on.
	target int
	// duration, from 0 to 1, scales the duration of a fault, or the delay
	// of a slow connection.
	duration float64
}

// faultSequence is a sequence of faults. Several sequences may run at once.
type faultSequence struct {
	// every is the average time between the end of a fault and the next
	// fault.
	every time.Duration
	kinds []kind
}

// schedule draws the faults of a sequence. They follow from the seed, and from
// no event of the run.
type schedule struct {
	faultSequence
	rng *rand.Rand
}

// schedule returns the schedule of a seed for the sequence of a number.
func (d faultSequence) schedule(seed uint64, number int) *schedule {
	return &schedule{d, rand.New(rand.NewPCG(seed, uint64(number)))}
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

// injectedFault is a fault that has happened: the worker that it struck ("" for
// all), and the time until its effects were over.
type injectedFault struct {
	kind     kind
	worker   string
	from, to time.Time // to is zero while it lasts
}

// faultLog holds all faults that have happened.
type faultLog struct {
	log *journal
	mu  sync.Mutex
	all []*injectedFault
}

// begin records a fault before it happens. The caller calls over when the
// effects of the fault are over.
func (h *faultLog) begin(k kind, worker string) (over func()) {
	one := &injectedFault{kind: k, worker: worker, from: time.Now()}
	h.log.log("%s %s", k, worker)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, one)
	return func() {
		h.log.log("%s %s is over", k, worker)
		h.mu.Lock()
		defer h.mu.Unlock()
		one.to = time.Now()
	}
}

// moved records that a stream or consumer has another leader.
func (h *faultLog) moved(asset string) {
	h.log.log("%s has another leader", asset)
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	h.all = append(h.all, &injectedFault{kind: leaderMoved, from: now, to: now})
}

// count returns the number of faults of a kind. For the kind "" it returns the
// number of all scheduled faults.
func (h *faultLog) count(k kind) int {
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

// struck reports whether a worker felt a fault between two moments, of the
// given kinds or of any. The effects of a fault may come later than the fault
// by the given time.
func (h *faultLog) struck(worker string, from, to time.Time, after time.Duration, kinds ...kind) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.all {
		mine := (one.worker == "" || one.worker == worker) && (len(kinds) == 0 || slices.Contains(kinds, one.kind))
		if mine && !one.from.After(to) && (one.to.IsZero() || !one.to.Add(after).Before(from)) {
			return true
		}
	}
	return false
}

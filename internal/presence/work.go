package presence

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// Work is the work that a worker has in hand, as it says itself.
type Work struct {
	// Slots is the number of model calls that the worker makes at a time,
	// and Free the number of them that it does not make now. ToolSlots and
	// FreeTools are the same for tools.
	Slots     int `json:"slots"`
	Free      int `json:"free"`
	ToolSlots int `json:"tool_slots"`
	FreeTools int `json:"free_tools"`
	// Draining says that the worker takes no more work.
	Draining bool `json:"draining,omitzero"`
	// Trouble names the stream that keeps the worker from its work, and says
	// why. It is "" without one.
	Trouble string `json:"trouble,omitzero"`
	// Runs are the runs in hand, at most MaxInHand.
	Runs []InHand `json:"runs,omitempty"`
	// More is the number of runs in hand that are not in Runs.
	More int `json:"more,omitzero"`
}

// MaxInHand is the largest number of runs in a Work.
const MaxInHand = 1000

// InHand is a run that a worker has in hand: a delivery of it has come and is
// not acknowledged.
type InHand struct {
	Agent subjects.Agent `json:"agent"`
	Tree  subjects.Tree  `json:"tree"`
	Path  subjects.Path  `json:"path"`
	// Since is the time at which the worker got the run, a time of the
	// server.
	Since time.Time `json:"since"`
	// Progress is the last report of progress, zero if there was none. At
	// is its time.
	Progress run.Progress `json:"progress,omitzero"`
	At       time.Time    `json:"at,omitzero"`
}

// encodeWork encodes a Work as the answer of a worker.
func encodeWork(w Work) []byte {
	if more := len(w.Runs) - MaxInHand; more > 0 {
		w.Runs, w.More = w.Runs[:MaxInHand], more
	}
	b, err := json.Marshal(w)
	if err != nil {
		return nil
	}
	return b
}

// Busy is a worker that is there, with the work in its hand.
type Busy struct {
	Worker
	Work
	// Known says that the worker has answered. A worker may be frozen or cut
	// off, or of a version that does not know the question.
	Known bool
}

// workTimeout bounds the wait for the answers of workers. A living worker
// answers within milliseconds.
const workTimeout = 500 * time.Millisecond

// AtWork asks the workers for the runs in their hands: of one tree or, for the
// zero Tree, of all. It asks all at once, and waits for half a second at most. It
// leaves out workers that are gone. The survey does not ask these workers again.
func (s *Survey) AtWork(ctx context.Context, tree subjects.Tree) (there []Busy) {
	asking, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	found := make([]*Busy, len(s.workers))
	var asked sync.WaitGroup
	for i, w := range s.workers {
		if w.Ended.IsZero() {
			asked.Go(func() { found[i] = s.registry.busy(asking, w, tree) })
		}
	}
	asked.Wait()
	for i, b := range found {
		s.alive[s.workers[i].Name] = b != nil
		if b != nil {
			there = append(there, *b)
			s.trouble = cmp.Or(s.trouble, b.Trouble)
		}
	}
	return there
}

// Serves reports whether the worker serves an agent.
func (b Busy) Serves(agent string) bool { return b.serves(agent) }

// busy asks one worker. It returns nil for a worker that is gone.
func (r Registry) busy(ctx context.Context, w Worker, tree subjects.Tree) *Busy {
	answer, err := r.workers.Work(ctx, w.token(), tree)
	if errors.Is(err, bus.ErrNoWorker) || err != nil && r.clocks.Now().Sub(w.Seen) >= staleAge {
		return nil
	}
	b := &Busy{Worker: w}
	b.Known = err == nil && json.Unmarshal(answer, &b.Work) == nil
	return b
}

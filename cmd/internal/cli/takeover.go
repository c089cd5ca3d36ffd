package cli

import (
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
)

// request is a request to a model that a worker has reported.
type request struct {
	turn   int
	worker string
	// since is the time of the worker's first report of it.
	since time.Time
}

// takeover is the last time that a worker went on with a turn that another one
// had begun. The zero value is none.
type takeover struct {
	turn  int
	from  string
	after time.Duration
	// drained says that the former worker has handed the turn on.
	drained bool
}

// String returns the end of a state, empty without a takeover.
func (t takeover) String() string {
	if t.turn == 0 {
		return ""
	}
	if t.drained {
		return ", handed on by " + t.from + " (drained) after " + ShortTime(t.after)
	}
	return ", taken over from " + t.from + " after " + ShortTime(t.after)
}

// noteTakeover compares the worker of an event with the worker that has
// reported the request for the same turn. Another one has taken the run over:
// the first one died, or was cut off from the server, or has handed it on.
func (n *node) noteTakeover(e client.Event) {
	r := n.request
	turn := requestedTurn(e)
	if turn == 0 || e.Worker == "" || turn == r.turn && e.Worker == r.worker {
		return
	}
	if turn == r.turn {
		last := n.state.Returns.Of(n.state.Owner).Last
		drained := last.Cause == run.ReturnDrained && last.Worker == r.worker && last.Turn == turn
		n.takeover = takeover{turn, r.worker, max(0, e.Time.Sub(r.since)), drained}
	}
	n.request = request{turn, e.Worker, e.Time}
}

// requestedTurn returns the turn for which the worker of an event asks or has
// asked the model. It is 0 for an event that is no request and no answer.
func requestedTurn(e client.Event) int {
	switch {
	case e.Live():
		return e.Turn
	case e.Kind == client.Answered:
		return e.Turn
	case e.Outcome.Status != run.StatusCompleted: // any worker ends a run
		return 0
	case e.Kind == client.BecameIdle:
		return e.Turn
	}
	return e.Outcome.Turns
}

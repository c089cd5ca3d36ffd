package client

import (
	"cmp"
	"context"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// decisions knows what becomes of the turns that somebody looks at before
// anything of them is done, and which runs people have stopped. No single
// message says either: what a verdict or a word comes to, the fold of its run
// knows.
type decisions struct {
	// without an outcome: those that are watched over, and those without a
	// log
	runs map[subjects.Path]run.State
	// a person has, and nothing came to the log since
	stopped map[subjects.Path]bool
}

func newDecisions() *decisions {
	return &decisions{runs: map[subjects.Path]run.State{}, stopped: map[subjects.Path]bool{}}
}

// see takes the next message of a tree, and what it tells. It returns what was
// decided by it; ok is false for nothing.
func (d *decisions) see(ctx context.Context, c *Client, m bus.Stored, e *Event) (decided Event, ok bool) {
	at, err := c.conn.Space().Parse(m.Subject)
	if err != nil {
		return decided, false
	}
	path := at.Run.Path
	switch at.Kind { //nolint:exhaustive // the rest is for the fold alone
	case subjects.Call:
		if _, twice := d.runs[path]; !twice {
			d.runs[path], _ = run.State{}.Apply(run.Called{Meta: run.Meta{Seq: m.Seq, Time: m.Time}, Input: e.Input})
		}
		return decided, false
	case subjects.Interrupt:
		d.stopped[path] = true
	case subjects.Log:
		delete(d.stopped, path)
	case subjects.Timer:
		if d.stopped[path] && at.Turn > 0 {
			e.Reason = string(Interrupted)
		}
	case subjects.Reply:
		delete(d.runs, e.Run.Path)
		delete(d.stopped, e.Run.Path)
	}
	before, watched := d.runs[path]
	if !watched {
		return decided, false
	}
	said, after, ok := c.next(ctx, at.Run, m, before)
	if start := after.Start(); !ok || start != nil && start.Supervision.Mode == run.Unsupervised {
		delete(d.runs, path)
		return decided, false
	}
	d.runs[path] = after
	// whatever became of its turn, the interrupt is what is told
	if d.stopped[path] {
		return decided, false
	}
	decided, ok = decision(before, after, said)
	decided.Run, decided.Seq, decided.Time = at.Run, m.Seq, m.Time
	return decided, ok
}

// next is a run's state after one more message; ok is false if that cannot be
// folded.
func (c *Client) next(
	ctx context.Context,
	r subjects.Run,
	m bus.Stored,
	s run.State,
) (said run.Event, _ run.State, ok bool) {
	said, err := c.runs.Event(ctx, r, m)
	if err == nil && said != nil {
		s, err = s.Apply(said)
	}
	return said, s, err == nil
}

// decision is what an event has decided about the last turn of a run that is
// watched over.
func decision(before, after run.State, said run.Event) (e Event, ok bool) {
	was, now := standing(before), standing(after)
	if now == "" || now == was && len(before.Turns) == len(after.Turns) {
		return e, false
	}
	t := after.Turns[len(after.Turns)-1]
	e = Event{Kind: now, Turn: len(after.Turns), By: after.Start().Supervision.Agent}
	switch now { //nolint:exhaustive // there is no other standing
	case Held:
		e.Reason = t.Why
	case Approved:
		e.Calls = t.Entry.Calls // with their time, which begins now
	case Denied:
		e.Reason = t.Withheld()
	}
	switch said := said.(type) {
	case run.Approved:
		e.By, e.Reason = cmp.Or(said.By, DefaultName), said.Reason
	case run.TimedOut:
		if was == Held {
			e.By, e.Reason = "", "nobody has decided in time"
		}
	case run.Called, run.Answered, run.Ended, run.Replied, run.Mailed, run.AnsweredWithoutCalls, run.Interrupted, run.Cancelled, run.OutcomeStored:
	}
	return e, true
}

// standing is how it is with the last turn of a run, if somebody looks at that
// before anything of it is done; "" until it is decided, and for any other.
func standing(s run.State) EventKind {
	if len(s.Turns) == 0 || s.Turns[len(s.Turns)-1].Entry.Review == nil {
		return ""
	}
	switch t := s.Turns[len(s.Turns)-1]; {
	case s.Phase == run.Held:
		return Held
	case t.CarriedOut():
		return Approved
	case t.Withheld() != "":
		return Denied
	}
	return ""
}

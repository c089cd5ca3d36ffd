package agentd

import (
	"context"
	"encoding/json"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// A timer fires when the server's clock shows its time. If that clock is set
// forward, the timer fires before its time, and the stored message looks like
// any other: it cannot be told from one that a server has stored late. Only the
// workers know the steps of the clock, and they may forget them.
//
// So a timer that fires decides nothing. The worker that takes the firing reads
// the run, looks at the clock and writes its decision. The timer of a turn
// fires into due.<turn>, which the fold ignores, and the decision is
// in.timer.<turn>. The timer of a run fires into in.timer.0, which the fold
// ignores too, and the decision is the run's cancel message. Before its time
// the worker sets the timer again. A reader of the run needs no clock.
//
// The timer of a tool run with a task polls the task (tooltask.go). A poll may
// come too early.

// earlyBy is the time by which a timer may be too early. The worker's reading
// of the server's clock may be wrong by that much.
const earlyBy = 250 * time.Millisecond

// timer returns the schedule that ends a turn's wait or, with turn 0, the run.
// A second firing changes nothing.
func timer(r subjects.Run, turn int, at time.Time) bus.Message {
	target := r.Fired(0)
	if turn > 0 {
		target = r.Due(turn)
	}
	return bus.Message{Subject: r.Timer(turn), Body: []byte("{}"), Timer: bus.Timer{At: at, Target: target}}
}

// heldTimer returns the schedule that ends the wait for a person. Its body says
// what is held and why, for clients that list held turns and tool runs.
func heldTimer(r subjects.Run, until time.Time, held run.HeldTurn) bus.Message {
	m := timer(r, held.Turn, until)
	// A number and strings always have a JSON form.
	m.Body, _ = json.Marshal(held)
	return m
}

// firing is an execution under a timer that fired.
type firing struct {
	*execution
	// schedule sets the timer again, for the present end of the wait.
	schedule bus.Message
}

// firingOf returns the timer that is the trigger. It returns false if the
// trigger is none that the run waits for.
func firingOf(x *execution) (firing, bool) {
	if x.deadlineFired() {
		return firing{x, ownTimer(x)}, !x.state.Ended()
	}
	n := len(x.state.Turns)
	if x.t.at.Kind != subjects.Due || x.t.at.Turn != n {
		return firing{}, false
	}
	turn := x.state.Turns[n-1]
	at := x.onPresentClock(turn.Entry.Timer)
	if x.state.Phase == run.Held {
		return firing{x, heldTimer(x.run, at, run.HeldTurn{Turn: n, Why: turn.Why})}, true
	}
	return firing{x, timer(x.run, n, at)}, x.state.Phase == run.Awaiting
}

// ownTimer returns the schedule of the run's own timer. For a tool run that
// waits for a person that is the end of the wait.
func ownTimer(x *execution) bus.Message {
	if h := x.state.Hold; h != nil {
		held := run.HeldTurn{Tool: x.state.Input.Tool.Name, Why: h.Why}
		return heldTimer(x.run, x.onPresentClock(h.Until), held)
	}
	return timer(x.run, 0, x.deadline())
}

// setAgain sets the timer again if it fired before its time, and reports
// whether it fired so. It leaves alone a timer that is set.
func (f firing) setAgain(ctx context.Context) (early bool, err error) {
	passed, err := f.clock().Passed(ctx, f.schedule.Timer.At.Add(-earlyBy))
	if err != nil || passed {
		return false, err
	}
	f.schedule.Fence = bus.First(f.schedule.Subject)
	return true, f.w.writeAll(ctx, []bus.Message{f.schedule})
}

// endWait stores that the time of the turn is over. Nothing fences the message:
// a second one changes nothing.
func (f firing) endWait(ctx context.Context) error {
	_, err := f.w.conn.Write(ctx, bus.Message{
		Subject: f.run.Fired(f.t.at.Turn), Header: schema(), Body: []byte("{}"),
	})
	return err
}

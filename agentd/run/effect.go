package run

import (
	"fmt"
	"time"
)

// Effect is something that a state still owes. The set is closed. Doing one
// again changes nothing: its Key follows from the log alone.
//
//sumtype:decl
type Effect interface {
	Key() string
	effect()
}

// CallModel asks the model for a turn.
type CallModel struct{ Turn int }

// CallChildren publishes what a turn has decided: the calls that have no
// outcome yet and its timer, and what nobody waits for.
type CallChildren struct {
	Turn     int
	Children []Child
	Timer    time.Time // zero: nobody is waited for

	// runs that go on beside this one
	Forks []Child
	Posts []Child // messages to other runs
	Kills []Child // runs to be ended
}

// Child is one child to call, or another run that a call is about.
type Child struct {
	Index    int
	Call     Call
	Deadline time.Time
}

// CancelBelow writes the cancel message of every child that is still awaited,
// and of every fork.
type CancelBelow struct {
	Below []Fork
	End   End
}

// NotifyIdle tells whoever has forked the run that it is idle, with what it has
// answered, and up to where it had read then.
type NotifyIdle struct {
	Turn int
	Seen uint64
}

// PublishAnswer publishes the outcome of a run whose last answer is on its log.
type PublishAnswer struct{ Turn int }

// LogEnd writes the end to the log.
type LogEnd struct{ End End }

// PublishFailure publishes a failed outcome. (A completed one is what CallModel leads
// to.)
type PublishFailure struct{ End End }

// StopBelow writes the tombstones of those that an interrupted run waits for, and of
// its forks, and sets the timer of the wait if there is one.
type StopBelow struct {
	Turn  int
	Below []Fork
	End   End
	Timer time.Time
}

// LogInterrupt writes to the log that an interrupted run has stopped before its
// model has answered.
type LogInterrupt struct{ Turn int }

// HoldTurn sets the timer of a turn that a person is to approve of.
type HoldTurn struct {
	Turn  int
	Timer time.Time
	Why   string
}

// Key names the effect within its run.
func (e CallModel) Key() string { return fmt.Sprintf("model.%d", e.Turn) }

// Key names the effect within its run.
func (e CallChildren) Key() string { return fmt.Sprintf("call.%d", e.Turn) }

// Key names the effect within its run.
func (CancelBelow) Key() string { return "cancel" }

// Key names the effect within its run.
func (LogEnd) Key() string { return "end" }

// Key names the effect within its run.
func (PublishFailure) Key() string { return "outcome" }

// Key names the effect within its run.
func (e NotifyIdle) Key() string { return fmt.Sprintf("rest.%d", e.Turn) }

// Key names the effect within its run.
func (PublishAnswer) Key() string { return "outcome" }

// Key names the effect within its run.
func (e StopBelow) Key() string { return fmt.Sprintf("stop.%d", e.Turn) }

// Key names the effect within its run.
func (e LogInterrupt) Key() string { return fmt.Sprintf("stopped.%d", e.Turn) }

// Key names the effect within its run.
func (e HoldTurn) Key() string { return fmt.Sprintf("hold.%d", e.Turn) }

func (StopBelow) effect()      {}
func (LogInterrupt) effect()   {}
func (HoldTurn) effect()       {}
func (CallModel) effect()      {}
func (NotifyIdle) effect()     {}
func (PublishAnswer) effect()  {}
func (CallChildren) effect()   {}
func (CancelBelow) effect()    {}
func (LogEnd) effect()         {}
func (PublishFailure) effect() {}

// Outstanding is what the state still owes, in the order in which it is to be
// carried out. It belongs to the holder of the message Owner.
func (s State) Outstanding() []Effect {
	switch s.Phase {
	case Ready:
		if s.halted > 0 {
			return append(s.beside(), LogInterrupt{len(s.Turns) + 1})
		}
		return append(s.beside(), CallModel{len(s.Turns) + 1})
	case Awaiting:
		e := s.deliver()
		if s.halted > 0 {
			stop := StopBelow{Turn: e.Turn, Below: s.cutOff(), End: EndInterrupted(), Timer: s.current().Entry.Timer}
			for _, c := range s.current().pending() {
				stop.Below = append(stop.Below, Fork{e.Turn, c})
			}
			return append(s.sent(), stop)
		}
		for _, c := range s.current().pending() {
			e.Children = append(e.Children, c)
			if s.current().Entry.Sequential {
				break
			}
		}
		e.Timer = s.current().Entry.Timer
		return append(s.ending(), e)
	case Idle:
		return append(append(s.sent(), s.ending()...), NotifyIdle{len(s.Turns), s.current().ReadTo()})
	case Held:
		return append(s.ending(), HoldTurn{len(s.Turns), s.current().Entry.Timer, s.current().Why})
	case Completed:
		if s.OutcomeStored || !s.final {
			return nil
		}
		return append(s.cancelBelow(), PublishAnswer{len(s.Turns)})
	case Failed:
		switch {
		case s.OutcomeStored:
			return nil
		case !s.needsLog() && s.logged:
			return []Effect{PublishFailure{s.End}}
		case !s.needsLog(): // it has had its turns; its forks have not
			return append(s.cancelBelow(), PublishFailure{s.End})
		}
		return append(s.cancelBelow(), LogEnd{s.End})
	case None:
		return nil
	}
	return nil
}

// beside is what a run owes before it asks its model again: what its last turn
// has sent out that nobody waits for, by whoever was its owner then, and word
// that it was idle: who had to give it may have died, or found the mail that
// has made the run ready.
func (s State) beside() []Effect {
	if len(s.Turns) == 0 {
		return nil
	}
	effects := append(s.sent(), s.ending()...)
	if s.LastTurnIdle() {
		effects = append(effects, NotifyIdle{len(s.Turns), s.current().ReadTo()})
	}
	return effects
}

// ending is the end of those forks that a person has stopped with their parent,
// and that have not ended.
func (s State) ending() []Effect {
	if below := s.cutOff(); len(below) > 0 {
		return []Effect{StopBelow{Turn: len(s.Turns), Below: below, End: EndInterrupted()}}
	}
	return nil
}

// sent is what the last turn sends out that nobody waits for, if it sends
// anything.
func (s State) sent() []Effect {
	if len(s.Turns) == 0 {
		return nil
	}
	if e := s.deliver(); len(e.Forks)+len(e.Posts)+len(e.Kills) > 0 {
		return []Effect{e}
	}
	return nil
}

// deliver is what the last turn sends out that nobody waits for.
func (s State) deliver() CallChildren {
	e := CallChildren{Turn: len(s.Turns)}
	if s.current().stage != carried {
		return e
	}
	for i, c := range s.current().Entry.Calls {
		child := Child{i, c, c.Deadline}
		switch {
		case c.Failed():
		case c.Op == OpFork && s.current().Outcomes[i] == nil:
			e.Forks = append(e.Forks, child)
		case c.Op == OpSend:
			e.Posts = append(e.Posts, child)
		case c.Op == OpKill:
			e.Kills = append(e.Kills, child)
		}
	}
	return e
}

// cancelBelow is owed by a run that ends while others work for it.
func (s State) cancelBelow() []Effect {
	if len(s.Turns) == 0 {
		return nil
	}
	var below []Fork
	for _, c := range s.current().pending() {
		below = append(below, Fork{len(s.Turns), c})
	}
	below = append(below, s.Forks()...)
	if len(below) == 0 {
		return nil
	}
	return []Effect{CancelBelow{below, s.endBelow()}}
}

// needsLog reports whether the end has to stand on the log before the outcome:
// it does for an end that came from outside, since another worker may be asking
// the model at this moment.
func (s State) needsLog() bool { return s.cancelled && !s.logged }

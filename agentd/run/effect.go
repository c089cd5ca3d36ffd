package run

import "time"

// Effect is work that a state owes. The set is closed. An effect follows from
// the run's messages alone. Its result may not: two workers may get two answers
// of a model. A fence makes the first one count.
//
//sumtype:decl
type Effect interface{ effect() }

// Owed is the work that a state owes to the holder of its owner message.
type Owed struct {
	// SideEffects are carried out first, in their order. They start forks,
	// write to other runs or end them. They do not move the run itself.
	SideEffects []Effect
	// Then is the main effect. It is nil if the state owes nothing.
	Then Effect
}

// All lists the effects in the order in which they are carried out.
func (o Owed) All() []Effect {
	if o.Then == nil {
		return nil
	}
	return append(o.SideEffects, o.Then)
}

// CallModel asks the model for a turn.
type CallModel struct{ Turn int }

// CallTool carries out the tool of a tool run. No other effect publishes the
// outcome: the worker that carries out CallTool does.
type CallTool struct{}

// CallChildren publishes the decisions of a turn. Without children and timer it
// is a side effect.
type CallChildren struct {
	Turn int
	// Children are the calls that the run waits for, that have no outcome,
	// and that are due: no earlier call has to end first. For a turn under
	// review that is the supervisor's run.
	Children []Child
	// Timer ends the wait for the children and for mail. It is zero if the
	// run waits for neither.
	Timer time.Time

	// Forks are the runs to start that work beside this one.
	Forks []Child
	// Posts are the messages to send to other runs.
	Posts []Child
	// Kills are the runs to end.
	Kills []Child
}

// Child is a child run to start, or another run that a call is about.
type Child struct {
	// Index is the place of the call in its turn, from 0.
	Index    int
	Call     Call
	Deadline time.Time
}

// CancelBelow writes the cancel messages of the children and forks of a run
// that has ended.
type CancelBelow struct {
	// Below are the awaited children, and the forks that have not ended.
	Below []Fork
	End   End
}

// NotifyIdle is owed by a run that has become idle. A fork tells its parent. A
// run that its parent waits for gets a timer for its own deadline. A root does
// nothing.
type NotifyIdle struct {
	Turn int
	// Seen is the last sequence that the run counts as read (Turn.ReadTo).
	Seen uint64
}

// PublishAnswer publishes the outcome of a run that has its last answer on its
// log.
type PublishAnswer struct{ Turn int }

// LogEnd appends the end of the run to its log.
type LogEnd struct{ End End }

// PublishFailure publishes the outcome of a run whose messages show that it has
// failed. No effect publishes the outcome of a turn that is not on the log,
// completed or failed: the worker that carries out CallModel does.
type PublishFailure struct{ End End }

// StopBelow writes the cancel messages of the children and forks of an
// interrupted run.
type StopBelow struct {
	Turn  int
	Below []Fork
	End   End
	// Timer ends the wait for their outcomes. It is zero if the run does
	// not wait for them.
	Timer time.Time
}

// LogInterrupt appends to the log that an interrupted run has stopped before
// its model has answered.
type LogInterrupt struct{ Turn int }

// HoldTurn sets the timer of a turn that waits for a person.
type HoldTurn struct {
	Turn  int
	Timer time.Time
	// Why says why the turn is held: the reason of the supervisor, or the
	// tool that a person has to approve.
	Why string
}

// HoldTool sets the timer of a tool run that waits for a person.
type HoldTool struct{ HeldTool }

// AwaitTask sets the timer that polls the server's task of a tool run.
type AwaitTask struct{}

// CancelTask asks the MCP server to end its task of a tool run that has ended.
type CancelTask struct{ ID string }

// PublishSettled publishes the outcome of a tool run that a person has settled.
type PublishSettled struct{ Result string }

func (StopBelow) effect()      {}
func (HoldTool) effect()       {}
func (AwaitTask) effect()      {}
func (CancelTask) effect()     {}
func (PublishSettled) effect() {}
func (LogInterrupt) effect()   {}
func (HoldTurn) effect()       {}
func (CallModel) effect()      {}
func (CallTool) effect()       {}
func (NotifyIdle) effect()     {}
func (PublishAnswer) effect()  {}
func (CallChildren) effect()   {}
func (CancelBelow) effect()    {}
func (LogEnd) effect()         {}
func (PublishFailure) effect() {}

// Outstanding returns the effects that the state owes. They belong to the
// holder of the message Owner.
func (s State) Outstanding() Owed {
	switch s.Phase {
	case Ready:
		if s.interruptedAt > 0 {
			return Owed{s.sideEffects(), LogInterrupt{len(s.Turns) + 1}}
		}
		if s.Input.Tool != nil {
			return Owed{Then: CallTool{}}
		}
		return Owed{s.sideEffects(), CallModel{len(s.Turns) + 1}}
	case Awaiting:
		return s.owedWhileAwaiting()
	case Idle:
		return Owed{append(s.unawaitedEffect(), s.stopForks()...), NotifyIdle{len(s.Turns), s.Turns.last().ReadTo()}}
	case Held:
		if s.Hold != nil {
			return Owed{Then: HoldTool{*s.Hold}}
		}
		return Owed{s.stopForks(), HoldTurn{len(s.Turns), s.Turns.last().Entry.Timer, s.Turns.last().Why}}
	case Polling:
		return Owed{Then: AwaitTask{}}
	case Completed:
		switch {
		case s.OutcomeStored:
		case s.answerLogged:
			return Owed{s.cancelBelow(), PublishAnswer{len(s.Turns)}}
		case s.settledWith != nil:
			return Owed{Then: PublishSettled{*s.settledWith}}
		}
	case Failed:
		switch {
		case s.OutcomeStored:
		case s.cancelled && !s.endLogged:
			// Another worker may be asking the model at this moment.
			// The log entry fences its answer.
			below := s.cancelBelow()
			if s.Task != nil {
				below = append(below, CancelTask{s.Task.ID})
			}
			return Owed{below, LogEnd{s.End}}
		case s.endLogged: // the runs below were cancelled before
			return Owed{nil, PublishFailure{s.End}}
		default:
			return Owed{s.cancelBelow(), PublishFailure{s.End}}
		}
	case None:
	}
	return Owed{}
}

func (s State) owedWhileAwaiting() Owed {
	e := s.Turns.unawaitedCalls()
	pending := s.Turns.last().pending()
	if s.interruptedAt > 0 {
		stop := StopBelow{
			Turn: e.Turn, Below: s.stoppedForks(), End: EndInterrupted(), Timer: s.Turns.last().Entry.Timer,
		}
		for _, c := range pending {
			stop.Below = append(stop.Below, Fork{e.Turn, c})
		}
		return Owed{s.unawaitedEffect(), stop}
	}
	e.Children, e.Timer = s.Turns.last().due(), s.Turns.last().Entry.Timer
	return Owed{s.stopForks(), e}
}

// sideEffects are the effects that a ready run owes before its model is asked:
// the forks, messages and kills of the last turn, the ends of stopped forks,
// and the notice that the run was idle. A worker may have carried them out
// before the run became ready, or may have died before it did.
func (s State) sideEffects() []Effect {
	effects := append(s.unawaitedEffect(), s.stopForks()...)
	if s.LastTurnIdle() {
		effects = append(effects, NotifyIdle{len(s.Turns), s.Turns.last().ReadTo()})
	}
	return effects
}

// stopForks returns the effect that ends the forks that a person has stopped by
// interrupting this run.
func (s State) stopForks() []Effect {
	if below := s.stoppedForks(); len(below) > 0 {
		return []Effect{StopBelow{Turn: len(s.Turns), Below: below, End: EndInterrupted()}}
	}
	return nil
}

// unawaitedEffect returns the calls of the last turn that the run does not wait
// for, as one effect. It returns nil if there are none.
func (s State) unawaitedEffect() []Effect {
	if e := s.Turns.unawaitedCalls(); len(e.Forks)+len(e.Posts)+len(e.Kills) > 0 {
		return []Effect{e}
	}
	return nil
}

// unawaitedCalls collects the calls of the last turn, if there is one, that the
// run does not wait for.
func (ts Turns) unawaitedCalls() CallChildren {
	e := CallChildren{Turn: len(ts)}
	if len(ts) == 0 || ts.last().stage != carriedOut {
		return e
	}
	for i, c := range ts.last().Entry.Calls {
		child := Child{i, c, c.Deadline}
		switch {
		case c.Failed():
		case c.Op == OpFork && ts.last().Outcomes[i] == nil:
			e.Forks = append(e.Forks, child)
		case c.Op == OpSend:
			e.Posts = append(e.Posts, child)
		case c.Op == OpKill:
			e.Kills = append(e.Kills, child)
		}
	}
	return e
}

// cancelBelow returns the effect that ends the runs that work for a run that
// has ended.
func (s State) cancelBelow() []Effect {
	if len(s.Turns) == 0 {
		return nil
	}
	var below []Fork
	for _, c := range s.Turns.last().pending() {
		below = append(below, Fork{len(s.Turns), c})
	}
	below = append(below, s.Turns.Forks()...)
	if len(below) == 0 {
		return nil
	}
	return []Effect{CancelBelow{below, s.endBelow()}}
}

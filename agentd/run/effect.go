package run

import (
	"fmt"
	"time"
)

// Effect is something that a state still owes. The set is closed. Doing one again changes nothing:
// its Key follows from the log alone.
//
//sumtype:decl
type Effect interface {
	Key() string
	effect()
}

// CallModel asks the model for a turn.
type CallModel struct{ Turn int }

// CallChildren publishes the calls that have no outcome yet, and the timer of the turn.
type CallChildren struct {
	Turn     int
	Children []Child
	Timer    time.Time
}

// Child is one child to call.
type Child struct {
	Index    int
	Call     Call
	Deadline time.Time
}

// CancelBelow writes the tombstone of every child that is still awaited.
type CancelBelow struct {
	Turn     int
	Children []Child
}

// LogEnd writes the end to the log.
type LogEnd struct{ End End }

// Conclude publishes a failed outcome. (A completed one is what CallModel leads to.)
type Conclude struct{ End End }

// Key names the effect within its run.
func (e CallModel) Key() string { return fmt.Sprintf("model.%d", e.Turn) }

// Key names the effect within its run.
func (e CallChildren) Key() string { return fmt.Sprintf("call.%d", e.Turn) }

// Key names the effect within its run.
func (e CancelBelow) Key() string { return fmt.Sprintf("cancel.%d", e.Turn) }

// Key names the effect within its run.
func (LogEnd) Key() string { return "end" }

// Key names the effect within its run.
func (Conclude) Key() string { return "outcome" }

func (CallModel) effect()    {}
func (CallChildren) effect() {}
func (CancelBelow) effect()  {}
func (LogEnd) effect()       {}
func (Conclude) effect()     {}

// Outstanding is what the state still owes, in the order in which it is to be carried out. It belongs
// to the holder of the message Owner.
func (s State) Outstanding() []Effect {
	switch s.Phase {
	case Ready:
		return []Effect{CallModel{len(s.Turns) + 1}}
	case Awaiting:
		t := s.current()
		e := CallChildren{Turn: len(s.Turns), Timer: t.Entry.Timer}
		for _, c := range t.pending() {
			e.Children = append(e.Children, c)
			if t.Entry.Sequential {
				break
			}
		}
		return []Effect{e}
	case Failed:
		if s.Concluded {
			return nil
		}
		if !s.needsLog() {
			return []Effect{Conclude{s.End}}
		}
		var effects []Effect
		if s.cut && len(s.Turns) > 0 {
			if below := s.current().pending(); len(below) > 0 {
				effects = append(effects, CancelBelow{len(s.Turns), below})
			}
		}
		return append(effects, LogEnd{s.End})
	case None, Completed:
		return nil
	}
	return nil
}

// needsLog reports whether the end has to stand on the log before the outcome: it does for an end
// that came from outside, since another worker may be asking the model at this moment.
func (s State) needsLog() bool { return s.cancelled && !s.logged }

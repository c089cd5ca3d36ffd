package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/subjects"
)

// Mode says how closely a run is supervised. A higher mode is closer.
type Mode int

// The modes.
const (
	Unsupervised Mode = iota
	// Supervised: a supervisor reviews each turn before it takes effect.
	Supervised
	// Human: where the supervisor wants to pause, a person decides.
	Human
)

// Supervision says how a run is supervised. The zero value is no supervision.
type Supervision struct {
	Mode Mode `json:"mode"`
	// Agent is the name of the supervisor.
	Agent string `json:"agent"`
	// Timeout is the time that a person has to decide. It ends with the
	// run's own time at the latest.
	Timeout time.Duration `json:"timeout_ns,omitzero"`
	// OnTimeout is the decision if no person has made one by then: true
	// approves the turn.
	OnTimeout bool `json:"on_timeout,omitzero"`
}

// Within returns the supervision of a run that asks for s, called by a run with
// above. It is at least as close as the caller's. If the caller is supervised,
// its supervisor reviews the run, in place of the run's own. Where both want a
// person to decide, the shorter timeout holds, and silence approves only if it
// does for both.
func (s Supervision) Within(above Supervision) Supervision {
	switch {
	case above.Mode == Unsupervised:
		return s
	case s.Mode < above.Mode:
		return above
	case s.Mode == Human && above.Mode == Human:
		s.Timeout, s.OnTimeout = min(s.Timeout, above.Timeout), s.OnTimeout && above.OnTimeout
	}
	s.Agent = above.Agent
	return s
}

// Decision is a supervisor's decision about a turn.
type Decision string

// The decisions.
const (
	// Continue carries the turn out.
	Continue Decision = "continue"
	// Reorient withholds the turn and gives the run a correction.
	Reorient Decision = "reorient"
	// Pause withholds the turn, or holds it for a person in the mode Human.
	Pause Decision = "pause"
)

// Verdict is a supervisor's answer.
type Verdict struct {
	Decision Decision `json:"decision"`
	// Correction is for the run's model, with Reorient.
	Correction string `json:"correction"`
	// Reason is for the person, with Pause. Where no person decides, the
	// run's model reads it.
	Reason string `json:"reason"`
}

// verdictOf reads the outcome of a supervisor's run. An outcome without a
// verdict counts as Pause.
func verdictOf(o Outcome) Verdict {
	if o.Status != StatusCompleted {
		return Verdict{Decision: Pause, Reason: textSupervisorFailed + o.Error}
	}
	text := o.Result
	// the model may have put prose or a fence around the JSON
	if i, j := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}'); i >= 0 && j > i {
		text = text[i : j+1]
	}
	var v Verdict
	err := json.Unmarshal([]byte(text), &v)
	if err == nil && (v.Decision == Continue || v.Decision == Pause || v.Decision == Reorient && v.Correction != "") {
		return v
	}
	return Verdict{Decision: Pause, Reason: textNoVerdict}
}

// Approval is a person's decision about a held turn. It is the body of a
// message.
type Approval struct {
	// Turn is the turn that it is about, from 1. 0 is the turn that is
	// held.
	Turn    int  `json:"turn,omitzero"`
	Approve bool `json:"approve"`
	// Arguments are JSON objects that replace the arguments of calls of
	// tools, by the number of the call in its turn, from 0. The run's model
	// reads them with the result.
	Arguments map[int]json.RawMessage `json:"arguments,omitempty"`
	// Reason says why the turn is denied. The run's model reads it.
	Reason string `json:"reason,omitzero"`
	// By is the name that the person gives. It is not proven.
	By string `json:"by,omitzero"`
}

// HeldTurn is the body of the timer of a held turn, and of a held tool run.
// Clients find both by these timers.
type HeldTurn struct {
	// Turn is the turn, from 1. It is 0 for a tool run.
	Turn int `json:"turn"`
	// Tool is the name of the tool of a held tool run, empty for a turn.
	Tool string `json:"tool,omitzero"`
	// Why is the reason that the supervisor gave, or says that the tool may
	// have taken effect.
	Why string `json:"why"`
}

// DecodeApproval reads an approval from the body of its message. It returns an
// error for a body without "approve", and for arguments that are no JSON object
// or stand beside a denial.
func DecodeApproval(b []byte) (Approval, error) {
	var a Approval
	has := struct {
		Approve *bool `json:"approve"`
	}{}
	if err := errors.Join(json.Unmarshal(b, &a), json.Unmarshal(b, &has)); err != nil {
		return Approval{}, fmt.Errorf("approval: %w", err)
	}
	if has.Approve == nil {
		return Approval{}, errors.New(`approval: want the field "approve", true or false`)
	}
	for call, args := range a.Arguments {
		if !a.Approve || len(args) == 0 || args[0] != '{' {
			return Approval{}, fmt.Errorf("approval: arguments of call %d: want a JSON object and an approval", call)
		}
	}
	return a, nil
}

// stage says how far a turn has come on its way to take effect.
type stage int

const (
	carriedOut  stage = iota // its calls take effect
	underReview              // the supervisor has not answered
	held                     // waits for a person
	withheld                 // its calls take no effect
)

// reviewed folds the outcome of the supervisor.
func (s State) reviewed(m Meta, o Outcome) State {
	s = s.edit(func(t *Turn) { t.Verdict = &o })
	if s.interruptedAt > 0 {
		return s.withhold(m.Seq, EndInterrupted())
	}
	return s.decide(m, verdictOf(o))
}

// decide applies a verdict to the last turn. A supervisor that was not shown
// the whole turn cannot let it continue.
func (s State) decide(m Meta, v Verdict) State {
	if v.Decision == Continue && s.Turns.last().Entry.Cut {
		v = Verdict{Decision: Pause, Reason: textCutArgument}
	}
	switch v.Decision {
	case Continue:
		return permit(s, m)
	case Reorient:
		return s.withhold(m.Seq, refusal(textReoriented(v.Correction)))
	case Pause:
	}
	if s.Start().Supervision.Mode < Human {
		return s.withhold(m.Seq, refusal(textUnattended(v.Reason)))
	}
	timer := m.Time.Add(s.Start().Supervision.Timeout)
	if until := s.Turns.last().Entry.Until; !until.IsZero() && until.Before(timer) {
		timer = until
	}
	return hold(s, m.Seq, timer, v.Reason)
}

// hold makes the last turn wait for a person until a time.
func hold(s State, owner uint64, until time.Time, why string) State {
	s = s.edit(func(t *Turn) {
		t.stage, t.Why = held, why
		t.Entry.Timer = until
	})
	s.Phase, s.Owner = Held, owner
	return s
}

// Decides reports whether the decision is about the turn that a run holds. Its
// sender may still be one that does not count.
func (e Approved) Decides(s State) bool {
	return s.Phase == Held && s.Hold == nil && (e.Turn == 0 || e.Turn == len(s.Turns))
}

// Counts reports whether the decision of a user about a held turn counts. It
// does unless the agent has approvers, and the user is none of them.
func (s *Start) Counts(sender subjects.By) bool { return s == nil || s.Approvers.Names(sender) }

// approved folds a person's decision. It does nothing if the agent has
// approvers, and the sender is none of them. An approval that has arguments for
// a call that takes none does nothing either: the person did not mean this
// turn.
func (s State) approved(e Approved) State {
	if !e.Decides(s) || !s.Start().Counts(e.Sender) {
		return s
	}
	decided := s.edit(func(t *Turn) { t.Decider = e.Sender })
	if !e.Approve {
		return decided.withhold(e.Seq, refusal(textDenied(e.Reason)))
	}
	for call := range e.Arguments {
		if !s.Turns.last().Entry.TakesArguments(call) {
			return s
		}
	}
	return decided.edit(func(t *Turn) { t.Entry.Calls = withArguments(t.Entry.Calls, e.Arguments) }).carryOut(e.Meta)
}

// TakesArguments reports whether a person who approves of the turn may give the
// call with a number, from 0, other arguments: whether it makes a tool run.
func (e Entry) TakesArguments(call int) bool {
	return call >= 0 && call < len(e.Calls) && e.Calls[call].MakesToolRun()
}

// withArguments returns calls with the arguments that a person gave.
func withArguments(calls []Call, given map[int]json.RawMessage) []Call {
	if len(given) == 0 {
		return calls
	}
	calls = slices.Clone(calls)
	for i, args := range given {
		calls[i].Arguments, calls[i].Changed = args, true
	}
	return calls
}

// noAnswerInTime folds the timer of a turn that is under review or held. If the
// wait for a person ends with the run's own time, nothing is decided: the run
// times out. Silence approves for a supervisor alone: a turn with a tool that a
// person approves is held on.
func (s State) noAnswerInTime(e TimedOut) State {
	sup := s.Start().Supervision
	switch {
	case s.interruptedAt > 0:
		return s.withhold(e.Seq, EndInterrupted())
	case s.Phase != Held:
		return s.decide(e.Meta, Verdict{Decision: Pause, Reason: textLateVerdict})
	case s.Turns.last().Entry.Timer.Equal(s.Turns.last().Entry.Until):
		return s
	case sup.OnTimeout:
		return permit(s, e.Meta)
	}
	return s.withhold(e.Seq, refusal(textUnapproved(sup.Timeout)))
}

// refusal is the end of the calls of a withheld turn.
func refusal(text string) End { return End{Kind: KindCancelled, Text: text} }

// withhold ends the last turn without effect. The end becomes the outcome of
// each of its calls, which the model reads.
func (s State) withhold(owner uint64, end End) State {
	return s.edit(func(t *Turn) {
		t.stage, t.Why = withheld, end.Text
		for i, c := range t.Entry.Calls {
			if !c.Failed() {
				endCall(t, i, end)
			}
		}
		t.pendingCount = 0
	}).ready(owner)
}

// CarriedOut reports whether the calls of the turn take effect.
func (t Turn) CarriedOut() bool { return t.stage == carriedOut }

// Withheld says why the turn was withheld. It is empty for any other turn.
func (t Turn) Withheld() string {
	if t.stage == withheld {
		return t.Why
	}
	return ""
}

// HasUnusedGrant reports whether the turn may have been granted more runs than
// it will make: it was withheld, or the budget had room for the supervisor's
// run and for none of the runs that the turn calls.
func (t Turn) HasUnusedGrant() bool {
	refused := func(c Call) bool { return c.Kind == KindBudget }
	return t.stage == withheld || slices.ContainsFunc(t.Entry.Calls, refused) && !t.Entry.HasEffect()
}

// RunCount returns the number of runs that the turn makes, the supervisor's
// included.
func (t Turn) RunCount() (n int) {
	if t.Entry.Review != nil && t.Entry.Review.MakesRun() {
		n++
	}
	for _, c := range t.Entry.Calls {
		if t.stage == carriedOut && c.MakesRun() {
			n++
		}
	}
	return n
}

// ToolRunCount returns the number of tool runs that the turn makes.
func (t Turn) ToolRunCount() (n int) {
	for _, c := range t.Entry.Calls {
		if t.stage == carriedOut && c.MakesToolRun() {
			n++
		}
	}
	return n
}

// interrupted folds a person's interrupt. The run and the runs below it stop.
func (s State) interrupted(e Interrupted) State {
	if s.interruptedAt > 0 || s.Phase == None || s.Ended() || s.Input.Tool != nil {
		return s
	}
	s.forksStoppedTo = e.Seq
	switch s.Phase {
	case Held:
		s.interruptedAt = e.Seq
		return s.withhold(e.Seq, EndInterrupted())
	case Ready:
		s.interruptedAt, s.Owner = e.Seq, e.Seq
	case Awaiting:
		s.interruptedAt = e.Seq
		s = s.edit(func(t *Turn) { stopCalls(t, e.Time) }).collectMail(e.Seq, true)
		if s.Phase == Awaiting {
			s.Owner = e.Seq
		}
	case Idle:
		s.muted = true
		if len(s.stoppedForks()) > 0 {
			s.Owner = e.Seq
		}
	case None, Polling, Completed, Failed:
	}
	return s
}

// stopCalls ends the calls of a turn that have not been published, since an
// earlier call holds them back. It bounds the wait for the others.
func stopCalls(t *Turn, at time.Time) {
	for _, c := range t.pending()[len(t.due()):] {
		endCall(t, c.Index, EndInterrupted())
		t.pendingCount--
	}
	if by := at.Add(interruptTimeout); by.Before(t.Entry.Timer) {
		t.Entry.Timer = by
	}
}

// stoppedForks lists the forks that an interrupt of this run has stopped, and
// that have not ended.
func (s State) stoppedForks() []Fork {
	return slices.DeleteFunc(s.Turns.Forks(), func(f Fork) bool { return s.Turns[f.Turn-1].at > s.forksStoppedTo })
}

// interruptTimeout is the time that an interrupted run waits for the outcomes
// of the runs that it has called.
const interruptTimeout = 10 * time.Second

// Interrupted reports whether a person has interrupted the run, and no message
// has made it ready since.
func (s State) Interrupted() bool { return s.interruptedAt > 0 || s.muted }

package run

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Mode says how closely a run is supervised. A later one is closer.
type Mode int

// The modes.
const (
	Unsupervised Mode = iota
	// a supervisor sees each turn that would act before anything of it is
	// done
	Supervised
	// and where it wants to pause, a person decides
	Human
)

// Supervision says who watches over a run. The zero value is nobody.
type Supervision struct {
	Mode  Mode   `json:"mode"`
	Agent string `json:"agent"` // the supervisor
	// how long a person may take, within the run's own time
	Timeout time.Duration `json:"timeout_ns,omitzero"`
	// what it comes to if nobody answered by then: true lets the turn go on
	OnTimeout bool `json:"on_timeout,omitzero"`
}

// Within is the supervision of a run that has this one of its own and is called
// by one with another: it can only be closer, and who watches over the caller
// watches over it too. Where both want a person to decide, it has the shorter
// of both times, and silence is approval only if it is for both.
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

// Decision is what a supervisor wants to become of a turn.
type Decision string

// The decisions.
const (
	Continue Decision = "continue"
	// nothing of it is done, and the run is told what to do instead
	Reorient Decision = "reorient"
	// nothing of it is done until a person has decided
	Pause Decision = "pause"
)

// Verdict is a supervisor's answer.
type Verdict struct {
	Decision   Decision `json:"decision"`
	Correction string   `json:"correction"` // for Reorient
	Reason     string   `json:"reason"`     // for Pause
}

// verdictOf reads the outcome of a supervisor's run. What is no verdict is a
// pause.
func verdictOf(o Outcome) Verdict {
	if o.Status != StatusCompleted {
		return Verdict{Decision: Pause, Reason: "the supervisor failed: " + o.Error}
	}
	text := o.Result
	// around it there may be prose, or a fence
	if i, j := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}'); i >= 0 && j > i {
		text = text[i : j+1]
	}
	var v Verdict
	err := json.Unmarshal([]byte(text), &v)
	switch {
	case err == nil && (v.Decision == Continue || v.Decision == Pause),
		err == nil && v.Decision == Reorient && v.Correction != "":
		return v
	default:
		return Verdict{Decision: Pause, Reason: "the supervisor gave no verdict"}
	}
}

// Approval is a person's word on a turn.
type Approval struct {
	// that it is about; 0: whichever is held
	Turn    int    `json:"turn,omitzero"`
	Approve bool   `json:"approve"`
	Reason  string `json:"reason,omitzero"`
	By      string `json:"by,omitzero"`
}

// HeldTurn is the body of the timer of a turn that a person is to approve of,
// by which people find it.
type HeldTurn struct {
	Turn int    `json:"turn"`
	Why  string `json:"why"` // its supervisor wants to pause
}

// DecodeApproval reads a person's word from the body of its message.
func DecodeApproval(b []byte) (Approval, error) {
	var a Approval
	if err := json.Unmarshal(b, &a); err != nil {
		return Approval{}, fmt.Errorf("approval: %w", err)
	}
	return a, nil
}

// stage is how far a turn has come to be carried out.
type stage int

const (
	carried  stage = iota // it is
	reviewed              // its supervisor has not answered
	held                  // a person is to decide
	withheld              // nothing of it is
)

// Review is the call of the supervisor that is waited for, if the last turn
// waits for one.
func (s State) review() (Child, bool) {
	if len(s.Turns) == 0 || s.Phase != Awaiting || s.current().stage != reviewed {
		return Child{}, false
	}
	e := s.current().Entry
	return Child{len(e.Calls), *e.Review, e.Review.Deadline}, true
}

// judged folds the outcome of the supervisor.
func (s State) judged(m Meta, o Outcome) State {
	t := s.current()
	t.Verdict = &o
	s = s.amend(t)
	if s.halted > 0 {
		return s.withhold(m.Seq, EndInterrupted())
	}
	return s.follow(m, verdictOf(o))
}

// follow does what a supervisor wants. It cannot be content with what it has
// not seen.
func (s State) follow(m Meta, v Verdict) State {
	if v.Decision == Continue && s.current().Entry.Cut {
		v = Verdict{Decision: Pause, Reason: "An argument is too long for the supervisor to see all of it."}
	}
	switch v.Decision {
	case Continue:
		return s.carryOut(m)
	case Reorient:
		return s.withhold(m.Seq, refusal("Nothing of this turn was carried out. Your supervisor says: "+v.Correction))
	case Pause:
	}
	if s.Start().Supervision.Mode < Human {
		return s.withhold(m.Seq, refusal("Nothing of this turn was carried out: "+
			"your supervisor wants a person to look at it first, and nobody is there. "+v.Reason))
	}
	t := s.current()
	t.stage, t.Why = held, v.Reason
	t.Entry.Timer = m.Time.Add(s.Start().Supervision.Timeout)
	if until := t.Entry.Until; !until.IsZero() && until.Before(t.Entry.Timer) {
		t.Entry.Timer = until
	}
	s = s.amend(t)
	s.Phase, s.Owner = Held, m.Seq
	return s
}

// approved folds a person's word.
func (s State) approved(e Approved) State {
	if s.Phase != Held || e.Turn != 0 && e.Turn != len(s.Turns) {
		return s
	}
	if e.Approve {
		return s.carryOut(e.Meta)
	}
	reason := "Nothing of this turn was carried out: it was denied"
	if e.Reason != "" {
		reason += ". " + e.Reason
	}
	return s.withhold(e.Seq, refusal(reason))
}

// unanswered folds that nobody has answered in time: the supervisor, or a
// person. A person who had until the end of the run has let it end: what there
// is no time left for is not decided on anybody's behalf.
func (s State) unanswered(e TimedOut) State {
	sup := s.Start().Supervision
	switch {
	case s.halted > 0:
		return s.withhold(e.Seq, EndInterrupted())
	case s.Phase != Held:
		return s.follow(e.Meta, Verdict{Decision: Pause, Reason: "the supervisor did not answer in time"})
	case s.current().Entry.Timer.Equal(s.current().Entry.Until):
		// it is the run's time that is over, and not the person's
		return s
	case sup.OnTimeout:
		return s.carryOut(e.Meta)
	}
	return s.withhold(e.Seq, refusal(fmt.Sprintf(
		"Nothing of this turn was carried out: nobody has approved of it within %ds", int(sup.Timeout/time.Second))))
}

// refusal is the end of a turn's calls of which nothing is carried out.
func refusal(text string) End { return End{Kind: KindCancelled, Text: text} }

// withhold ends a turn of which nothing is carried out. Each of its calls gets
// the end as its outcome, which the model reads.
func (s State) withhold(owner uint64, end End) State {
	t := s.current()
	t.stage, t.Why = withheld, end.Text
	t.Outcomes = slices.Clone(t.Outcomes)
	for i, c := range t.Entry.Calls {
		if !c.Failed() {
			o := end.Outcome()
			o.Agent = c.Agent
			t.Outcomes[i] = &o
		}
	}
	t.left = 0
	return s.amend(t).ready(owner)
}

// amend replaces the current turn.
func (s State) amend(t Turn) State {
	s.Turns = slices.Clone(s.Turns)
	s.Turns[len(s.Turns)-1] = t
	return s
}

// CarriedOut reports whether a turn is carried out: it was not withheld, and
// nobody has to say so yet.
func (t Turn) CarriedOut() bool { return t.stage == carried }

// Withheld is why nothing of a turn was carried out, "" if it was, or may be
// yet.
func (t Turn) Withheld() string {
	if t.stage == withheld {
		return t.Why
	}
	return ""
}

// HasUnusedGrant reports whether a turn may have been granted more runs than it will
// ever make: nothing of it was carried out, or there was room for its
// supervisor's run and for none of those that it was to look at.
func (t Turn) HasUnusedGrant() bool {
	refused := func(c Call) bool { return c.Kind == KindBudget }
	return t.stage == withheld || slices.ContainsFunc(t.Entry.Calls, refused) && !t.Entry.HasEffect()
}

// RunCount is how many runs a turn makes, its supervisor's included.
func (t Turn) RunCount() (n int) {
	if t.Entry.Review != nil && t.Entry.Review.MakesRun() {
		n++
	}
	for _, c := range t.Entry.Calls {
		if t.stage == carried && c.MakesRun() {
			n++
		}
	}
	return n
}

// interrupted folds that a person wants the run to stop what it is doing, and
// all that work for it.
func (s State) interrupted(e Interrupted) State {
	if s.halted > 0 || s.Phase == None || s.Ended() {
		return s // it is stopping
	}
	s.cutoff = e.Seq
	switch s.Phase {
	case Held:
		s.halted = e.Seq
		return s.withhold(e.Seq, EndInterrupted())
	case Ready:
		s.halted, s.Owner = e.Seq, e.Seq
	case Awaiting:
		s.halted = e.Seq
		t := s.current()
		t.Outcomes = slices.Clone(t.Outcomes)
		for i, c := range t.pending() {
			if t.Entry.Sequential && i > 0 { // nobody has called it yet
				o := EndInterrupted().Outcome()
				o.Agent = c.Call.Agent
				t.Outcomes[c.Index] = &o
				t.left--
			}
		}
		if at := e.Time.Add(stopWithin); at.Before(t.Entry.Timer) {
			t.Entry.Timer = at
		}
		s = s.amend(t).collect(e.Seq, true)
		if s.Phase == Awaiting {
			s.Owner = e.Seq
		}
	case Idle:
		if s.quiet = true; len(s.cutOff()) > 0 {
			s.Owner = e.Seq
		}
	case None, Completed, Failed:
	}
	return s
}

// cutOff lists the forks that a person has stopped with their parent, and that
// have not ended.
func (s State) cutOff() []Fork {
	return slices.DeleteFunc(s.Forks(), func(f Fork) bool { return s.Turns[f.Turn-1].at > s.cutoff })
}

// stopWithin is how long an interrupted run waits for the outcomes of those
// that it has called.
const stopWithin = 10 * time.Second

// Interrupted reports whether a person has interrupted the run, and no message
// has made it go on since.
func (s State) Interrupted() bool { return s.halted > 0 || s.quiet }

package run_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// toolEvents makes and folds the events of a tool run, in stream order.
type toolEvents struct {
	t     *testing.T
	state run.State
	seq   uint64
	index int
}

// meta is the place of the next message: its sequence and its time.
func (h *toolEvents) meta() run.Meta {
	h.seq++
	return run.Meta{Seq: h.seq, Time: epoch.Add(time.Duration(h.seq) * time.Second)}
}

// apply folds an event, which must not be refused.
func (h *toolEvents) apply(e run.Event) {
	h.t.Helper()
	var err error
	if h.state, err = h.state.Apply(e); err != nil {
		h.t.Fatal(err)
	}
}

// called begins a run with a tool that asks a person after an unknown end.
func (h *toolEvents) called() {
	h.apply(run.Called{Meta: h.meta(), Input: run.Input{Tool: &run.ToolInput{Name: "pay", OnUnknown: run.UnknownAsk}}})
}

// begun puts an attempt on the log.
func (h *toolEvents) begun(id string) {
	h.index++
	h.apply(run.ToolStarted{Meta: h.meta(), Entry: run.Entry{
		Index: h.index, Kind: run.EntryStarted, Trigger: 1, Worker: "w", Attempt: &run.Attempt{ID: id},
	}})
}

// held puts on the log that the run waits for a person.
func (h *toolEvents) held() {
	h.index++
	h.apply(run.ToolHeld{Meta: h.meta(), Entry: run.Entry{
		Index: h.index, Kind: run.EntryHeld, Trigger: 1, Until: epoch.Add(time.Hour),
		End: &run.End{Kind: run.KindUnknown, Text: "who knows"},
	}})
}

// asked puts on the log that the run waits for the answers to a form.
func (h *toolEvents) asked(form run.Form) {
	h.index++
	h.apply(run.ToolHeld{Meta: h.meta(), Entry: run.Entry{
		Index: h.index, Kind: run.EntryHeld, Trigger: 1, Until: epoch.Add(time.Hour),
		End: &run.End{Text: form.String()}, Form: &form,
	}})
}

// settled is a person's settlement of an attempt or a form. It returns its
// sequence.
func (h *toolEvents) settled(as run.SettleAs, attempt string) uint64 {
	h.apply(run.Settled{Meta: h.meta(), Settlement: run.Settlement{As: as, Attempt: attempt, Text: "a text"}})
	return h.seq
}

// want checks the phase, the owner and the main effect.
func (h *toolEvents) want(phase run.Phase, owner uint64, then run.Effect) {
	h.t.Helper()
	if got := h.state.Outstanding().Then; h.state.Phase != phase || h.state.Owner != owner || got != then {
		h.t.Errorf("phase %v, owner %d, effect %#v, want %v, %d, %#v",
			h.state.Phase, h.state.Owner, got, phase, owner, then)
	}
}

// TestSettledAgain: the settlement "again" allows one more attempt. Settlements
// of an earlier attempt do nothing to a later one.
func TestSettledAgain(t *testing.T) {
	h := &toolEvents{t: t}
	h.called()
	h.begun("one")
	h.held()
	h.want(run.Held, 1, run.HoldTool{HeldTool: run.HeldTool{
		ID: "one", Since: epoch.Add(3 * time.Second), Until: epoch.Add(time.Hour), Why: "who knows",
	}})
	h.settled(run.SettleDone, "zero")
	if h.state.Phase != run.Held {
		t.Fatalf("a settlement of another attempt made the run %v, want it %v", h.state.Phase, run.Held)
	}
	again := h.settled(run.SettleAgain, "one")
	h.want(run.Ready, again, run.CallTool{})
	if !h.state.MayBeginAgain {
		t.Error("after the settlement the tool may not begin again, want that it may")
	}
	h.settled(run.SettleDone, "one")
	h.want(run.Ready, again, run.CallTool{})
	h.begun("two")
	if h.state.MayBeginAgain || h.state.Hold != nil {
		t.Errorf("after the second attempt the tool may begin again: %t, held: %v", h.state.MayBeginAgain, h.state.Hold)
	}
	h.held()
	h.settled(run.SettleDone, "one")
	if h.state.Phase != run.Held {
		t.Fatalf("a settlement of the first attempt made the run %v, want it %v", h.state.Phase, run.Held)
	}
	done := h.settled(run.SettleDone, "two")
	h.want(run.Completed, done, run.PublishSettled{Result: "a text"})
}

// TestSettledByApprovers: of a held tool run with approvers, the decision of
// another user does nothing, and neither does one without a proven sender. That
// holds for an attempt and for a form.
func TestSettledByApprovers(t *testing.T) {
	by := func(role, name string) subjects.By {
		b, err := subjects.ParseBy(role, name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	form := run.Form{ID: "f", Questions: []run.Question{{Key: "a", Text: "Which city?"}}}
	for as, then := range map[run.SettleAs]run.Phase{
		run.SettleDone: run.Completed, run.SettleAgain: run.Ready, run.SettleFail: run.Failed,
		run.SettleAnswer: run.Ready, run.SettleDecline: run.Ready,
	} {
		h := &toolEvents{t: t}
		h.apply(run.Called{Meta: h.meta(), Input: run.Input{Tool: &run.ToolInput{
			Name: "pay", OnUnknown: run.UnknownAsk, Approvers: subjects.Approvers{"user:alice", "role:operator"},
		}}})
		if as.FillsForm() {
			h.asked(form)
		} else {
			h.begun("one")
			h.held()
		}
		for _, sender := range []subjects.By{{}, by("submitter", "bob"), by("submitter", "operator")} {
			e := run.Settled{Meta: h.meta(), Settlement: run.Settlement{As: as, By: "alice"}}
			e.Sender = sender
			if !e.Decides(h.state) {
				t.Errorf("%s by %q is not about the held call", as, sender)
			}
			if h.apply(e); h.state.Phase != run.Held || h.state.Owner == e.Seq {
				t.Errorf("%s by %q counts: the run is %v", as, sender, h.state.Phase)
			}
		}
		e := run.Settled{Meta: h.meta(), Settlement: run.Settlement{As: as}}
		e.Sender = by("operator", "carol")
		if h.apply(e); h.state.Phase != then || h.state.Owner != e.Seq {
			t.Errorf("%s by an approver: the run is %v, want %v", as, h.state.Phase, then)
		}
	}
}

// TestSettledForm: a tool that asks for input is held without an attempt, and
// called again with the first answers to its form. An attempt in which it asked
// is over. The answers stay until the tool asks again. A form is not settled as
// an attempt is, nor an attempt as a form.
func TestSettledForm(t *testing.T) {
	one := run.Form{ID: "f1", State: "s1", Questions: []run.Question{{Key: "a", Text: "Which city?"}}}
	two := run.Form{ID: "f2", Questions: []run.Question{{Key: "a", Text: "Why?"}, {Key: "b", Text: "When?"}}}
	h := &toolEvents{t: t}
	h.called()
	h.begun("one")
	h.asked(one)
	h.want(run.Held, 1, run.HoldTool{HeldTool: *h.state.Hold})
	if h.state.Attempt != nil || h.state.Hold.Why != "the tool asks: Which city?" || h.state.Hold.ID != "f1" {
		t.Errorf("held for %q with the id %q and the attempt %+v, want the question, f1 and none",
			h.state.Hold.Why, h.state.Hold.ID, h.state.Attempt)
	}
	for _, as := range []run.SettleAs{run.SettleDone, run.SettleAgain, run.SettleFail} {
		h.settled(as, "f1")
	}
	h.settled(run.SettleAnswer, "one")
	if h.state.Phase != run.Held {
		t.Fatalf("a settlement that is no answer to the form made the run %v, want it %v", h.state.Phase, run.Held)
	}
	answers := map[string]json.RawMessage{"a": json.RawMessage(`{"city":"Bern"}`)}
	h.apply(run.Settled{Meta: h.meta(), Settlement: run.Settlement{As: run.SettleAnswer, Answers: answers}})
	answered := h.seq
	h.want(run.Ready, answered, run.CallTool{})
	h.settled(run.SettleDecline, "f1")
	filled := h.state.Filled
	city := string(filled.Answers["a"])
	if filled.ID != "f1" || filled.State != "s1" || filled.Declined || city != `{"city":"Bern"}` {
		t.Errorf("the form is filled as %+v, want with the first answer", filled)
	}
	h.begun("two")
	h.held()
	h.settled(run.SettleAnswer, "two")
	if h.state.Phase != run.Held || h.state.Filled != filled {
		t.Fatalf("an answer to an attempt made the run %v with %+v, want it %v with the first answers",
			h.state.Phase, h.state.Filled, run.Held)
	}
	h.settled(run.SettleAgain, "two")
	h.asked(two)
	if want := "the tool asks 2 questions: Why? …"; h.state.Hold.Why != want {
		t.Errorf("held for %q, want %q", h.state.Hold.Why, want)
	}
	declined := h.settled(run.SettleDecline, "")
	h.want(run.Ready, declined, run.CallTool{})
	if !h.state.Filled.Declined || h.state.Filled.ID != "f2" {
		t.Errorf("the second form is filled as %+v, want it declined", h.state.Filled)
	}
}

// TestSettledFailed: after the settlement "fail" the run owes its failure. A
// later cancel message changes nothing.
func TestSettledFailed(t *testing.T) {
	h := &toolEvents{t: t}
	h.called()
	h.begun("one")
	h.held()
	failed := h.settled(run.SettleFail, "")
	end := run.End{Kind: run.KindUnknown, Text: "who knows A person has let the run fail: a text"}
	h.want(run.Failed, failed, run.PublishFailure{End: end})
	h.apply(run.Cancelled{Meta: h.meta(), End: run.End{Kind: run.KindCancelled, Text: "cancelled"}})
	h.want(run.Failed, failed, run.PublishFailure{End: end})
}

// TestSettledIsFenced: a cancel message makes a held tool run owe its end to
// the log, and no settlement counts after that. A timer of turn 0 and an
// approval do nothing.
func TestSettledIsFenced(t *testing.T) {
	h := &toolEvents{t: t}
	h.called()
	h.begun("one")
	h.held()
	h.apply(run.TimedOut{Meta: h.meta()})
	h.apply(run.Approved{Meta: h.meta(), Approval: run.Approval{Approve: true}})
	if h.state.Phase != run.Held {
		t.Fatalf("a timer or an approval made the run %v, want it %v", h.state.Phase, run.Held)
	}
	end := run.End{Kind: run.KindCancelled, Text: "cancelled"}
	h.apply(run.Cancelled{Meta: h.meta(), End: end})
	cancelled := h.seq
	h.settled(run.SettleAgain, "one")
	h.want(run.Failed, cancelled, run.LogEnd{End: end})
}

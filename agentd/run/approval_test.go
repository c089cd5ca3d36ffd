package run_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// heldTurn folds a turn with a call of a tool, a call of an agent and a refused
// call of a tool. A person has to approve of it.
func heldTurn(t *testing.T) run.State {
	t.Helper()
	until := epoch.Add(time.Hour)
	tool := run.Call{Op: run.OpTool, Agent: "ops", Tool: "pay", Deadline: until}
	tool.Arguments = json.RawMessage(`{"sum":1}`)
	refused := tool
	refused.Error, refused.Kind = "no", run.KindError
	e := run.Entry{
		Index: 1, Kind: run.EntryTurn, Trigger: 1, Worker: "w", Start: &run.Start{}, Approve: "it pays", Until: until,
		Calls:  []run.Call{tool, {Agent: "leaf", Task: "look", Deadline: until}, refused},
		Answer: &provider.Response{ToolCalls: make([]provider.ToolCall, 3)},
	}
	var s run.State
	for _, event := range []run.Event{
		run.Called{Meta: run.Meta{Seq: 1, Time: epoch}, Input: run.Input{Task: "a task"}},
		run.Answered{Meta: run.Meta{Seq: 2, Time: epoch}, Entry: e},
	} {
		var err error
		if s, err = s.Apply(event); err != nil {
			t.Fatal(err)
		}
	}
	if s.Phase != run.Held {
		t.Fatalf("the run is %v, want it %v", s.Phase, run.Held)
	}
	return s
}

// TestApprovedWithArguments: a person may approve of a turn with other
// arguments for its calls of tools. An approval with arguments for any other
// call does nothing, and the next one counts.
func TestApprovedWithArguments(t *testing.T) {
	held := heldTurn(t)
	approve := func(s run.State, seq uint64, given map[int]json.RawMessage) run.State {
		s, err := s.Apply(run.Approved{
			Meta: run.Meta{Seq: seq, Time: epoch}, Approval: run.Approval{Approve: true, Arguments: given},
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	two := json.RawMessage(`{"sum":2}`)
	for call, name := range map[int]string{1: "an agent", 2: "a refused call", 3: "no call", -1: "no call"} {
		if s := approve(held, 3, map[int]json.RawMessage{0: two, call: two}); s.Phase != run.Held {
			t.Errorf("arguments for call %d, %s, made the run %v, want it %v", call, name, s.Phase, run.Held)
		}
	}
	s := approve(approve(held, 3, map[int]json.RawMessage{7: two}), 4, map[int]json.RawMessage{0: two})
	made, ok := s.Outstanding().Then.(run.CallChildren)
	if !ok || s.Owner != 4 || len(made.Children) == 0 || string(made.Children[0].Call.Arguments) != `{"sum":2}` ||
		!made.Children[0].Call.Changed {
		t.Errorf("the run owes %+v to message %d, want a call of the tool with the person's arguments, to 4",
			s.Outstanding(), s.Owner)
	}
	if before := held.Turns[0].Entry.Calls[0]; before.Changed || string(before.Arguments) != `{"sum":1}` {
		t.Errorf("the state before has the call %+v, want it unchanged", before)
	}
	plain := approve(held, 3, nil)
	if c := plain.Turns[0].Entry.Calls[0]; c.Changed || string(c.Arguments) != `{"sum":1}` {
		t.Errorf("an approval without arguments makes the call %+v, want the model's", c)
	}
}

// TestApprovalOfAnotherTurn: an approval or a denial that names a turn decides
// about no other turn. One that names none decides about the held turn.
func TestApprovalOfAnotherTurn(t *testing.T) {
	held := heldTurn(t)
	for _, test := range []struct {
		turn    int
		decides bool
	}{{0, true}, {1, true}, {2, false}} {
		for _, approve := range []bool{true, false} {
			s, err := held.Apply(run.Approved{
				Meta: run.Meta{Seq: 3, Time: epoch}, Approval: run.Approval{Turn: test.turn, Approve: approve},
			})
			if decided := s.Phase != run.Held; err != nil || decided != test.decides {
				t.Errorf("turn %d, approve %t: decided %t, error %v; want decided %t",
					test.turn, approve, decided, err, test.decides)
			}
		}
	}
}

// TestApprovedByAPersonAlone: a supervisor pauses a turn that a person has to
// approve, and no person decides in time. If silence approves for the
// supervisor, the turn is held on: silence never approves for the agent's file.
func TestApprovedByAPersonAlone(t *testing.T) {
	until := epoch.Add(time.Hour)
	review := run.Call{Op: run.OpReview, Agent: "watcher", Deadline: until}
	e := run.Entry{
		Index: 1, Kind: run.EntryTurn, Trigger: 1, Worker: "w", Approve: "it pays", Until: until, Review: &review,
		Start: &run.Start{Supervision: run.Supervision{
			Mode: run.Human, Agent: "watcher", Timeout: time.Minute, OnTimeout: true,
		}},
		Calls:  []run.Call{{Op: run.OpTool, Agent: "ops", Tool: "pay", Deadline: until}},
		Answer: &provider.Response{ToolCalls: make([]provider.ToolCall, 1)},
	}
	pause := run.Outcome{Status: run.StatusCompleted, Result: `{"decision":"pause","reason":"who pays?"}`}
	var s run.State
	for _, step := range []struct {
		event run.Event
		phase run.Phase
		why   string
	}{
		{run.Called{Meta: run.Meta{Seq: 1, Time: epoch}, Input: run.Input{Task: "a task"}}, run.Ready, ""},
		{run.Answered{Meta: run.Meta{Seq: 2, Time: epoch}, Entry: e}, run.Awaiting, ""},
		{run.Replied{Meta: run.Meta{Seq: 3, Time: epoch}, Turn: 1, Index: 1, Outcome: pause}, run.Held, "who pays?"},
		{run.TimedOut{Meta: run.Meta{Seq: 4, Time: epoch.Add(time.Minute)}, Turn: 1}, run.Held, "it pays"},
		{run.TimedOut{Meta: run.Meta{Seq: 5, Time: epoch.Add(2 * time.Minute)}, Turn: 1}, run.Held, "it pays"},
		{run.TimedOut{Meta: run.Meta{Seq: 6, Time: until}, Turn: 1}, run.Held, "it pays"},
	} {
		var err error
		if s, err = s.Apply(step.event); err != nil {
			t.Fatal(err)
		}
		if s.Phase != step.phase || step.why != "" && s.Turns[0].Why != step.why {
			t.Errorf("after message %d the run is %v, want it %v for %q", s.Seq, s.Phase, step.phase, step.why)
		}
	}
	if hold, ok := s.Outstanding().Then.(run.HoldTurn); !ok || !hold.Timer.Equal(until) {
		t.Errorf("the run owes %+v, want a timer at its deadline", s.Outstanding())
	}
}

// TestDecodeApproval: a decision says in so many words whether it approves.
func TestDecodeApproval(t *testing.T) {
	for _, body := range []string{`{"approve":true,"turn":2}`, `{"approve":false,"reason":"no"}`} {
		if _, err := run.DecodeApproval([]byte(body)); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	for _, body := range []string{
		"", "null", "{}", `{"approved":true}`, `{"approve":null}`, `{"approve":"yes"}`, `{"text":"hello"}`, "[]",
		`{"approve":false,"arguments":{"0":{}}}`, `{"approve":true,"arguments":{"0":1}}`,
	} {
		if a, err := run.DecodeApproval([]byte(body)); err == nil {
			t.Errorf("%s is the approval %+v, want an error", body, a)
		}
	}
}

// TestImportedAmongOthers: a message that claims another place, as imported
// ones do, changes nothing in a run whose call is not imported, before the call
// and after it. In an imported run all other messages change nothing.
func TestImportedAmongOthers(t *testing.T) {
	far := run.Meta{Seq: 1 << 40, Time: epoch, Imported: true}
	forged := run.Mailed{Meta: far, Mail: run.Mail{From: "user", Text: "hello"}}
	for _, imported := range []bool{false, true} {
		call := run.Called{Meta: run.Meta{Seq: 1, Time: epoch, Imported: imported}, Input: run.Input{Task: "a task"}}
		end := run.Cancelled{Meta: run.Meta{Seq: 2, Time: epoch, Imported: imported}}
		other := forged
		other.Imported = !imported
		var s, want run.State
		for _, e := range []run.Event{forged, call, other, end} {
			var err error
			if s, err = s.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		for _, e := range []run.Event{call, end} {
			var err error
			if want, err = want.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		if s.Phase != want.Phase || s.Seq != want.Seq || s.Owner != want.Owner || s.Phase != run.Failed {
			t.Errorf("imported %t: the run is %v at %d of %d, want it %v at %d of %d", imported,
				s.Phase, s.Seq, s.Owner, want.Phase, want.Seq, want.Owner)
		}
	}
}

// user returns a user of the bus with a role.
func user(t *testing.T, role, name string) subjects.By {
	t.Helper()
	b, err := subjects.ParseBy(role, name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestApprovers: of an agent with approvers, only the decision of one of them
// counts. Any other one changes nothing, and the run stays held.
func TestApprovers(t *testing.T) {
	alice, bob := user(t, "operator", "alice"), user(t, "operator", "bob")
	for _, test := range []struct {
		approvers subjects.Approvers
		sender    subjects.By
		counts    bool
	}{
		{nil, subjects.By{}, true},
		{nil, bob, true},
		{subjects.Approvers{"user:alice"}, alice, true},
		{subjects.Approvers{"user:alice"}, bob, false},
		{subjects.Approvers{"user:alice"}, subjects.By{}, false},
		{subjects.Approvers{"user:alice", "role:operator"}, bob, true},
		{subjects.Approvers{"role:operator"}, user(t, "submitter", "alice"), false},
	} {
		for _, approve := range []bool{true, false} {
			held := heldTurn(t)
			held.Turns[0].Entry.Start.Approvers = test.approvers
			s, err := held.Apply(run.Approved{
				Meta:     run.Meta{Seq: 3, Time: epoch, Sender: test.sender},
				Approval: run.Approval{Approve: approve, By: "alice"},
			})
			if err != nil {
				t.Fatal(err)
			}
			decider, owner := test.sender, uint64(3)
			if !test.counts {
				decider, owner = subjects.By{}, held.Owner
			}
			if (s.Phase != run.Held) != test.counts || s.Turns[0].Decider != decider || s.Owner != owner {
				t.Errorf("approvers %q, the decision %t of %q: the run is %v, decided by %q, with the owner %d; "+
					"it has to count: %t", test.approvers, approve, test.sender, s.Phase, s.Turns[0].Decider, s.Owner,
					test.counts)
			}
		}
	}
}

// TestCancelSentChangesNothing: the record of the sender of a cancel message
// does not cancel the run.
func TestCancelSentChangesNothing(t *testing.T) {
	held := heldTurn(t)
	s, err := held.Apply(run.CancelSent{Meta: run.Meta{Seq: 3, Sender: user(t, "operator", "alice")}})
	if err != nil || s.Phase != run.Held || s.Owner != held.Owner || s.Seq != 3 {
		t.Errorf("the run is %v with the owner %d at %d, error %v; want it held", s.Phase, s.Owner, s.Seq, err)
	}
}

// TestImportedCancelBeforeItsCall: a cancel message that was imported, and came
// before its call, counts if the call was imported too. One that was not
// imported counts only with such a call.
func TestImportedCancelBeforeItsCall(t *testing.T) {
	for _, test := range []struct{ cancel, call, counts bool }{
		{true, true, true}, {false, false, true}, {true, false, false}, {false, true, false},
	} {
		var s run.State
		for _, e := range []run.Event{
			run.Cancelled{
				Meta: run.Meta{Seq: 3, Time: epoch, Imported: test.cancel},
				End:  run.End{Kind: run.KindCancelled, Text: "the first"},
			},
			run.Cancelled{Meta: run.Meta{Seq: 4, Time: epoch, Imported: test.cancel}, End: run.End{Text: "the second"}},
			run.Called{Meta: run.Meta{Seq: 5, Time: epoch, Imported: test.call}, Input: run.Input{Task: "a task"}},
		} {
			var err error
			if s, err = s.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		want := run.Ready
		if test.counts {
			want = run.Failed
		}
		if s.Phase != want || test.counts != (s.End.Text == "the first") {
			t.Errorf("%+v: the run is %v, with the end %+v, want it %v", test, s.Phase, s.End, want)
		}
	}
}

package run_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// TestSimApply feeds a State events of every kind, in and out of order. After
// each event it checks what the package promises: see the check functions.
func TestSimApply(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := walker{
			mails:   rapid.Bool().Draw(t, "mails"),
			tool:    rapid.IntRange(0, 5).Draw(t, "a tool run") == 5,
			people:  rapid.Bool().Draw(t, "people"),
			idle:    map[string]bool{},
			sent:    map[string]uint64{},
			made:    map[subjects.Path]bool{},
			kept:    map[string]run.Outcome{},
			returns: map[uint64]map[int]run.ReturnCause{},
		}
		if rapid.IntRange(0, 2).Draw(t, "supervised") == 2 {
			w.supervision = run.Supervision{
				Mode:      rapid.SampledFrom([]run.Mode{run.Supervised, run.Human}).Draw(t, "mode"),
				Agent:     "supervisor",
				Timeout:   time.Duration(rapid.IntRange(2, 60).Draw(t, "timeout")) * time.Second,
				OnTimeout: rapid.Bool().Draw(t, "on timeout"),
			}
		}
		w.start = drawStart(t, w.supervision)
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			e := w.draw(t)
			before := w.state
			after, err := before.Apply(e)
			// A second event on the same state must not change the
			// first result.
			_, _ = before.Apply(w.draw(t))
			w.check(t, before, after, e, err)
			if err == nil && seqOf(e) > before.Seq || isOutcomeStored(e) {
				w.history = append(w.history, e)
			}
			w.state = after
		}
	})
}

// walker is one walk: its settings, the state so far, and facts that the checks
// note from the events.
type walker struct {
	// mails says that the model forks and uses the tools of the style mail.
	mails bool
	// tool says that the run is a tool run.
	tool bool
	// people says that people interrupt the run.
	people      bool
	supervision run.Supervision
	start       *run.Start

	state run.State
	// history has the events that state was folded from.
	history []run.Event

	// mail has the sequences of the mail between the call and the end.
	mail []uint64
	// stopped says that a person has interrupted the run, and that the run
	// was not ready since.
	stopped bool
	// kept has the first outcome of each call.
	kept map[string]run.Outcome
	// sent has the sequence of the last message to each run.
	sent map[string]uint64
	// made has the runs that a state owed to start.
	made map[subjects.Path]bool
	// idle has the forks that have reported idle, and got no message since.
	idle map[string]bool
	// returns has the deliveries with a return, by trigger, with the cause
	// that counts.
	returns map[uint64]map[int]run.ReturnCause
}

// check checks every promise after one event.
func (w *walker) check(t *rapid.T, before, after run.State, e run.Event, err error) {
	// The state before the event is still the fold of its history. So the
	// event has changed nothing that the two states share.
	if diff := cmp.Diff(replay(t, w.history), before, unexported); diff != "" {
		t.Fatalf("%T changed the state that it was applied to (-replayed +was):\n%s", e, diff)
	}
	stale := seqOf(e) <= before.Seq && !isOutcomeStored(e)
	switch {
	case err != nil && !errors.Is(err, run.ErrCorrupt):
		t.Fatalf("%T: error %v does not wrap ErrCorrupt", e, err)
	case err != nil || stale:
		if diff := cmp.Diff(before, after, unexported); diff != "" {
			t.Fatalf("%+v (error %v) at %d changed the state:\n%s", e, err, before.Seq, diff)
		}
	case !isOutcomeStored(e) && after.Seq != seqOf(e):
		t.Fatalf("sequence %d after event %d", after.Seq, seqOf(e))
	}
	if want := mustRefuse(before, e); !stale && want != (err != nil) {
		t.Fatalf("%+v in %v at index %d: error %v, want one: %t", e, before.Phase, before.LogIndex, err, want)
	}
	checkCounts(t, before, after)
	checkEnd(t, before, after)
	w.checkLogged(t, after, e)
	checkOwed(t, before, after)
	checkResults(t, after)
	w.checkMail(t, after, e, err)
	checkReplied(t, before, after, e)
	w.checkReturns(t, before, after, e)
	checkHeld(t, before, after, e)
	checkSettled(t, before, after, e)
	checkTask(t, before, after, e)
	w.checkMade(t, after)
	checkBelow(t, after)
	checkNotified(t, after)
	w.checkStopped(t, before, after, e, err)
	w.checkKept(t, after)
	checkTurns(t, after)
	checkSpread(t, after)
	w.checkNotice(t, after)
}

// checkMail: every message is in the inbox, was taken once by a call that may
// take it, or was given inline, in stream order. No call waits for mail that is
// there.
func (w *walker) checkMail(t *rapid.T, after run.State, e run.Event, err error) {
	if err == nil && seqOf(e) > w.state.Seq && !w.state.Ended() {
		w.noteMail(e)
		w.noteSends(after, e)
	}
	var seen []uint64
	for _, turn := range after.Turns {
		for i, took := range turn.Took {
			c := turn.Entry.Calls[i]
			if len(took) > 0 && c.Op != run.OpMail && c.Op != run.OpWait {
				t.Fatalf("%s has taken mail", c.Op)
			}
			last := uint64(0)
			for _, m := range took {
				if m.Seq <= last {
					t.Fatalf("message %d was taken after %d", m.Seq, last)
				}
				last = m.Seq
				seen = append(seen, m.Seq)
			}
		}
	}
	for _, turn := range after.Turns {
		for _, m := range turn.Notice {
			if m.Inline {
				seen = append(seen, m.Seq)
			}
		}
	}
	last := uint64(0)
	for _, m := range after.Inbox {
		if m.Seq <= last {
			t.Fatalf("message %d is behind %d", m.Seq, last)
		}
		last = m.Seq
		seen = append(seen, m.Seq)
	}
	slices.Sort(seen)
	if !slices.Equal(seen, w.mail) {
		t.Fatalf("the inbox and the calls hold the messages %v, want %v", seen, w.mail)
	}
	// Only an interrupt leaves a run idle with mail that it was not told
	// of.
	if after.Phase == run.Idle && len(after.Notice()) > 0 && !w.people {
		t.Fatalf("idle with mail that it was not told of: %v", after.Notice())
	}
	w.checkWaits(t, after)
}

// mustRefuse reports whether an event cannot follow a state in any history.
func mustRefuse(s run.State, e run.Event) bool {
	isTool := s.Input.Tool != nil
	fits := s.Phase == run.Ready
	var entry run.Entry
	switch e := e.(type) {
	case run.Answered:
		entry, fits = e.Entry, fits && !isTool
	case run.AnsweredWithoutCalls:
		entry, fits = e.Entry, fits && !isTool
	case run.ToolStarted:
		entry, fits = e.Entry, fits && isTool
	case run.ToolHeld:
		polled := s.Phase == run.Polling
		entry, fits = e.Entry, isTool && (fits || polled) && (s.Attempt != nil || e.Entry.Form != nil)
	case run.TaskMade:
		polled := s.Phase == run.Polling && s.Task.Filled != nil
		entry, fits = e.Entry, isTool && (fits || polled)
	case run.Ended:
		entry, fits = e.Entry, true
	case run.Called, run.Replied, run.OutcomeRefused, run.TimedOut, run.Mailed, run.Approved, run.Settled,
		run.Interrupted, run.Returned, run.CancelSent, run.Cancelled, run.OutcomeStored:
		return false
	}
	if s.Phase == run.None || entry.Index != s.LogIndex+1 {
		return true
	}
	// Of an entry after the end only the index counts.
	return !fits && !s.Ended()
}

// checkCounts: each call of the last turn has an outcome, is pending or is a
// fork. Within a turn pending only shrinks.
func checkCounts(t *rapid.T, before, after run.State) {
	for i, turn := range after.Turns {
		missing := 0
		for j, o := range turn.Outcomes {
			if o == nil && turn.Entry.Calls[j].Op != run.OpFork {
				missing++
			}
		}
		last := i == len(after.Turns)-1
		if last && !turn.CarriedOut() && turn.Withheld() == "" {
			continue // no call is made yet
		}
		if len(turn.Outcomes) != len(turn.Entry.Calls) || !last && missing > 0 {
			t.Fatalf("turn %d has %d outcomes of %d calls, %d missing",
				i+1, len(turn.Outcomes), len(turn.Entry.Calls), missing)
		}
		if last && after.Phase == run.Awaiting && (missing != after.Pending() || missing == 0) {
			t.Fatalf("%d outcomes are missing while %d are pending", missing, after.Pending())
		}
	}
	if after.Phase != run.Awaiting && after.Pending() != 0 {
		t.Fatalf("%d pending in %v", after.Pending(), after.Phase)
	}
	if len(after.Turns) == len(before.Turns) && before.Phase == run.Awaiting && after.Pending() > before.Pending() &&
		before.Turns[len(before.Turns)-1].CarriedOut() {
		t.Fatalf("pending grew from %d to %d", before.Pending(), after.Pending())
	}
	if n := len(after.Turns); n < len(before.Turns) || n > len(before.Turns)+1 {
		t.Fatalf("%d turns after %d", n, len(before.Turns))
	}
}

// checkEnd: terminal states absorb, and owe one outcome until it is stored.
func checkEnd(t *rapid.T, before, after run.State) {
	if before.Ended() &&
		(after.Phase != before.Phase || after.End != before.End || len(after.Turns) != len(before.Turns)) {
		t.Fatalf("%v %+v became %v %+v", before.Phase, before.End, after.Phase, after.End)
	}
	if before.OutcomeStored && !after.OutcomeStored {
		t.Fatal("a stored outcome was forgotten")
	}
	if after.OutcomeStored && !after.Ended() {
		t.Fatalf("the outcome is stored, and the run is %v", after.Phase)
	}
	if after.Phase == run.Failed && after.End.Kind == "" {
		t.Fatal("failed without a reason")
	}
	if !after.Ended() || after.OutcomeStored {
		return
	}
	owed := after.Outstanding().All()
	switch e := owed[len(owed)-1].(type) {
	case run.PublishFailure:
		if e.End != after.End {
			t.Fatalf("a run with the end %+v owes %+v", after.End, owed)
		}
	case run.PublishAnswer:
		if after.Phase != run.Completed || e.Turn != len(after.Turns) {
			t.Fatalf("%v owes %+v", after.Phase, owed)
		}
	case run.LogEnd:
		if e.End != after.End {
			t.Fatalf("a run with the end %+v owes its log %+v", after.End, e.End)
		}
	case run.PublishSettled:
		if after.Phase != run.Completed || after.Input.Tool == nil {
			t.Fatalf("%v owes %+v", after.Phase, owed)
		}
	case run.CallModel, run.CallTool, run.CallChildren, run.CancelBelow, run.NotifyIdle,
		run.StopBelow, run.LogInterrupt, run.HoldTurn, run.HoldTool, run.AwaitTask, run.CancelTask:
		t.Fatalf("%v owes %+v", after.Phase, owed)
	}
}

// checkLogged: an end from outside is on the log before it is published. The
// log entry fences other workers. A person's settlement of a tool's call is no
// end from outside: the entry that holds the run fences other workers.
func (w *walker) checkLogged(t *rapid.T, after run.State, e run.Event) {
	ended := func(e run.Event) bool {
		_, ok := e.(run.Ended)
		last, final := e.(run.AnsweredWithoutCalls)
		settlement, settled := e.(run.Settled)
		return ok || final && last.Entry.Kind == run.EntryFinal || settled && settlement.As == run.SettleFail
	}
	for _, owed := range after.Outstanding().All() {
		c, publishes := owed.(run.PublishFailure)
		if publishes && c.End.Kind != run.KindTurns && !slices.ContainsFunc(w.history, ended) && !ended(e) {
			t.Fatalf("the end %+v is published, and is not on the log", c.End)
		}
	}
}

// checkOwed: each phase owes its own effects, and a folded message owns them.
func checkOwed(t *rapid.T, before, after run.State) {
	keys := map[string]bool{}
	for _, e := range after.Outstanding().All() {
		if keys[effectKey(e)] {
			t.Fatalf("%s is owed twice", effectKey(e))
		}
		keys[effectKey(e)] = true
		switch e := e.(type) {
		case run.CallModel:
			if after.Phase != run.Ready || e.Turn != len(after.Turns)+1 || after.Input.Tool != nil {
				t.Fatalf("turn %d is owed in %v after %d turns", e.Turn, after.Phase, len(after.Turns))
			}
		case run.CallTool:
			if after.Phase != run.Ready || after.Input.Tool == nil {
				t.Fatalf("a tool is owed in %v", after.Phase)
			}
		case run.CallChildren:
			checkChildren(t, after, e)
			checkNewlyDue(t, before, after, e)
		case run.AwaitTask:
			if after.Phase != run.Polling || after.Task == nil || after.Task.Until.IsZero() {
				t.Fatalf("%s is owed in %v", effectKey(e), after.Phase)
			}
		case run.CancelTask:
			if _, logs := after.Outstanding().Then.(run.LogEnd); !logs || after.Task.ID != e.ID {
				t.Fatalf("%s is owed in %v", effectKey(e), after.Phase)
			}
		case run.CancelBelow, run.LogEnd, run.PublishFailure, run.PublishAnswer, run.PublishSettled:
			if !after.Ended() || after.OutcomeStored {
				t.Fatalf("%s is owed in %v", effectKey(e), after.Phase)
			}
		case run.StopBelow:
			checkStop(t, after, e)
		case run.LogInterrupt:
			if after.Phase != run.Ready {
				t.Fatalf("%s is owed in %v", effectKey(e), after.Phase)
			}
		case run.HoldTool:
			if after.Phase != run.Held || after.Input.Tool == nil || e.Until.IsZero() {
				t.Fatalf("%s is owed in %v", effectKey(e), after.Phase)
			}
		case run.HoldTurn:
			if after.Phase != run.Held || e.Timer.IsZero() {
				t.Fatalf("%s is owed in %v", effectKey(e), after.Phase)
			}
		case run.NotifyIdle:
			if after.Phase != run.Idle && after.Phase != run.Ready || e.Turn != len(after.Turns) ||
				after.Phase == run.Ready && after.Turns[e.Turn-1].Entry.Kind != run.EntryIdle {
				t.Fatalf("%s is owed in %v", effectKey(e), after.Phase)
			}
		}
	}
	live := after.Phase != run.None && !after.Ended()
	if live && len(keys) == 0 || live && (after.Owner == 0 || after.Owner > after.Seq) {
		t.Fatalf("%v at %d owes %v to %d", after.Phase, after.Seq, keys, after.Owner)
	}
	// A ready run changes its owner only if an interrupt stops its request.
	stopping := keys[effectKey(run.LogInterrupt{Turn: len(after.Turns) + 1})]
	if before.Phase == run.Ready && after.Phase == run.Ready && len(after.Turns) == len(before.Turns) &&
		after.Owner != before.Owner && !stopping {
		t.Fatalf("the owner of a run that stayed ready went from %d to %d", before.Owner, after.Owner)
	}
}

// checkNewlyDue: a call that is due now, and was not before, belongs to the
// message that made it due.
func checkNewlyDue(t *rapid.T, before, after run.State, e run.CallChildren) {
	owed, _ := before.Outstanding().Then.(run.CallChildren)
	if before.Phase != run.Awaiting || after.Phase != run.Awaiting || owed.Turn != e.Turn || after.Seq == before.Seq {
		return
	}
	for _, c := range e.Children {
		known := slices.ContainsFunc(owed.Children, func(o run.Child) bool { return o.Index == c.Index })
		if !known && after.Owner != after.Seq {
			t.Fatalf("message %d made call %d due, and message %d owns it", after.Seq, c.Index, after.Owner)
		}
	}
}

// due counts the calls of a turn that have no outcome and may run now: those
// before the first call that runs alone, or else that call.
func due(turn run.Turn) (n int) {
	for i, c := range turn.Entry.Calls {
		if !c.HasReply() || turn.Outcomes[i] != nil {
			continue
		}
		if turn.Entry.Sequential || c.Op == run.OpTool && c.Effect != run.ToolReads {
			return max(n, 1)
		}
		n++
	}
	return n
}

// checkChildren: every call that is due is published, and no other.
func checkChildren(t *rapid.T, s run.State, e run.CallChildren) {
	turn := s.Turns[len(s.Turns)-1]
	if !turn.CarriedOut() {
		if len(e.Children) != 1 || e.Children[0].Call.Op != run.OpReview ||
			e.Children[0].Index != len(turn.Entry.Calls) ||
			len(e.Forks)+len(e.Posts)+len(e.Kills) > 0 {
			t.Fatalf("a turn under review owes %+v", e)
		}
		return
	}
	want := due(turn)
	for _, unawaited := range [][]run.Child{e.Forks, e.Posts, e.Kills} {
		for _, c := range unawaited {
			if c.Call.Failed() || c.Call.Awaited() {
				t.Fatalf("a call that was refused or is awaited is among the unawaited ones: %+v", c)
			}
		}
	}
	awaitsNoCall := want == 0 && (s.Phase == run.Ready || s.Phase == run.Idle) || awaitsStopped(s)
	if awaitsNoCall && len(e.Children) == 0 && len(e.Forks)+len(e.Posts)+len(e.Kills) > 0 {
		return
	}
	if s.Phase != run.Awaiting || len(e.Children) != want || e.Turn != len(s.Turns) {
		t.Fatalf("%v after turn %d with %d calls due owes %+v", s.Phase, len(s.Turns), want, e)
	}
	for i, c := range e.Children {
		if turn.Outcomes[c.Index] != nil || i > 0 && e.Children[i-1].Index >= c.Index || c.Call.Failed() {
			t.Fatalf("child %d of %+v is not due", i, e)
		}
		if c.Deadline.After(e.Timer) {
			t.Fatalf("the deadline %v is after the timer %v", c.Deadline, e.Timer)
		}
	}
}

// awaitsStopped reports whether an interrupted run waits for the runs that it
// ends.
func awaitsStopped(s run.State) bool {
	owed := s.Outstanding().All()
	stop, ok := owed[len(owed)-1].(run.StopBelow)
	return ok && !stop.Timer.IsZero()
}

// checkResults: the outcome of a call is its refusal, its own child's outcome,
// or that of the timer, of a withheld turn or of an interrupt.
func checkResults(t *rapid.T, s run.State) {
	for k, turn := range s.Turns {
		for i, o := range turn.Outcomes {
			c := turn.Entry.Calls[i]
			switch {
			case o == nil:
			case c.Failed():
				if o.Kind != c.Kind || o.Error != c.Error {
					t.Fatalf("call %d.%d was refused with %q and has %q", k+1, i, c.Error, o.Error)
				}
			case o.Kind == run.KindTimeout,
				o.Kind == run.KindCancelled && (o.Error == turn.Withheld() || o.Error == run.TextInterrupted):
			case !c.HasReply() && c.Op != run.OpFork:
				if o.Status != run.StatusCompleted {
					t.Fatalf("call %d.%d (%s) has %+v", k+1, i, c.Op, o)
				}
			case o.Result != place(k+1, i):
				t.Fatalf("call %d.%d has the outcome of %s", k+1, i, o.Result)
			}
		}
	}
}

// unexported lets cmp compare states.
var unexported = cmp.AllowUnexported(run.State{}, run.Turn{}, run.Returns{}, subjects.Path{}, subjects.By{})

// replay folds a history from the beginning.
func replay(t rapid.TB, history []run.Event) run.State {
	t.Helper()
	var s run.State
	for _, e := range history {
		var err error
		if s, err = s.Apply(e); err != nil {
			t.Fatalf("replayed %+v: %v", e, err)
		}
	}
	return s
}

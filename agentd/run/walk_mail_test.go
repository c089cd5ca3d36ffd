package run_test

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// noteMail notes the mail in a folded event, and the forks that report idle.
func (w *walker) noteMail(e run.Event) {
	switch e := e.(type) {
	case run.Mailed:
		// mail before the call does not count
		if w.state.Phase != run.None {
			w.mail = append(w.mail, e.Meta.Seq)
		}
		if e.Idle && e.Key == e.From+"-idle1" && e.Seen >= w.sent[e.From] &&
			slices.ContainsFunc(w.state.Turns.Forks(),
				func(f run.Fork) bool { return forkPath(f.Turn, f.Index).String() == e.From }) {
			w.idle[e.From] = true
		}
	case run.Replied:
		path := forkPath(e.Turn, e.Index)
		forked := slices.ContainsFunc(w.state.Turns.Forks(),
			func(f run.Fork) bool { return f.Turn == e.Turn && f.Index == e.Index })
		// a run gets no mail about a fork that it has killed
		if forked && !killed(w.state, path) {
			w.mail = append(w.mail, e.Seq)
		}
	case run.CancelSent, run.Called, run.Answered, run.Ended, run.ToolStarted, run.ToolHeld, run.TaskMade, run.TimedOut,
		run.AnsweredWithoutCalls, run.Approved, run.Settled, run.Interrupted, run.Returned, run.Cancelled,
		run.OutcomeStored, run.OutcomeRefused:
	}
}

// noteSends notes the messages to forks of a turn that the event has carried
// out.
func (w *walker) noteSends(after run.State, e run.Event) {
	n := len(after.Turns)
	if n == 0 || !after.Turns[n-1].CarriedOut() || len(w.state.Turns) == n && w.state.Turns[n-1].CarriedOut() {
		return
	}
	for _, c := range after.Turns[n-1].Entry.Calls {
		if c.Op == run.OpSend && !c.Failed() {
			delete(w.idle, c.To.String())
			w.sent[c.To.String()] = seqOf(e)
		}
	}
}

// checkHeld: a turn waits for a person only in the mode Human or with tools
// that a person approves, for a bounded time within the run's own. No timer
// decides a turn after the run's time is over. No supervisor decides a turn
// that it has not seen whole. Nothing but a person's approval carries out a
// turn with a tool that a person approves. Of a run with approvers, only their
// decisions count.
func checkHeld(t *rapid.T, before, after run.State, e run.Event) {
	for _, s := range []run.State{before, after} {
		if s.Phase != run.Held || s.Input.Tool != nil {
			continue
		}
		turn := s.Turns[len(s.Turns)-1].Entry
		if s.Start().Supervision.Mode != run.Human && turn.Approve == "" || turn.Timer.IsZero() ||
			!turn.Until.IsZero() && turn.Timer.After(turn.Until) {
			t.Fatalf("a turn is held until %v, with the run's end at %v, under %+v, with approval %q",
				turn.Timer, turn.Until, s.Start().Supervision, turn.Approve)
		}
	}
	if _, replied := e.(run.Replied); replied && before.Phase == run.Awaiting && len(after.Turns) == len(before.Turns) {
		was, is := before.Turns[len(before.Turns)-1], after.Turns[len(after.Turns)-1]
		if is.Entry.Cut && !was.CarriedOut() && is.CarriedOut() {
			t.Fatalf("a supervisor that was not shown the whole turn let it continue")
		}
	}
	if n := len(before.Turns); n > 0 && n == len(after.Turns) {
		was, is := before.Turns[n-1], after.Turns[n-1]
		a, _ := e.(run.Approved)
		if is.Entry.Approve != "" && !was.CarriedOut() && is.CarriedOut() && !a.Approve {
			t.Fatalf("%T carried out a turn that a person has to approve", e)
		}
		if a, decision := e.(run.Approved); decision && before.Phase == run.Held && after.Phase != run.Held &&
			len(before.Start().Approvers) > 0 && a.Sender.User() != "alice" {
			t.Fatalf("the decision of %q counts, and those of %s alone may", a.Sender, before.Start().Approvers)
		}
	}
	if _, fired := e.(run.TimedOut); fired && before.Phase == run.Held && after.Phase != run.Held {
		if before.Input.Tool != nil {
			t.Fatalf("a timer made the held tool run %v", after.Phase)
		}
		if turn := before.Turns[len(before.Turns)-1].Entry; turn.Timer.Equal(turn.Until) {
			t.Fatalf("the timer of a held turn made the run %v, though the run's own time was over", after.Phase)
		}
	}
}

// checkSettled: a tool run that waits for a person goes on only by a settlement
// of its last attempt or form, or ends. An attempt that may have taken effect
// is followed by another one only after the settlement "again", once.
func checkSettled(t *rapid.T, before, after run.State, e run.Event) {
	if before.Input.Tool == nil || before.Seq == after.Seq {
		return
	}
	settlement, settled := e.(run.Settled)
	fits := settled && before.Phase == run.Held && (settlement.Attempt == "" || settlement.Attempt == before.Hold.ID) &&
		settlement.As.FillsForm() == (before.Hold.Form != nil)
	if before.Phase == run.Held && after.Phase != run.Held && !fits {
		_, stored := e.(run.OutcomeStored)
		_, ended := e.(run.Ended)
		_, cancelled := e.(run.Cancelled)
		if !stored && !ended && !cancelled {
			t.Fatalf("%T made a held tool run %v", e, after.Phase)
		}
	}
	wants := map[run.SettleAs]run.Phase{
		run.SettleDone: run.Completed, run.SettleAgain: run.Ready, run.SettleFail: run.Failed,
		run.SettleAnswer: run.Ready, run.SettleDecline: run.Ready,
	}
	if before.Task != nil {
		wants[run.SettleAnswer], wants[run.SettleDecline] = run.Polling, run.Polling
	}
	switch {
	case fits && (after.Phase != wants[settlement.As] || after.Owner != settlement.Seq):
		t.Fatalf("the settlement %q made a held tool run %v, owned by %d", settlement.As, after.Phase, after.Owner)
	case settled && !fits && after.Phase != before.Phase:
		t.Fatalf("a settlement that fits no attempt made the run %v", after.Phase)
	case after.MayBeginAgain && !before.MayBeginAgain && (!fits || settlement.As != run.SettleAgain):
		t.Fatalf("%T lets the tool begin again", e)
	}
	if fits && settlement.As.FillsForm() {
		filled := after.Filled
		if after.Task != nil {
			filled = after.Task.Filled
		}
		if filled.ID != before.Hold.ID {
			t.Fatalf("an answer to the form %s fills in %s", before.Hold.ID, filled.ID)
		}
	}
	if _, started := e.(run.ToolStarted); started && after.MayBeginAgain && !after.Ended() {
		t.Fatal("the tool may begin a third time")
	}
}

// checkTask: a run that waits for a task goes on with it until it ends, or
// until its effect is unknown. A cancelled run owes the end of its task before
// its own. A second entry about a task changes neither its beginning nor its
// answers.
func checkTask(t *rapid.T, before, after run.State, e run.Event) {
	held, _ := e.(run.ToolHeld)
	switch {
	case before.Task != nil && after.Task == nil && (held.Entry.End == nil || held.Entry.Form != nil):
		t.Fatalf("%T made the run forget the task %s", e, before.Task.ID)
	case before.Phase == run.Polling && after.Phase != run.Polling && after.Phase != run.Held && !after.Ended():
		t.Fatalf("%T made a run that polls %v", e, after.Phase)
	case after.Phase == run.Polling && (after.Task == nil || after.Hold != nil):
		t.Fatalf("%v with the task %+v, held for %+v", after.Phase, after.Task, after.Hold)
	}
	if _, logs := after.Outstanding().Then.(run.LogEnd); logs && after.Task != nil &&
		!slices.Contains(after.Outstanding().SideEffects, run.Effect(run.CancelTask{ID: after.Task.ID})) {
		t.Fatalf("a cancelled run owes %+v, want the end of the task %s too", after.Outstanding(), after.Task.ID)
	}
	if b, a := before.Task, after.Task; b != nil && a != nil &&
		(!a.Since.Equal(b.Since) || len(a.Answered) < len(b.Answered)) {
		t.Fatalf("the task %+v became %+v", b, a)
	}
}

// checkMade: a turn counts every run that it starts. A turn without an unused
// grant has started all of its runs that were not refused.
func (w *walker) checkMade(t *rapid.T, s run.State) {
	for _, owed := range s.Outstanding().All() {
		if e, ok := owed.(run.CallChildren); ok {
			for _, c := range slices.Concat(e.Children, e.Forks) {
				if c.Call.MakesRun() {
					w.made[forkPath(e.Turn, c.Index)] = true
				}
			}
		}
	}
	for i, turn := range s.Turns {
		made, wanted := 0, 0
		for k, c := range turn.Entry.Calls {
			if w.made[forkPath(i+1, k)] {
				made++
			}
			if c.MakesRun() {
				wanted++
			}
		}
		if w.made[forkPath(i+1, len(turn.Entry.Calls))] {
			made++
		}
		if turn.Entry.Review != nil && turn.Entry.Review.MakesRun() {
			wanted++
		}
		if turn.RunCount() < made || turn.CarriedOut() && !turn.HasUnusedGrant() && turn.RunCount() != wanted {
			t.Fatalf(
				"turn %d has started %d runs and wants %d, RunCount is %d, HasUnusedGrant %t",
				i+1,
				made,
				wanted,
				turn.RunCount(),
				turn.HasUnusedGrant(),
			)
		}
	}
}

// killed reports whether a run has killed another one, or a run above it.
func killed(s run.State, path subjects.Path) bool {
	for _, turn := range s.Turns {
		for _, c := range turn.Entry.Calls {
			if c.Op == run.OpKill && turn.CarriedOut() && !c.Failed() && c.To.Covers(path) {
				return true
			}
		}
	}
	return false
}

// dead reports whether a run is known to have ended.
func (w *walker) dead(s run.State, path subjects.Path) bool {
	for i, turn := range s.Turns {
		for k, c := range turn.Entry.Calls {
			if c.Op == run.OpFork && turn.CarriedOut() && forkPath(i+1, k) == path && turn.Outcomes[k] != nil {
				return true
			}
		}
	}
	return killed(s, path)
}

// checkWaits: no call waits for mail that is there. A call that has waited for
// peers has a status for each of them, in its order. The status is PeerWrote
// exactly if the call has taken mail of the peer.
func (w *walker) checkWaits(t *rapid.T, after run.State) {
	for k, turn := range after.Turns {
		for i, c := range turn.Entry.Calls {
			switch {
			case c.Op != run.OpWait || c.Failed() || !turn.CarriedOut():
			case turn.Outcomes[i] == nil:
				if after.Phase == run.Awaiting && w.hasMailFor(after, c) {
					t.Fatalf("call %d.%d still waits for %v, with the inbox %+v", k+1, i, c.From, after.Inbox)
				}
			case len(turn.Found[i]) != len(c.From):
				t.Fatalf("call %d.%d waited for %v and has the statuses %v", k+1, i, c.From, turn.Found[i])
			default:
				for j, from := range c.From {
					got := slices.ContainsFunc(turn.Took[i], func(m run.Mail) bool { return m.From == from.String() })
					if got != (turn.Found[i][j] == run.PeerWrote) {
						t.Fatalf("call %d.%d waited for %v, has the statuses %v and took %+v",
							k+1, i, c.From, turn.Found[i], turn.Took[i])
					}
				}
			}
		}
	}
}

// hasMailFor reports whether the wait of a call is over.
func (w *walker) hasMailFor(s run.State, c run.Call) bool {
	if len(c.From) == 0 {
		return len(s.Inbox) > 0
	}
	for _, from := range c.From {
		wrote := slices.ContainsFunc(s.Inbox, func(m run.Mail) bool { return m.From == from.String() })
		if !wrote && !slices.Contains(c.Dead, from) && !w.dead(s, from) && !w.idle[from.String()] {
			return false
		}
	}
	return true
}

// checkReplied: the first outcome of a published call counts, whatever the
// other calls of its turn are.
func checkReplied(t *rapid.T, before, after run.State, e run.Event) {
	r, ok := e.(run.Replied)
	if !ok || r.Seq <= before.Seq {
		return
	}
	for _, owed := range before.Outstanding().All() {
		calls, ok := owed.(run.CallChildren)
		if !ok || calls.Turn != r.Turn ||
			!slices.ContainsFunc(calls.Children, func(c run.Child) bool { return c.Index == r.Index }) {
			continue
		}
		if turn := after.Turns[r.Turn-1]; r.Index == len(turn.Outcomes) && turn.Verdict == nil ||
			r.Index < len(turn.Outcomes) && turn.Outcomes[r.Index] == nil {
			t.Fatalf("the outcome of call %d.%d, which was published, is dropped", r.Turn, r.Index)
		}
	}
}

// checkBelow: a run that ends owes a cancel message to each run that works for
// it, and to no other run, before its outcome and before its end is on the log.
func checkBelow(t *rapid.T, s run.State) {
	owed := s.Outstanding().All()
	if !s.Ended() || s.OutcomeStored || len(owed) == 0 {
		return
	}
	want := map[subjects.Path]bool{}
	for i, turn := range s.Turns {
		if s.Turns[i].Entry.Review != nil && i == len(s.Turns)-1 && !turn.CarriedOut() && turn.Withheld() == "" &&
			turn.Why == "" &&
			turn.Verdict == nil {
			want[forkPath(i+1, len(turn.Entry.Calls))] = true
		}
		for k, c := range turn.Entry.Calls {
			if !turn.CarriedOut() {
				continue
			}
			waited := c.HasReply() && i == len(s.Turns)-1
			if turn.Outcomes[k] == nil && (c.Op == run.OpFork || waited) {
				want[forkPath(i+1, k)] = true
			}
		}
	}
	got := map[subjects.Path]bool{}
	if below, ok := owed[0].(run.CancelBelow); ok {
		for _, f := range below.Below {
			got[forkPath(f.Turn, f.Index)] = true
		}
	} else if _, last := owed[0].(run.PublishFailure); last && s.End.Kind != run.KindTurns &&
		s.End.Kind != run.KindError {
		// An end that is on the log: the cancel messages came before
		// it.
		return
	}
	if !maps.Equal(want, got) {
		t.Fatalf("%v cancels %v, want %v", owed, got, want)
	}
}

// checkNotified: a run whose last entry is an EntryIdle owes NotifyIdle, before
// it asks for its next turn.
func checkNotified(t *rapid.T, s run.State) {
	if s.Ended() || !s.LastTurnIdle() {
		return
	}
	owed := s.Outstanding().All()
	notifies := slices.IndexFunc(
		owed,
		func(e run.Effect) bool { r, ok := e.(run.NotifyIdle); return ok && r.Turn == len(s.Turns) },
	)
	asks := slices.IndexFunc(owed, func(e run.Effect) bool { _, ok := e.(run.CallModel); return ok })
	if notifies < 0 || asks >= 0 && asks < notifies {
		t.Fatalf("%v after an EntryIdle owes %v, want a NotifyIdle first", s.Phase, owed)
	}
}

// checkStop: an interrupted run ends the runs that work for it, and waits for
// them for a bounded time.
func checkStop(t *rapid.T, after run.State, e run.StopBelow) {
	if after.Ended() || len(e.Below) == 0 || !e.Timer.IsZero() && after.Phase != run.Awaiting {
		t.Fatalf("%+v is owed in %v", e, after.Phase)
	}
	for _, f := range e.Below {
		if turn := after.Turns[f.Turn-1]; f.Index < len(turn.Outcomes) && turn.Outcomes[f.Index] != nil {
			t.Fatalf("%+v ends call %d.%d, which has an outcome", e, f.Turn, f.Index)
		}
	}
}

// checkStopped: an interrupt ends all forks of the run, and their messages do
// not wake it.
func (w *walker) checkStopped(t *rapid.T, before, after run.State, e run.Event, err error) {
	if err != nil || seqOf(e) <= before.Seq {
		return
	}
	message, written := e.(run.Mailed)
	mayNotWake := !written || message.Idle && message.Key == message.From+"-idle1"
	if w.stopped && mayNotWake && before.Phase == run.Idle && after.Phase == run.Ready {
		t.Fatalf("%+v has woken an interrupted run", e)
	}
	if after.Phase == run.Ready {
		w.stopped = false
	}
	if _, stops := e.(run.Interrupted); !stops || after.Phase == run.None || after.Ended() || w.stopped {
		return
	}
	w.stopped = true
	var ends []subjects.Path
	for _, owed := range after.Outstanding().All() {
		if stop, ok := owed.(run.StopBelow); ok {
			for _, f := range stop.Below {
				ends = append(ends, f.Call.To)
			}
		}
	}
	for _, f := range after.Turns.Forks() {
		if !slices.Contains(ends, f.Call.To) {
			t.Fatalf("an interrupt of the run does not end its fork %s", f.Call.To)
		}
	}
}

package run_test

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// draw draws an event. Most events fit the state. The others are of another
// kind or turn, come late, or leave a hole in the log.
func (w *walker) draw(t *rapid.T) run.Event {
	s := w.state
	m := run.Meta{Seq: s.Seq + uint64(rapid.IntRange(1, 3).Draw(t, "after"))}
	if rapid.IntRange(0, 9).Draw(t, "late") == 9 {
		m.Seq = uint64(rapid.IntRange(0, int(s.Seq)).Draw(t, "seq"))
	}
	m.Time = epoch.Add(time.Duration(m.Seq) * time.Second)
	turn := max(0, len(s.Turns)+rapid.SampledFrom([]int{0, 0, 0, -1, 1}).Draw(t, "turn"))
	kinds := likely(s)
	if w.tool {
		kinds = likelyOfATool(s)
	}
	if w.people {
		kinds = append(kinds, "interrupted")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "interrupted":
		return run.Interrupted{Meta: m}
	case "returned":
		return drawReturned(t, m)
	case "approved":
		name := rapid.SampledFrom([]string{"", "alice", "bob"}).Draw(t, "sender")
		m.Sender, _ = subjects.ParseBy("operator", name)
		return run.Approved{
			Meta: m,
			Approval: run.Approval{
				Turn:    rapid.SampledFrom([]int{0, turn}).Draw(t, "of turn"),
				Approve: rapid.Bool().Draw(t, "approve"),
			},
		}
	case "called":
		in := run.Input{Task: "a task"}
		if w.tool {
			in.Tool = &run.ToolInput{Name: "a tool"}
		}
		return run.Called{Meta: m, Input: in}
	case "started":
		e := run.Entry{
			Index: w.index(t), Kind: run.EntryStarted, Trigger: max(1, s.Owner),
			Attempt: &run.Attempt{ID: fmt.Sprint("attempt", m.Seq)},
		}
		return run.ToolStarted{Meta: m, Entry: e}
	case "tool held":
		e := run.Entry{
			Index: w.index(t), Kind: run.EntryHeld, Trigger: max(1, s.Owner), Until: m.Time.Add(time.Hour),
			End: &run.End{Kind: run.KindUnknown, Text: "who knows"},
		}
		if rapid.Bool().Draw(t, "asks") {
			e.Form = &run.Form{ID: fmt.Sprint("form", m.Seq), Questions: []run.Question{{Key: fmt.Sprint("q", m.Seq)}}}
		}
		return run.ToolHeld{Meta: m, Entry: e}
	case "task":
		e := run.Entry{
			Index: w.index(t), Kind: run.EntryTask, Trigger: max(1, s.Owner), Until: m.Time.Add(time.Hour),
			Task: &run.ServerTask{ID: rapid.SampledFrom([]string{"one", "two"}).Draw(t, "task")},
		}
		return run.TaskMade{Meta: m, Entry: e}
	case "settled":
		ids := []string{"", "another"}
		if s.Hold != nil {
			ids = append(ids, s.Hold.ID)
		}
		return run.Settled{Meta: m, Settlement: run.Settlement{
			Attempt: rapid.SampledFrom(ids).Draw(t, "attempt"),
			As: rapid.SampledFrom([]run.SettleAs{
				run.SettleAgain, run.SettleAgain, run.SettleDone, run.SettleFail, run.SettleAnswer, run.SettleDecline,
			}).Draw(t, "as"),
		}}
	case "answered":
		return run.Answered{Meta: m, Entry: w.turn(t, m)}
	case "ended":
		return run.Ended{
			Meta:  m,
			Entry: run.Entry{Index: w.index(t), Kind: run.EntryEnded, Trigger: max(1, s.Owner), End: drawEnd(t)},
		}
	case "replied":
		i := rapid.IntRange(-1, 4).Draw(t, "index")
		if forks := s.Turns.Forks(); len(forks) > 0 && rapid.IntRange(0, 3).Draw(t, "a fork's") == 3 {
			f := rapid.SampledFrom(forks).Draw(t, "fork")
			turn, i = f.Turn, f.Index
		}
		// No two outcomes are the same.
		o := run.Outcome{Status: run.StatusCompleted, Result: place(turn, i), Worker: fmt.Sprint("w", m.Seq)}
		if n := len(s.Turns); n > 0 && s.Turns[n-1].Entry.Review != nil && rapid.Bool().Draw(t, "a verdict") {
			turn, i = n, len(s.Turns[n-1].Entry.Calls)
			verdicts := []string{
				`{"decision":"continue"}`,
				`{"decision":"reorient","correction":"no"}`,
				`{"decision":"pause"}`,
				"no verdict",
			}
			o.Result = rapid.SampledFrom(verdicts).Draw(t, "verdict")
		}
		if rapid.Bool().Draw(t, "failed") {
			o.Status, o.Kind = run.StatusFailed, run.KindError
		}
		return run.Replied{Meta: m, Turn: turn, Index: i, Outcome: o}
	case "mailed":
		message := run.Mail{
			From: rapid.SampledFrom(append(names(forkPaths(s)), "r-1-0", "somebody")).Draw(t, "from"),
			Text: "x",
		}
		message.Idle = message.From != "somebody" && rapid.Bool().Draw(t, "idle")
		message.Seen = uint64(rapid.IntRange(0, int(m.Seq)).Draw(t, "had read"))
		writers := []string{message.From, message.From, message.From, "r-7-7"}
		message.Key = rapid.SampledFrom(writers).Draw(t, "key") + "-idle1"
		return run.Mailed{Meta: m, Mail: message}
	case "answered without calls":
		entryKinds := []run.EntryKind{run.EntryIdle, run.EntryIdle, run.EntryIdle, run.EntryFinal}
		e := run.Entry{
			Index:   w.index(t),
			Kind:    rapid.SampledFrom(entryKinds).Draw(t, "entry kind"),
			Trigger: max(1, w.state.Owner),
			Seen:    w.seen(t),
			Answer:  &provider.Response{Content: "so far"},
			Start:   w.start,
		}
		if rapid.IntRange(0, 3).Draw(t, "its model failed") == 3 {
			e.End = &run.End{Kind: run.KindError, Text: "no"}
		}
		return run.AnsweredWithoutCalls{Meta: m, Entry: e}
	case "timed out":
		return run.TimedOut{Meta: m, Turn: turn}
	case "outcome stored":
		return run.OutcomeStored{Meta: m, Outcome: rapid.SampledFrom([]run.Outcome{
			{Status: run.StatusCompleted}, run.Failure(run.KindError, "no"), run.Failure(run.KindCancelled, "stop"),
		}).Draw(t, "outcome")}
	}
	return run.Cancelled{Meta: m, End: *drawEnd(t)}
}

// likely lists the kinds of events. Kinds that move the state are listed
// several times.
func likely(s run.State) []string {
	kinds := allKinds()
	switch s.Phase {
	case run.None:
		return append(kinds, "called", "called", "called", "called")
	case run.Ready:
		more := []string{"answered", "answered", "answered", "answered without calls"}
		return append(kinds, slices.Repeat(more, 5)...)
	case run.Awaiting:
		return append(kinds, slices.Repeat([]string{"replied", "replied", "replied", "mailed"}, 5)...)
	case run.Idle:
		return append(kinds, slices.Repeat([]string{"mailed"}, 5)...)
	case run.Held:
		return append(kinds, slices.Repeat([]string{"approved", "timed out"}, 5)...)
	case run.Polling, run.Completed, run.Failed:
	}
	return kinds
}

// likelyOfATool is likely for a tool run.
func likelyOfATool(s run.State) []string {
	var moves []string
	switch s.Phase {
	case run.None:
		moves = []string{"called"}
	case run.Ready:
		moves = []string{"started", "tool held", "task"}
	case run.Polling:
		moves = []string{"tool held", "timed out"}
		if s.Task.Filled != nil {
			moves = append(moves, "task")
		}
	case run.Held:
		moves = []string{"settled", "settled"}
	case run.Awaiting, run.Idle, run.Completed, run.Failed:
	}
	return append(allKinds(), slices.Repeat(moves, 20)...)
}

// allKinds lists the kinds of events.
func allKinds() []string {
	return []string{
		"called",
		"answered",
		"ended",
		"replied",
		"timed out",
		"mailed",
		"answered without calls",
		"approved",
		"returned",
		"started",
		"tool held",
		"settled",
		"task",
		"cancelled",
		"outcome stored",
	}
}

// index returns the index of the next entry. Sometimes it leaves a hole, or is
// the index of the last entry.
func (w *walker) index(t *rapid.T) int {
	return max(1, w.state.LogIndex+1+rapid.SampledFrom([]int{0, 0, 0, 0, 1, -1}).Draw(t, "hole"))
}

// seen returns the sequence up to which the writer of an entry had read. Often
// the last messages came later, while the model was asked.
func (w *walker) seen(t *rapid.T) uint64 {
	return uint64(rapid.IntRange(int(min(w.state.Owner, w.state.Seq)), int(w.state.Seq)).Draw(t, "seen"))
}

// turn draws the entry of an answer with calls.
func (w *walker) turn(t *rapid.T, m run.Meta) run.Entry {
	n := rapid.IntRange(1, 4).Draw(t, "calls")
	e := run.Entry{
		Index: w.index(t), Kind: run.EntryTurn, Trigger: max(1, w.state.Owner), Seen: w.seen(t),
		Answer: &provider.Response{}, Sequential: rapid.Bool().Draw(t, "sequential"),
		Timer: m.Time.Add(time.Hour), Start: w.start,
	}
	if w.supervision.Mode != run.Unsupervised && rapid.IntRange(0, 3).Draw(t, "reviewed") > 0 {
		e.Timer = m.Time.Add(2 * time.Second)
		e.Review = &run.Call{Op: run.OpReview, Agent: "supervisor", Deadline: e.Timer}
		e.Cut = rapid.IntRange(0, 3).Draw(t, "cut") == 3
		// The run's time ends before or after that of the person.
		if rapid.Bool().Draw(t, "ends soon") {
			e.Until = m.Time.Add(time.Duration(rapid.IntRange(2, 90).Draw(t, "until")) * time.Second)
		}
		if rapid.IntRange(0, 5).Draw(t, "no supervisor") == 5 {
			e.Review.Error, e.Review.Kind = "unknown", run.KindUnknownAgent
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "approved by a person") == 4 {
		e.Approve = "a person approves it"
		if e.Until.IsZero() {
			e.Until = m.Time.Add(90 * time.Second)
		}
		if e.Review == nil {
			e.Timer = e.Until
		}
	}
	if rapid.Bool().Draw(t, "timeout") {
		e.Timeout = time.Minute
	}
	for i := range n {
		c := run.Call{Agent: fmt.Sprint("a", i), Deadline: m.Time.Add(time.Duration(i+1) * time.Minute)}
		if rapid.IntRange(0, 3).Draw(t, "refused") == 3 {
			c = run.Call{Error: "no such agent", Kind: run.KindUnknownAgent}
		} else if w.mails {
			c.Op = rapid.SampledFrom([]run.Op{
				run.OpCall, run.OpCall, run.OpFork, run.OpSend, run.OpMail,
				run.OpWait, run.OpKill,
			}).Draw(t, "op")
		}
		if c.Op == run.OpCall && !c.Failed() && rapid.Bool().Draw(t, "a tool") {
			c.Op = run.OpTool
			effects := []run.ToolEffect{run.ToolReads, run.ToolReads, run.ToolIdempotent, run.ToolOnce}
			c.Effect = rapid.SampledFrom(effects).Draw(t, "effect")
		}
		w.address(t, &c, i)
		e.Calls = append(e.Calls, c)
	}
	spread(t, &e)
	return e
}

// address fills in the peers of a call, as package tool may do.
func (w *walker) address(t *rapid.T, c *run.Call, index int) {
	known := forkPaths(w.state)
	switch c.Op {
	case run.OpFork:
		c.To = forkPath(len(w.state.Turns)+1, index)
	case run.OpSend:
		c.To = rapid.SampledFrom(append(known, subjects.Root, forkPath(9, 9))).Draw(t, "to")
	case run.OpKill:
		c.To = rapid.SampledFrom(append(known, forkPath(9, 9), forkPath(1, 9))).Draw(t, "victim")
		if len(known) > 0 && rapid.IntRange(0, 3).Draw(t, "further below") == 3 {
			c.To = c.To.Child(1, 0)
		}
	case run.OpWait:
		if !rapid.Bool().Draw(t, "particular") {
			return
		}
		peer := rapid.SampledFrom(append(known, forkPath(9, 9), forkPath(8, 8)))
		c.From = rapid.SliceOfNDistinct(peer, 1, 2, rapid.ID[subjects.Path]).Draw(t, "from")
		for _, from := range c.From {
			if w.dead(w.state, from) || from == forkPath(9, 9) && rapid.Bool().Draw(t, "a dead one") {
				c.Dead = append(c.Dead, from)
			}
		}
	case run.OpCall, run.OpTool, run.OpMail, run.OpReview:
	}
}

// forkPath returns the path of the run that a call of the walk's run makes.
func forkPath(turn, index int) subjects.Path { return subjects.Root.Child(turn, index) }

// forkPaths returns the paths of all forks of a run, ended or not.
func forkPaths(s run.State) (paths []subjects.Path) {
	for i, turn := range s.Turns {
		for k, c := range turn.Entry.Calls {
			if c.Op == run.OpFork && turn.CarriedOut() && !c.Failed() {
				paths = append(paths, forkPath(i+1, k))
			}
		}
	}
	return paths
}

// names returns paths as text.
func names(paths []subjects.Path) (all []string) {
	for _, p := range paths {
		all = append(all, p.String())
	}
	return all
}

// drawEnd draws the end in a cancel message, or on the log.
func drawEnd(t *rapid.T) *run.End {
	k := rapid.SampledFrom([]run.Kind{run.KindCancelled, run.KindPoisoned, run.KindTimeout}).Draw(t, "end")
	return &run.End{Kind: k, Text: string(k)}
}

// place names a call. A child of the walk has this name as its result.
func place(turn, index int) string { return fmt.Sprint(turn, ".", index) }

// isOutcomeStored reports whether an event is the run's own outcome, whose
// sequence does not count.
func isOutcomeStored(e run.Event) bool {
	_, ok := e.(run.OutcomeStored)
	return ok
}

// seqOf is the sequence of an event.
func seqOf(e run.Event) uint64 {
	switch e := e.(type) {
	case run.Called:
		return e.Seq
	case run.Answered:
		return e.Seq
	case run.Ended:
		return e.Seq
	case run.ToolStarted:
		return e.Seq
	case run.ToolHeld:
		return e.Seq
	case run.TaskMade:
		return e.Seq
	case run.Settled:
		return e.Seq
	case run.Replied:
		return e.Seq
	case run.TimedOut:
		return e.Seq
	case run.Mailed:
		return e.Meta.Seq
	case run.AnsweredWithoutCalls:
		return e.Seq
	case run.Approved:
		return e.Seq
	case run.Interrupted:
		return e.Seq
	case run.Returned:
		return e.Seq
	case run.CancelSent:
		return e.Seq
	case run.Cancelled:
		return e.Seq
	case run.OutcomeStored:
		return e.Seq
	case run.OutcomeRefused:
		return e.Seq
	}
	return 0
}

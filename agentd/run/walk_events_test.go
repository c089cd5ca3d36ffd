package run_test

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

// draw makes an event: mostly one that fits, often one that does not.
func (w *walker) draw(t *rapid.T) run.Event {
	s := w.state
	m := run.Meta{Seq: s.Seq + uint64(rapid.IntRange(1, 3).Draw(t, "after"))}
	if rapid.IntRange(0, 9).Draw(t, "late") == 9 {
		m.Seq = uint64(rapid.IntRange(0, int(s.Seq)).Draw(t, "seq"))
	}
	m.Time = epoch.Add(time.Duration(m.Seq) * time.Second)
	turn := max(0, len(s.Turns)+rapid.SampledFrom([]int{0, 0, 0, -1, 1}).Draw(t, "turn"))
	switch rapid.SampledFrom(likely(s)).Draw(t, "kind") {
	case "called":
		return run.Called{Meta: m, Input: run.Input{Task: "a task"}}
	case "answered":
		return run.Answered{Meta: m, Entry: w.turn(t, m)}
	case "ended":
		return run.Ended{Meta: m, Entry: run.Entry{Index: w.index(t), Kind: run.EntryEnded, Trigger: max(1, s.Owner), End: drawEnd(t)}}
	case "replied":
		i := rapid.IntRange(-1, 4).Draw(t, "index")
		o := run.Outcome{Status: run.StatusCompleted, Result: place(turn, i)}
		if rapid.Bool().Draw(t, "failed") {
			o.Status, o.Kind = run.StatusFailed, run.KindError
		}
		return run.Replied{Meta: m, Turn: turn, Index: i, Outcome: o}
	case "mailed":
		return run.Mailed{Meta: m, Mail: run.Mail{From: rapid.SampledFrom([]string{"r-1-0", "r-1-1", "somebody"}).Draw(t, "from"), Text: "x"}}
	case "rested":
		return run.Rested{Meta: m, Entry: run.Entry{
			Index: w.index(t), Kind: rapid.SampledFrom([]run.EntryKind{run.EntryIdle, run.EntryIdle, run.EntryIdle, run.EntryFinal}).Draw(t, "rest"),
			Trigger: max(1, w.state.Owner), Seen: w.seen(t), Answer: &provider.Response{Content: "so far"}, Start: &run.Start{},
		}}
	case "timed out":
		return run.TimedOut{Meta: m, Turn: turn}
	case "concluded":
		return run.Concluded{Meta: m, Outcome: rapid.SampledFrom([]run.Outcome{
			{Status: run.StatusCompleted}, run.Failure(run.KindError, "no"), run.Failure(run.KindCancelled, "stop"),
		}).Draw(t, "outcome")}
	}
	return run.Cancelled{Meta: m, End: *drawEnd(t)}
}

// likely lists the kinds of events, those that move the state several times.
func likely(s run.State) []string {
	kinds := []string{"called", "answered", "ended", "replied", "timed out", "mailed", "rested", "cancelled", "concluded"}
	switch s.Phase {
	case run.None:
		return append(kinds, "called", "called", "called", "called")
	case run.Ready:
		return append(kinds, slices.Repeat([]string{"answered", "answered", "answered", "rested"}, 5)...)
	case run.Awaiting:
		return append(kinds, slices.Repeat([]string{"replied", "replied", "replied", "mailed"}, 5)...)
	case run.Idle:
		return append(kinds, slices.Repeat([]string{"mailed"}, 5)...)
	case run.Held, run.Completed, run.Failed:
	}
	return kinds
}

// index is that of the next entry of the log, or leaves a hole.
func (w *walker) index(t *rapid.T) int {
	return max(1, w.state.LogIndex+1+rapid.SampledFrom([]int{0, 0, 0, 0, 1, -1}).Draw(t, "hole"))
}

// seen is up to where the writer of an entry had read: often not the last messages, which came during the asking.
func (w *walker) seen(t *rapid.T) uint64 {
	return uint64(rapid.IntRange(int(min(w.state.Owner, w.state.Seq)), int(w.state.Seq)).Draw(t, "seen"))
}

func (w *walker) turn(t *rapid.T, m run.Meta) run.Entry {
	n := rapid.IntRange(1, 4).Draw(t, "calls")
	e := run.Entry{
		Index: w.index(t), Kind: run.EntryTurn, Trigger: max(1, w.state.Owner), Seen: w.seen(t), Answer: &provider.Response{},
		Sequential: rapid.Bool().Draw(t, "sequential"), Timer: m.Time.Add(time.Hour),
	}
	if rapid.Bool().Draw(t, "timeout") {
		e.Timeout = time.Minute
	}
	for i := range n {
		c := run.Call{Agent: fmt.Sprint("a", i), Deadline: m.Time.Add(time.Duration(i+1) * time.Minute)}
		if rapid.IntRange(0, 3).Draw(t, "refused") == 3 {
			c = run.Call{Error: "no such agent", Kind: run.KindUnknownAgent}
		} else if w.mails {
			c.Op = rapid.SampledFrom([]run.Op{run.OpCall, run.OpCall, run.OpFork, run.OpSend, run.OpMail, run.OpWait, run.OpKill}).Draw(t, "op")
		}
		if c.Op == run.OpWait && rapid.Bool().Draw(t, "particular") {
			c.From = []string{"r-1-0", "somebody"}[:rapid.IntRange(1, 2).Draw(t, "of whom")]
		}
		e.Calls = append(e.Calls, c)
		e.Answer.ToolCalls = append(e.Answer.ToolCalls, provider.ToolCall{ID: fmt.Sprint("c", i)})
	}
	return e
}

func drawEnd(t *rapid.T) *run.End {
	k := rapid.SampledFrom([]run.Kind{run.KindCancelled, run.KindPoisoned, run.KindTimeout}).Draw(t, "end")
	return &run.End{Kind: k, Text: string(k)}
}

// place names a call, so that outcomes are told apart.
func place(turn, index int) string { return fmt.Sprint(turn, ".", index) }

func isConcluded(e run.Event) bool {
	_, ok := e.(run.Concluded)
	return ok
}

func seqOf(e run.Event) uint64 {
	switch e := e.(type) {
	case run.Called:
		return e.Seq
	case run.Answered:
		return e.Seq
	case run.Ended:
		return e.Seq
	case run.Replied:
		return e.Seq
	case run.TimedOut:
		return e.Seq
	case run.Mailed:
		return e.Meta.Seq
	case run.Rested:
		return e.Seq
	case run.Approved:
		return e.Seq
	case run.Interrupted:
		return e.Seq
	case run.Cancelled:
		return e.Seq
	case run.Concluded:
		return e.Seq
	}
	return 0
}

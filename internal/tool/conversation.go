package tool

import (
	"fmt"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// Conversation is the conversation of the run at a path: the first user
// message, then for each turn its answer and the results of its calls, in call
// order. After a turn that left the run idle comes the notice of the mail that
// woke the run.
func Conversation(at subjects.Path, user string, turns []run.Turn) []provider.Message {
	msgs := []provider.Message{{Role: provider.User, Content: user}}
	for i, t := range turns {
		msgs = append(msgs, exchange(t, Results(at, i+1, t))...)
	}
	return msgs
}

// exchange is the messages of one turn.
func exchange(t run.Turn, results []provider.ToolResult) []provider.Message {
	a := t.Entry.Answer
	var msgs []provider.Message
	if len(t.Entry.Calls) > 0 {
		called, written := splitSlashResults(t, results)
		msgs = append(msgs, provider.Message{Role: provider.Assistant, Content: a.Content, ToolCalls: called})
		if len(called) > 0 {
			msgs = append(msgs, provider.Message{Role: provider.ToolRole, ToolResults: results[:len(called)]})
		}
		if written != "" {
			msgs = append(msgs, provider.Message{Role: provider.User, Content: written})
		}
	} else if a.Content != "" {
		msgs = append(msgs, provider.Message{Role: provider.Assistant, Content: a.Content})
	}
	if len(t.Notice) > 0 {
		msgs = append(msgs, provider.Message{Role: provider.User, Content: MailNotice(t.Notice)})
	}
	return msgs
}

// Results is one result for each tool call of a run's n-th turn, in call order.
// The results are final once the turn has all its outcomes.
func Results(at subjects.Path, n int, t run.Turn) []provider.ToolResult {
	return results(t, func(i int) (string, bool) { return result(at, n, t, i) })
}

func results(t run.Turn, text func(call int) (text string, isError bool)) []provider.ToolResult {
	if len(t.Entry.Calls) == 0 {
		return nil
	}
	out := make([]provider.ToolResult, len(t.Entry.Answer.ToolCalls))
	for i, tc := range t.Entry.Answer.ToolCalls {
		out[i].CallID = tc.ID
		out[i].Content, out[i].IsError = text(i)
	}
	return out
}

// result is the result of the i-th tool call of a run's n-th turn. A turn that
// waits for its supervisor or for a person has results, too: the run may be
// copied, or ended, in that state.
func result(at subjects.Path, n int, t run.Turn, i int) (text string, isError bool) {
	from, _ := t.Entry.CallRange(i)
	switch c := t.Entry.Calls[from]; {
	case t.Withheld() != "" && !c.Failed():
		return t.Withheld(), true
	case !t.CarriedOut() && !c.Failed():
		return undecided, true
	case c.Spawn:
		return aggregate(at, n, t, i), false
	case !c.HasReply() && !c.Failed():
		return mailResult(t, from), false
	default:
		text, isError = Text(c, t.Outcomes[from])
		return changedArguments(c) + text, isError
	}
}

// changedArguments tells a model that a person approved of its call with other
// arguments. It is empty for any other call.
func changedArguments(c run.Call) string {
	if !c.Changed {
		return ""
	}
	return fmt.Sprintf("[A person approved of this call with other arguments: %s]\n", c.Arguments)
}

// undecided is the result of a call of a turn that its supervisor, or a person,
// has not decided on.
const undecided = "Nothing of this turn was carried out: nobody has approved of it yet."

// Text is the result of one call as its caller's model reads it.
func Text(c run.Call, o *run.Outcome) (text string, isError bool) {
	switch {
	case c.Failed():
		return c.Error, true
	case o == nil && c.Op == run.OpTool:
		return noOutcome, true
	case o == nil:
		return failed(c.Agent, noOutcome), true
	case o.Status == run.StatusCompleted:
		return answerOf(*o), false
	case c.Op == run.OpTool:
		return o.Error, true
	}
	return failed(c.Agent, o.Error), true
}

// answerOf returns the result of a run as another run's model reads it.
func answerOf(o run.Outcome) string {
	return marked(o.Result, o.Status == run.StatusCompleted && o.Truncated)
}

// marked returns the text of an answer, with a mark if it was cut.
func marked(answer string, cut bool) string {
	if cut {
		return answer + cutMark
	}
	return answer
}

// cutMark follows an answer that was cut.
const cutMark = "\n\n[This answer was cut at its limit of output tokens. It is not complete.]"

// noOutcome is the error of a call without an outcome.
const noOutcome = "no outcome"

// failed is the result of a call of a sub-agent that failed.
func failed(agent, why string) string {
	return fmt.Sprintf("Error: sub-agent %q failed - %s. You may retry or proceed without this result.", agent, why)
}

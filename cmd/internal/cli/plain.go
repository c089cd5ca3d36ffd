package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
)

// Line formats an event as one line of text, for logs and for output that is
// not a terminal.
func Line(e client.Event) string {
	line := fmt.Sprintf("%s %s %s %s", e.Time.Local().Format("15:04:05.000"), e.Run.Path, runName(e), eventText(e))
	if e.Worker != "" {
		line += " (" + e.Worker + ")"
	}
	return Printable(line)
}

func eventText(e client.Event) string {
	switch e.Kind {
	case client.Asking:
		return fmt.Sprintf("asking, turn %d", e.Turn)
	case client.Running:
		return "running"
	case client.Retrying:
		return fmt.Sprintf("turn %d: %s", e.Turn, retryText(e.Progress, e.Time))
	case client.RateLimited:
		return fmt.Sprintf("turn %d: %s", e.Turn, limitText(e.Progress, e.Time))
	case client.Stalled:
		return stallText(e)
	case client.Answered:
		calls := strings.Join(callTexts(e.Entry.Calls), ", ")
		if e.Entry.Review != nil {
			return fmt.Sprintf("turn %d asks %s before it %s", e.Turn, e.Entry.Review.Agent, calls)
		}
		return fmt.Sprintf("turn %d %s", e.Turn, calls)
	case client.Held, client.Approved, client.Denied:
		return decisionText(e)
	case client.Settled:
		return settledText(e)
	case client.BecameIdle:
		if e.Outcome.Status != run.StatusCompleted {
			return "idle: " + e.Outcome.Error
		}
		return "idle"
	case client.MailReceived:
		if e.Mail.Idle {
			return "got mail from " + e.Mail.From + ", which is idle"
		}
		return "got mail from " + client.Claimed(e.Mail.From) + byText(e.Sender)
	case client.TimedOut:
		return timeoutText(e)
	case client.Cancelled:
		if e.Cause.Reason == run.ReasonParentAnswered {
			return "ends with the run above it"
		}
		return "cancelled: " + e.Cause.Text
	case client.ChildEnded, client.TreeEnded:
		return outcomeText(e.Outcome)
	case client.NotCounted:
		return "decision by " + e.By + " does not count: " + e.Reason
	case client.Called:
		if task := title(e); task != "" {
			return "called" + byText(e.Sender) + ": " + task
		}
	case client.CancelSent:
		return "cancel sent by " + e.Sender.String() + ": " + e.Cause.Text
	case client.Interrupted:
	}
	return string(e.Kind) + byText(e.Sender)
}

func stallText(e client.Event) string { return cmp.Or(e.Reason, "has a worker again") }

func timeoutText(e client.Event) string {
	switch {
	case e.Reason != "":
		return fmt.Sprintf("stops waiting for turn %d: %s", e.Turn, e.Reason)
	case e.Turn > 0:
		return fmt.Sprintf("turn %d timed out", e.Turn)
	}
	return "timed out"
}

// endedWithParent is the text for a fork that ended because its parent had
// answered. Such a fork has not failed.
const endedWithParent = "ended with the run above it"

// outcomeText says how a run ended.
func outcomeText(o run.Outcome) string {
	switch {
	case o.Status == run.StatusCompleted:
		return string(o.Status)
	case o.Reason == run.ReasonParentAnswered:
		return endedWithParent
	}
	return string(o.Status) + ": " + o.Error
}

// decisionText describes the decision on a reviewed turn.
func decisionText(e client.Event) string {
	if e.Turn == 0 {
		return "held for a person: " + e.Reason
	}
	text := fmt.Sprintf("turn %d is held for a person", e.Turn)
	if e.Kind != client.Held {
		text = fmt.Sprintf("turn %d is %s", e.Turn, e.Kind)
		if e.By != "" {
			text += " by " + e.By
		}
		if slices.ContainsFunc(e.Entry.Calls, func(c run.Call) bool { return c.Changed }) {
			text += ", with other arguments"
		}
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// settledText says how a person settled the call of a tool.
func settledText(e client.Event) string {
	switch e.Settlement.As {
	case run.SettleDone:
		return "settled by " + e.By + ": it has taken effect"
	case run.SettleAgain:
		return "settled by " + e.By + ": it is called again"
	case run.SettleAnswer:
		return "answered by " + e.By
	case run.SettleDecline:
		return "declined by " + e.By
	case run.SettleFail:
	}
	return "settled by " + e.By + ": the run fails"
}

// retryText says when a failed request to a model is sent again, and why it
// failed.
func retryText(p run.Progress, now time.Time) string {
	in := max(0, p.Next.Sub(now)).Round(100 * time.Millisecond)
	return fmt.Sprintf("attempt %d of %d in %s (%s)", p.Attempt, p.Attempts, in, p.Reason)
}

// limitText names the limit that a request to a model waits for, and the
// minimum wait if it is known.
func limitText(p run.Progress, now time.Time) string {
	if p.Reason == run.WaitingForBudget {
		return "waits for room in its budget"
	}
	if p.Next.IsZero() {
		return "waits at its provider's limit (" + p.Reason + ")"
	}
	in := max(0, p.Next.Sub(now)).Round(100 * time.Millisecond)
	return fmt.Sprintf("waits at its provider's limit, %s at least (%s)", in, p.Reason)
}

// callTexts describes the calls of a turn: the agents that it calls, and its
// messages to other runs.
func callTexts(calls []run.Call) []string {
	var agents, tools, waits, refused []string
	targets := map[run.Op][]string{}
	for _, c := range calls {
		switch {
		case refusedRun(c):
			agents = append(agents, c.Agent+"(refused)")
		case c.Failed():
			refused = append(refused, "is refused "+c.Error)
		case c.Op == run.OpCall:
			agents = append(agents, c.Agent)
		case c.Op == run.OpTool:
			tools = append(tools, c.Tool)
		case c.Op == run.OpWait:
			waits = append(waits, waitText(c))
		default:
			targets[c.Op] = append(targets[c.Op], c.To.String())
		}
	}
	var all []string
	add := func(verb string, objects []string) {
		if len(objects) > 0 {
			all = append(all, verb+" "+strings.Join(objects, " "))
		}
	}
	add("calls", agents)
	add("uses", tools)
	add("forks", targets[run.OpFork])
	add("writes to", targets[run.OpSend])
	add("kills", targets[run.OpKill])
	if targets[run.OpMail] != nil {
		all = append(all, "looks for mail")
	}
	return slices.Concat(all, waits, refused)
}

// refusedRun reports whether a call was refused that would have made a run.
func refusedRun(c run.Call) bool { return c.Failed() && c.Op == run.OpCall && c.Agent != "" }

// waitText names the senders that a call waits for.
func waitText(c run.Call) string {
	if len(c.From) == 0 {
		return "waits for mail"
	}
	names := make([]string, len(c.From))
	for i, from := range c.From {
		names[i] = from.String()
	}
	return "waits for mail from " + strings.Join(names, " ")
}

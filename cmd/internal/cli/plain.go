package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
)

// Line is an event as a line of text, for logs and for those who have no
// terminal.
func Line(e client.Event) string {
	what := string(e.Kind)
	switch e.Kind {
	case client.Asking:
		what = fmt.Sprintf("asking, turn %d", e.Turn)
	case client.Retrying:
		what = fmt.Sprintf("turn %d: %s", e.Turn, attempt(e.Attempt, e.Attempts, e.Next.Sub(e.Time), e.Reason))
	case client.RateLimited:
		what = fmt.Sprintf("turn %d: %s", e.Turn, limited(e.Next, e.Time, e.Reason))
	case client.Answered:
		what = fmt.Sprintf("turn %d %s", e.Turn, strings.Join(deeds(e.Calls), ", "))
		if e.Review != nil {
			what = fmt.Sprintf(
				"turn %d asks %s before it %s",
				e.Turn,
				e.Review.Agent,
				strings.Join(deeds(e.Calls), ", "),
			)
		}
	case client.Held, client.Approved, client.Denied:
		what = decision(e)
	case client.BecameIdle:
		what = "idle"
		if e.Outcome.Status != run.StatusCompleted {
			what += ": " + e.Outcome.Error
		}
	case client.MailReceived:
		what = "got mail from " + e.Mail.From
		if e.Mail.Idle {
			what += ", which is idle"
		}
	case client.TimedOut:
		what = "timed out"
		switch {
		case e.Reason != "":
			what = fmt.Sprintf("turn %d is waited for no longer: %s", e.Turn, e.Reason)
		case e.Turn > 0:
			what = fmt.Sprintf("turn %d timed out", e.Turn)
		}
	case client.Cancelled:
		what = "cancelled: " + e.Reason
		if dismissed(e.Outcome) {
			what = endsWithAbove
		}
	case client.ChildEnded, client.TreeEnded:
		what = fate(e.Outcome)
	case client.Called, client.Interrupted:
	}
	line := fmt.Sprintf("%s %s %s %s", e.Time.Local().Format("15:04:05.000"), e.Run.Path, e.Run.Agent, what)
	if e.Worker != "" {
		line += " (" + e.Worker + ")"
	}
	return Printable(line)
}

// fate says how a run has ended. A fork that ends with its parent has not
// failed.
func fate(o run.Outcome) string {
	switch {
	case o.Status == run.StatusCompleted:
		return string(o.Status)
	case dismissed(o):
		return withAbove
	}
	return string(o.Status) + ": " + o.Error
}

// dismissed reports whether a run was ended because the one above it had
// answered.
func dismissed(o run.Outcome) bool {
	return o.Reason == run.ReasonParentAnswered
}

// What is said of a run that was ended because the one above it had answered:
// when it is told, and when it has ended. Who waits for a tree may be gone by
// then.
const (
	endsWithAbove = "ends with the run above it"
	withAbove     = "ended with the run above it"
)

// decision says what was decided on a turn that somebody looks at before
// anything of it is done.
func decision(e client.Event) string {
	what := "held for a person"
	if e.Kind != client.Held {
		what = string(e.Kind)
		if e.By != "" {
			what += " by " + e.By
		}
	}
	what = fmt.Sprintf("turn %d is %s", e.Turn, what)
	if e.Reason != "" {
		what += ": " + e.Reason
	}
	return what
}

// attempt says when a model that failed is asked again, and why it failed.
func attempt(n, of int, in time.Duration, why string) string {
	return fmt.Sprintf("attempt %d of %d in %s (%s)", n, of, max(0, in).Round(100*time.Millisecond), why)
}

// limited says which limit of its provider a model waits for, and for how long
// where that is known.
func limited(until, now time.Time, why string) string {
	if until.IsZero() {
		return "waits at its provider's limit (" + why + ")"
	}
	return fmt.Sprintf(
		"waits at its provider's limit, %s at least (%s)",
		max(0, until.Sub(now)).Round(100*time.Millisecond),
		why,
	)
}

// deeds says what a turn does: whom it calls, as far as anybody, and what it
// does with those that work beside it.
func deeds(calls []run.Call) []string {
	var called, refused []string
	did := map[run.Op][]string{}
	var waits []string
	for _, c := range calls {
		switch {
		case refusedRun(c):
			called = append(called, c.Agent+"(refused)")
		case c.Failed():
			refused = append(refused, "is refused "+c.Error)
		case c.Op == run.OpCall:
			called = append(called, c.Agent)
		case c.Op == run.OpWait:
			waits = append(waits, waitsForMail(c))
		default:
			did[c.Op] = append(did[c.Op], c.To)
		}
	}
	var all []string
	add := func(verb string, whom []string) {
		if len(whom) > 0 {
			all = append(all, verb+" "+strings.Join(whom, " "))
		}
	}
	add("calls", called)
	add("forks", did[run.OpFork])
	add("writes to", did[run.OpSend])
	add("kills", did[run.OpKill])
	if did[run.OpMail] != nil {
		all = append(all, "looks for mail")
	}
	return slices.Concat(all, waits, refused)
}

// refusedRun reports whether a call would have made a run of an agent, but was
// refused.
func refusedRun(c run.Call) bool { return c.Failed() && c.Op == run.OpCall && c.Agent != "" }

// waitsForMail says whose mail a call waits for.
func waitsForMail(c run.Call) string {
	if len(c.From) == 0 {
		return "waits for mail"
	}
	return "waits for mail from " + strings.Join(c.From, " ")
}

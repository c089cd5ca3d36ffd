package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/subjects"
)

// TreeOf makes the drawing of a tree from its snapshot.
func TreeOf(s *client.Snapshot) *Tree {
	t := &Tree{}
	for _, e := range s.Events {
		t.Apply(e)
	}
	return t
}

// Why says why a run is where it is: the thing that it waits for, and the
// reason why that is missing. It is empty for a run that has ended, or that is
// not known.
func (t *Tree) Why(path subjects.Path, now time.Time) string {
	if n := t.nodes[path]; n != nil {
		return Printable(t.why(n, now))
	}
	return ""
}

func (t *Tree) why(n *node, now time.Time) string {
	switch {
	case n.refusal != "", n.ended != nil:
		return ""
	case n.stalled != "":
		return n.stalled
	case n.state.Ended(), n.cancelled:
		return "is ending"
	case n.asks():
		return n.request.text(n.progress, now)
	case n.state.Phase == run.Held:
		return n.whyHeld(now)
	case n.state.Phase == run.Awaiting:
		return t.whyAwaiting(n, now)
	case n.state.Phase == run.Idle:
		return "is idle since " + t.age(n, now) + ": it waits for mail"
	case n.state.Phase == run.Polling:
		return "waits for its tool's server, which goes on with the call"
	}
	return "waits for a worker since " + t.age(n, now)
}

// needsReason reports whether the state of a run, as its line has it, leaves
// open why the run is there. The runs below a run that waits have lines of
// their own.
func (n *node) needsReason() bool {
	return n.ended == nil && n.refusal == "" && n.state.Phase != run.Awaiting
}

// text describes a request to a model, or the work of a tool, that a worker has
// reported last.
func (r request) text(p run.Progress, now time.Time) string {
	worker := "worker " + p.Worker
	at := p.Next.Local().Format(time.TimeOnly)
	switch p.Event {
	case run.ProgressRetrying:
		return fmt.Sprintf("asks the model again at %s (%s, attempt %d of %d, the last one failed: %s)",
			at, worker, p.Attempt, p.Attempts, p.Reason)
	case run.ProgressWaiting:
		switch {
		case p.Reason == run.WaitingForBudget:
			return "waits for room in its budget (" + worker + ")"
		case p.Next.IsZero():
			return fmt.Sprintf("the provider's gate is closed: %s (%s)", p.Reason, worker)
		}
		return fmt.Sprintf("the provider's gate is closed until %s: %s (%s)", at, p.Reason, worker)
	}
	attempt := ""
	if p.Attempt > 1 {
		attempt = fmt.Sprintf("attempt %d of %d, ", p.Attempt, p.Attempts)
	}
	does := "asks the model"
	if p.Event == run.ProgressRunning {
		does = "runs its tool"
	}
	return fmt.Sprintf("%s (%s, %ssince %s)", does, worker, attempt, presence.Age(now.Sub(r.since)))
}

// whyHeld says for which decision of a person a run waits.
func (n *node) whyHeld(now time.Time) string {
	decider := func(a subjects.Approvers) string { return cmp.Or(a.String(), "a person") }
	if h := n.state.Hold; h != nil {
		return fmt.Sprintf("is held for %s since %s: %s",
			decider(n.state.Input.Tool.Approvers), presence.Age(now.Sub(h.Since)), h.Why)
	}
	t := n.state.Turns[len(n.state.Turns)-1]
	var approvers subjects.Approvers
	if start := n.state.Start(); start != nil {
		approvers = start.Approvers
	}
	return fmt.Sprintf("is held for %s since %s: %s", decider(approvers), presence.Age(now.Sub(t.Time)), t.Why)
}

// whyAwaiting names the runs or the mail that a run waits for, and says why the
// first of them takes its time. A run that only a person or an operator can
// help comes before the others.
func (t *Tree) whyAwaiting(n *node, now time.Time) string {
	number := len(n.state.Turns)
	turn := n.state.Turns[number-1]
	pending := awaited(n.path, number, turn)
	if len(pending) == 0 {
		for i, c := range turn.Entry.Calls {
			if c.Op == run.OpWait && turn.Outcomes[i] == nil {
				return waitText(c) + " since " + presence.Age(now.Sub(turn.Time))
			}
		}
		return "waits for a worker since " + t.age(n, now)
	}
	first := t.nodes[pending[0]]
	for _, path := range pending {
		if child := t.nodes[path]; child != nil && t.blocked(child) {
			first = child
			break
		}
	}
	if first == nil {
		return fmt.Sprintf("waits for %s, which was not called yet", pending[0])
	}
	name := fmt.Sprintf("waits for %s (%s)", first.path, first.agent)
	why := t.why(first, now)
	others := len(pending) - 1
	if others > 0 {
		name += fmt.Sprintf(" and %d more", others)
	}
	switch {
	case why == "":
		return name
	case others > 0, hasSubject(why):
		return fmt.Sprintf("%s; %s: %s", name, first.path, why)
	}
	return name + ", which " + why
}

// ProgressText describes the last report of a worker about a run in its hand,
// in a few words.
func ProgressText(p run.Progress) string {
	switch p.Event {
	case run.ProgressAsking:
		return fmt.Sprintf("asks the model, turn %d", p.Turn)
	case run.ProgressRunning:
		return "runs its tool"
	case run.ProgressRetrying:
		return fmt.Sprintf("pauses before attempt %d of %d, turn %d", p.Attempt, p.Attempts, p.Turn)
	case run.ProgressWaiting:
		return fmt.Sprintf("waits at a limit, turn %d: %s", p.Turn, Printable(p.Reason))
	}
	return "waits for a slot, or reads or writes"
}

// hasSubject reports whether a reason is a sentence of its own. Other reasons
// begin with a verb, of which the run is the subject.
func hasSubject(why string) bool {
	return slices.ContainsFunc([]string{"no worker ", "the provider's ", "its "}, func(s string) bool {
		return strings.HasPrefix(why, s)
	})
}

// awaited returns the paths of the runs that a turn waits for.
func awaited(path subjects.Path, number int, t run.Turn) (all []subjects.Path) {
	if t.Entry.Review != nil && !t.CarriedOut() {
		return []subjects.Path{path.Child(number, len(t.Entry.Calls))}
	}
	for i, c := range t.Entry.Calls {
		if c.HasReply() && t.Outcomes[i] == nil {
			all = append(all, path.Child(number, i))
		}
	}
	return all
}

// blocked reports whether a run, or a run below it, goes on only if somebody
// helps.
func (t *Tree) blocked(n *node) bool {
	if n.ended != nil {
		return false
	}
	if n.stalled != "" || n.state.Phase == run.Held {
		return true
	}
	return slices.ContainsFunc(n.below, t.blocked)
}

// age is the time since the last message of a run that its state has.
func (t *Tree) age(n *node, now time.Time) string {
	at := n.state.CalledAt
	if turns := n.state.Turns; len(turns) > 0 {
		at = turns[len(turns)-1].Time
	}
	return strings.TrimSpace(presence.Age(now.Sub(at)))
}

package cli

import (
	"fmt"
	"io"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// transcript prints a tree as axe does with --verbose: the turns of the root,
// and every sub-agent. The lines have the forms of axe's specification, 7.5 and
// 8.7. A sub-agent's lines say at their end which run it is.
type transcript struct {
	w io.Writer
	// turn is the turn of the root's last request, 0 before the first.
	turn int
	// open holds the sub-agents without a printed end.
	open map[subjects.Path]subAgent
}

type subAgent struct {
	// agent is the name of the agent, or of the tool of a tool run.
	agent, task string
	tool        bool
}

func newTranscript(w io.Writer) *transcript {
	return &transcript{w: w, open: map[subjects.Path]subAgent{}}
}

func (t *transcript) printf(format string, args ...any) {
	fmt.Fprintln(t.w, Printable(fmt.Sprintf(format, args...)))
}

// apply prints one event, and the root's next request if it is due then.
func (t *transcript) apply(e client.Event) {
	t.print(e)
	switch above, _, _, _ := e.Run.Path.Parent(); {
	case e.Run.Path.IsRoot():
		t.advance(e.State)
	case above.IsRoot() && e.Kind == client.ChildEnded && !denied(e.Caller):
		t.advance(e.Caller)
	}
}

// denied reports whether a run's last turn was denied. An event of its own says
// so, before the next request.
func denied(s run.State) bool { return len(s.Turns) > 0 && s.Turns[len(s.Turns)-1].Withheld() != "" }

// advance prints the root's next request if it is due. The request carries the
// results of the last turn's tool calls.
func (t *transcript) advance(root run.State) {
	if root.Phase != run.Ready || len(root.Turns) < t.turn {
		return
	}
	results := 0
	if n := len(root.Turns); n > 0 {
		results = root.Turns[n-1].Entry.ToolCalls()
	}
	t.turn = len(root.Turns) + 1
	t.printf("[turn %d] Sending request (%d messages, %d tool calls pending)", t.turn, 2*t.turn-1, results)
}

func (t *transcript) print(e client.Event) {
	switch e.Kind {
	case client.Called:
		t.called(e)
	case client.Retrying:
		about := retryText(e.Progress, e.Time)
		t.delayed(e, "[turn %d] Provider failed, %s", "%q: provider failed, %s", about)
	case client.RateLimited:
		t.delayed(e, "[turn %d] It %s", "%q %s", limitText(e.Progress, e.Time))
	case client.Answered:
		if e.Run.Path.IsRoot() {
			t.received(e.Entry.Answer.StopReason, e.Entry.ToolCalls())
		} else {
			t.below(e, "%q %s", e.Run.Agent, eventText(e))
		}
		if !e.Entry.Deferred() {
			t.carriedOut(e)
		}
	case client.BecameIdle:
		t.becameIdle(e)
	case client.MailReceived:
		if !e.Mail.Idle { // the fork's own event says so
			t.printf("[mail] %s to %s: %s...", e.Mail.From, e.Run.Path, opening(e.Mail.Text))
		}
	case client.ChildEnded:
		t.ended(e, e.Outcome)
	case client.TimedOut:
		t.timedOut(e)
	case client.TreeEnded:
		t.treeEnded(e.Outcome)
	case client.Held, client.Approved, client.Denied:
		t.printf("[supervision] %s: %s", e.Run.Path, decisionText(e))
		if e.Kind == client.Approved {
			t.carriedOut(e)
		}
	case client.Settled:
		t.printf("[supervision] %s: %s", e.Run.Path, settledText(e))
	case client.Stalled:
		t.printf("[stalled] %s %s: %s", e.Run.Path, e.Run.Agent, stallText(e))
	case client.NotCounted, client.CancelSent:
		t.printf("[supervision] %s: %s", e.Run.Path, eventText(e))
	case client.Interrupted:
		t.printf("[supervision] %s is interrupted%s", e.Run.Path, byText(e.Sender))
	case client.Asking, client.Running, client.Cancelled:
	}
}

func (t *transcript) called(e client.Event) {
	path := e.Run.Path
	if path.IsRoot() {
		return
	}
	agent := runName(e)
	t.open[path] = subAgent{agent: agent, tool: e.Input.Tool != nil} // the line has the task
	switch {
	case e.Input.Tool != nil:
		t.below(e, "Calling %q: %s", agent, title(e))
	case e.Input.Forked == nil:
		t.below(e, "Calling %q (depth %d) with task: %s...", agent, path.Depth(), opening(e.Input.Task))
	case e.Input.Forked.Inherit:
		t.below(e, "Forked %q, which knows the conversation", agent)
	default:
		t.below(e, "Forked %q with task: %s...", agent, opening(e.Input.Task))
	}
	t.open[path] = subAgent{agent, title(e), e.Input.Tool != nil}
}

// below prints a line about a run below the root, with its path, its worker and
// the beginning of its task.
func (t *transcript) below(e client.Event, format string, args ...any) {
	which := e.Run.Path.String()
	if e.Worker != "" {
		which += " on " + e.Worker
	}
	if task := t.open[e.Run.Path].task; task != "" {
		which += ": " + task
	}
	kind := "sub-agent"
	if t.open[e.Run.Path].tool {
		kind = "tool"
	}
	t.printf("[%s] %s [%s]", kind, fmt.Sprintf(format, args...), which)
}

// opening returns the first 80 characters of a text.
func opening(text string) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), 80)])
}

// delayed prints that a request waits. The format for the root is of its turn,
// the one for any other run of its agent.
func (t *transcript) delayed(e client.Event, forRoot, forOthers, about string) {
	if e.Run.Path.IsRoot() {
		t.printf(forRoot, e.Turn, about)
	} else {
		t.below(e, forOthers, e.Run.Agent, about)
	}
}

// carriedOut prints the calls of a turn that make no run. A run has an event of
// its own.
func (t *transcript) carriedOut(e client.Event) {
	for i, c := range e.Entry.Calls {
		switch {
		case c.Failed() && c.Agent == "": // the call named no sub-agent
			t.printf("[turn %d] %s", e.Turn, c.Error)
		case c.Failed():
			t.printf("[sub-agent] %q failed: %s", c.Agent, c.Error)
		case c.Op == run.OpCall:
			t.open[e.Run.Path.Child(e.Turn, i)] = subAgent{agent: c.Agent, task: firstWords(c.Task)}
		case c.Op == run.OpTool:
			t.open[e.Run.Path.Child(e.Turn, i)] = subAgent{agent: c.Tool, tool: true}
		case !e.Run.Path.IsRoot(): // the line of its turn says so
		case c.Op == run.OpWait:
			t.printf("[mail] %s %s", e.Run.Path, waitText(c))
		case c.Op == run.OpKill:
			t.printf("[sub-agent] %s kills %s", e.Run.Path, c.To)
		}
	}
}

func (t *transcript) becameIdle(e client.Event) {
	if e.Outcome.Status == run.StatusCompleted {
		t.below(e, "%q is idle: %s...", e.Run.Agent, opening(e.Outcome.Result))
	} else {
		t.below(e, "%q is idle, it failed: %s", e.Run.Agent, e.Outcome.Error)
	}
}

func (t *transcript) received(stop string, calls int) {
	t.printf("[turn %d] Received response: %s (%d tool calls)", t.turn, stop, calls)
}

// ended prints the end of a sub-agent. Its caller may have given up on it
// before: then the end was printed.
func (t *transcript) ended(e client.Event, o run.Outcome) {
	c, ok := t.open[e.Run.Path]
	if !ok {
		return
	}
	switch {
	case o.Status == run.StatusCompleted:
		t.below(e, "%q completed in %dms (%d chars returned)", c.agent, o.DurationMS, len([]rune(o.Result)))
	case o.Reason == run.ReasonParentAnswered:
		t.below(e, "%q %s", c.agent, endedWithParent)
	default:
		t.below(e, "%q failed: %s", c.agent, o.Error)
	}
	delete(t.open, e.Run.Path)
}

// timedOut prints the end of the sub-agents that their caller gave up.
func (t *transcript) timedOut(e client.Event) {
	if e.Turn < 1 || e.Turn > len(e.State.Turns) {
		return
	}
	turn := e.State.Turns[e.Turn-1]
	for i, c := range turn.Entry.Calls {
		if o := turn.Outcomes[i]; c.HasReply() && o != nil {
			below := e.Run
			below.Path = e.Run.Path.Child(e.Turn, i)
			t.ended(client.Event{Run: below}, *o)
		}
	}
}

func (t *transcript) treeEnded(o run.Outcome) {
	if o.Status == run.StatusCompleted {
		t.received(o.StopReason, 0)
	}
	t.printf("Duration: %dms", o.DurationMS)
	t.printf("Tokens:   %d input, %d output (cumulative)", o.Usage.InputTokens, o.Usage.OutputTokens)
	if o.Subtree.Runs > 1 {
		t.printf("Subtree:  %d runs, %d input, %d output, %d model calls",
			o.Subtree.Runs, o.Subtree.InputTokens, o.Subtree.OutputTokens, o.Subtree.ModelCalls)
	}
	if o.StopReason != "" {
		t.printf("Stop:     %s", o.StopReason)
	}
}

package cli

import (
	"context"
	"time"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/prompt"
	"github.com/axebus/axe/subjects"
)

// LetterLine is a dead letter as axe dead list -o json prints it. AddTask adds
// the fields that axe dead show has beside: Task, Context and Body.
type LetterLine struct {
	ID      uint64    `json:"id"`
	Time    time.Time `json:"time"`
	Agent   string    `json:"agent,omitzero"`
	Tree    string    `json:"tree,omitzero"`
	Path    string    `json:"path,omitzero"`
	Reason  string    `json:"reason"`
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Retried string    `json:"retried,omitzero"` // id of the new tree
	Task    string    `json:"task,omitzero"`
	Context string    `json:"context,omitzero"`
	Body    string    `json:"body,omitzero"`
}

// LetterLineOf describes a dead letter.
func LetterLineOf(ctx context.Context, c *client.Client, l client.DeadLetter) (LetterLine, error) {
	out := LetterLine{
		ID: l.ID, Time: l.Time, Agent: l.Run.Agent.String(), Tree: l.Run.Tree.String(), Path: l.Run.Path.String(),
		Reason: l.Reason, Subject: l.Subject, Seq: l.Seq,
	}
	tried, err := c.Retried(ctx, l)
	if tried {
		out.Retried = l.RetryTree().String()
	}
	return out, err
}

// AddTask adds the task of the letter's run and the body of the message.
func (a *LetterLine) AddTask(ctx context.Context, c *client.Client, l client.DeadLetter) error {
	in, _, _, err := c.OriginalCall(ctx, l)
	a.Task, a.Context, a.Body = in.Task, in.Context, string(l.Body)
	return err
}

// RetryTask makes a task for a new tree from the input of the letter's run. For
// a letter that names no agent, the body of the letter is the text, and agent
// names the agent.
func RetryTask(ctx context.Context, c *client.Client, l client.DeadLetter, agent string) (client.Task, error) {
	t := client.Task{Agent: l.Run.Agent, ID: l.RetryTree(), Text: string(l.Body)}
	if t.Agent.IsZero() {
		var err error
		if t.Agent, err = subjects.ParseAgent(agent); err != nil {
			return client.Task{}, Usage("the letter names no agent: name one with --agent: %v", err)
		}
		return t, nil
	}
	if agent != "" && agent != t.Agent.String() {
		return client.Task{}, Usage("the letter names agent %s: --agent is for letters that name no agent", t.Agent)
	}
	in, limits, ok, err := c.OriginalCall(ctx, l)
	t.Budget = limits
	switch {
	case err != nil:
	case !ok:
		err = Usage("the input of its run cannot be read")
	case in.AdHoc():
		err = Usage("its run was an ad hoc run: %s is its parent's agent", t.Agent)
	case !in.Policy.IsZero():
		err = Usage("its run was under the policies of the runs above it, and a new tree would not be")
	}
	t.Text = in.Task
	if !l.Run.Path.IsRoot() {
		t.Text = prompt.User(in.Task, in.Context)
	}
	return t, err
}

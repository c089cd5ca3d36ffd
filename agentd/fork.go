package agentd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/prompt"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// errNoConversation is wrapped by the error of a run that continues another
// run's conversation, when there is no such conversation.
var errNoConversation = errors.New("the conversation to go on from cannot be read")

// errUnread is wrapped by the error of a read that failed and may succeed
// later. The trigger is given back.
var errUnread = errors.New("not read")

// conversation is another run's conversation, up to a turn.
type conversation struct {
	run *loadedRun
	// messages include those that the run had inherited itself.
	messages []provider.Message
}

// loadInherited reads the conversation that the run continues, unless it was
// read before. If there is no such conversation, loadInherited finishes the
// turn with a failure. It returns true if the turn may go on: the conversation
// was read, or the run continues none.
func (x *execution) loadInherited(ctx context.Context) (res result, ok bool, err error) {
	if x.inherited != nil {
		return result{}, true, nil
	}
	c, err := x.continuedConversation(ctx)
	if errors.Is(err, errNoConversation) {
		res, err = x.finishTurn(ctx, run.Failure(run.KindError, "%v", err), nil)
		return res, false, err
	}
	if err != nil || c == nil {
		return result{}, err == nil, err
	}
	x.inherit(c.messages)
	return result{}, true, nil
}

// inherit keeps the conversation that the run continues, in place of one that
// it kept before, and counts its memory.
func (r *loadedRun) inherit(ms []provider.Message) {
	r.size += weightOf(ms) - weightOf(r.inherited)
	r.inherited = ms
}

// inheritedStart returns the start that a run takes over from the run that it
// continues. For a root it returns the budget of that run too, because no
// caller passes it on. It returns nil if the run continues none, if the other run
// has no start on its log, and if there is no such conversation: loadInherited
// reports that. The error wraps errUnread.
func (x *execution) inheritedStart(ctx context.Context) (*run.Start, subjects.Budget, error) {
	var none subjects.Budget
	c, err := x.continuedConversation(ctx)
	if errors.Is(err, errNoConversation) {
		return nil, none, nil // loadInherited reports it
	}
	if err != nil {
		return nil, none, fmt.Errorf("%w: %w", errUnread, err)
	}
	if c == nil {
		return nil, none, nil
	}
	x.inherit(c.messages)
	if c.run.state.Start() == nil {
		return nil, none, nil
	}
	s := *c.run.state.Start()
	s.Delegates = provider.ToolNames(s.Tools)
	s.Definitions = slices.DeleteFunc(slices.Clone(s.Tools), func(t provider.Tool) bool {
		_, served := s.ServedTool(t.Name)
		return !served
	})
	s.Memory = nil
	s.Turns = 0
	if x.state.Input.Copy == nil {
		return &s, none, nil
	}
	s.MaxDepth = max(0, s.MaxDepth-c.run.header.Depth) // the copy is a root
	return &s, subjects.Narrowest(s.Scopes), nil
}

// continuedConversation returns the conversation that a run continues, nil if
// it continues none. A fork without a prompt continues its parent's, at the
// turn that forked. A root that a person has forked continues that of a run in
// its own partition.
func (r *loadedRun) continuedConversation(ctx context.Context) (*conversation, error) {
	in := r.state.Input
	switch {
	case in.Forked != nil && in.Forked.Inherit:
		path, turn, _, _ := r.run.Path.Parent()
		c, err := r.w.conversationAt(ctx, r.run.Space.Run(r.header.Parent, r.run.Tree, path), turn)
		if err != nil {
			return nil, err
		}
		c.messages = tool.Inherited(c.run.state, c.run.run.Path, r.run.Path, c.messages)
		return c, nil
	case in.Copy != nil:
		source, err := r.run.Space.ParseRun(in.Copy.Agent, in.Copy.Tree, in.Copy.Path)
		// The copy knows the other run up to the sequence of its own
		// call. That works within one stream.
		if err == nil && source.Partition() != r.run.Partition() {
			err = fmt.Errorf("%s is of partition %d, its copy of %d",
				source, source.Partition(), r.run.Partition())
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoConversation, err)
		}
		return r.w.conversationBefore(ctx, source, in.Copy.Turn, r.callSeq)
	}
	return nil, nil
}

// conversationAt returns a run as it was after the entry of a turn. The
// messages are only those that the run had inherited. The error wraps
// errNoConversation if the run has no such entry.
func (w *Worker) conversationAt(ctx context.Context, r subjects.Run, turn int) (*conversation, error) {
	ms, err := w.runs.Latest(ctx, r, "")
	if err != nil {
		return nil, err
	}
	of := &loadedRun{w: w, run: r}
	_, err = of.foldPast(ctx, ms, func(bus.Stored) bool { return len(of.state.Turns) == turn })
	if err != nil {
		return nil, err
	}
	if len(of.state.Turns) != turn {
		return nil, fmt.Errorf("%w: %s has no turn %d", errNoConversation, r, turn)
	}
	return of.withInherited(ctx)
}

// conversationBefore returns the conversation of a run after a turn, with the
// results of the turn's calls. With turn 0 it is the whole conversation.
// Messages after the sequence seq are left out, so the conversation is the same
// for every worker at any time. The error wraps errNoConversation if there is
// no such turn, or no such run that was called before seq. So no run continues
// itself.
func (w *Worker) conversationBefore(
	ctx context.Context, r subjects.Run, turn int, seq uint64,
) (*conversation, error) {
	of := &loadedRun{w: w, run: r}
	call, ok, err := w.conn.First(ctx, r.Call())
	if err != nil {
		return nil, err
	}
	if !ok || call.Seq >= seq {
		return nil, fmt.Errorf("%w: there was no run %s before", errNoConversation, r)
	}
	of.parseCall(call, false)
	reply, ok := of.replySubject()
	if !ok {
		reply = "" // the call is malformed, and the run has taken no turn
	}
	ms, err := w.runs.Latest(ctx, r, reply)
	if err != nil {
		return nil, err
	}
	next, err := of.foldPast(ctx, ms, func(m bus.Stored) bool {
		nextTurn := turn > 0 && m.Subject == r.Log() && len(of.state.Turns) == turn
		return m.Seq > seq || m.Subject == reply || nextTurn
	})
	if err != nil {
		return nil, err
	}
	answer := ""
	if next != nil && next.Seq <= seq && next.Subject == reply {
		o, err := w.runs.Outcome(ctx, *next)
		if err != nil {
			return nil, err
		}
		answer = o.Outcome.Result
	}
	return of.continuedWith(ctx, turn, answer)
}

// continuedWith returns the conversation of a run after a turn, with the result
// of its outcome, "" if that is not part of it.
func (r *loadedRun) continuedWith(ctx context.Context, turn int, answer string) (*conversation, error) {
	if r.state.Turns.LastFinal() {
		answer = "" // it is in the turns already
	}
	turns := len(r.state.Turns)
	if turn < 0 || turn > turns+1 || turn == turns+1 && answer == "" {
		return nil, fmt.Errorf("%w: %s has no turn %d", errNoConversation, r.run, turn)
	}
	c, err := r.withInherited(ctx)
	if err != nil {
		return nil, err
	}
	c.messages = tool.Continued(c.messages, tool.Conversation(r.run.Path, r.userText(), r.state.Turns))
	if answer != "" && (turn == 0 || turn > turns) {
		c.messages = append(c.messages, provider.Message{Role: provider.Assistant, Content: answer})
	}
	return c, nil
}

// foldPast is foldUntil for another run. The error wraps errNoConversation if
// the history is corrupt. Any other error is that of a read from the bus, which
// may succeed later.
func (r *loadedRun) foldPast(ctx context.Context, ms []bus.Stored, stop func(bus.Stored) bool) (*bus.Stored, error) {
	next, err := r.foldUntil(ctx, ms, stop)
	if errors.Is(err, run.ErrCorrupt) {
		err = fmt.Errorf("%w: %w", errNoConversation, err)
	}
	return next, err
}

// withInherited returns the conversation of a run with the messages that it has
// inherited itself, and no others.
func (r *loadedRun) withInherited(ctx context.Context) (*conversation, error) {
	c := &conversation{run: r}
	before, err := r.continuedConversation(ctx)
	if before != nil {
		c.messages = before.messages
	}
	return c, err
}

// userText returns the first user text of a run.
func (r *loadedRun) userText() string {
	if start := r.state.Start(); start != nil {
		return start.User
	}
	return prompt.RootUser(r.state.Input.Task)
}

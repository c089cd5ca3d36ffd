package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/roles"
	"github.com/axebus/axe/subjects"
)

const (
	// submitTimeout bounds the wait for the bus to store a task.
	submitTimeout = 30 * time.Second
	// cancelTimeout bounds the cancellation of a tree.
	cancelTimeout = 10 * time.Second
	// cancelReason is the reason of a tree that the client cancelled.
	cancelReason = "cancelled by the MCP client"
)

var (
	// errStopping ends the calls in flight when the server stops.
	errStopping = errors.New("the server stops")
	// errLeft ends the calls of a session that the client has ended.
	errLeft = errors.New("the client has ended its session")
	// errNotStored ends a submission that takes too long.
	errNotStored = errors.New("the bus did not acknowledge the task within " + submitTimeout.String())
)

// call is one call of a tool.
type call struct {
	*mcp.CallToolRequest
	agent subjects.Agent
	in    input
}

// answer carries a call out: it submits the task and waits for the outcome. The
// context of the request ends when the client cancels the call, and when the
// connection is lost.
func (s *Server) answer(ctx context.Context, c call) (*mcp.CallToolResult, output, error) {
	task, err := newTask(c)
	if err != nil {
		return nil, output{}, err
	}
	keyed := !task.ID.IsZero()
	work, end := context.WithCancelCause(ctx)
	defer end(nil)
	a := &attachment{tree: task.ID, session: c.Session.ID(), end: end}
	detach := s.calls.attach(a)
	defer detach()

	tree, mayBeStored, err := s.submit(work, task)
	if err == nil {
		s.calls.setTree(a, tree)
		var outcome run.Outcome
		if outcome, err = s.await(work, c, tree); err == nil {
			return s.result(ctx, tree, outcome)
		}
	}
	err = fmt.Errorf("%w%s", err, roles.OfViolation(err))
	switch cause := context.Cause(work); {
	case !mayBeStored:
		return nil, output{}, err
	case errors.Is(cause, errStopping):
		return running(tree)
	case errors.Is(cause, errLeft):
		// The tree goes on.
	case ctx.Err() != nil:
		detach()
		s.abandoned(ctx, tree, keyed)
	}
	return nil, output{}, fmt.Errorf("tree %s: %w", tree, err)
}

// submit submits a task. MayBeStored is false if the bus has surely not stored
// it.
func (s *Server) submit(ctx context.Context, task client.Task) (tree subjects.Tree, mayBeStored bool, err error) {
	bounded, stop := context.WithTimeoutCause(ctx, submitTimeout, errNotStored)
	defer stop()
	tree, err = s.client.Submit(bounded, task)
	if err == nil || tree.IsZero() {
		return tree, err == nil, err
	}
	if errors.Is(context.Cause(bounded), errNotStored) {
		err = fmt.Errorf("%w; the task may be stored: call the tool again with the id %s", errNotStored, tree)
	}
	return tree, bounded.Err() != nil, err
}

// await waits for the outcome of a tree. It reports the progress of the tree to
// a client that sent a progress token.
func (s *Server) await(ctx context.Context, c call, tree subjects.Tree) (o run.Outcome, err error) {
	token := c.Params.GetProgressToken()
	if token == nil {
		return s.client.Wait(ctx, tree)
	}
	p := newProgress(tree)
	stop := p.report(ctx, func(ctx context.Context, r report) {
		err := c.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Message: r.message, Progress: r.value, Total: r.total,
		})
		if err != nil {
			s.cfg.Log.DebugContext(ctx, "a report of progress was not sent", slog.String(keyTree, tree.String()),
				slog.Any(keyError, err))
		}
	})
	defer stop()
	err = s.client.Follow(ctx, tree, func(e client.Event) {
		p.see(e)
		if e.Kind == client.TreeEnded {
			o = e.Outcome
		}
	})
	return o, err
}

// abandoned cancels the tree of a call that lost its client, or lets it go on.
// The cause of ctx says how the client was lost.
func (s *Server) abandoned(ctx context.Context, tree subjects.Tree, keyed bool) {
	log := s.cfg.Log.With(slog.String(keyTree, tree.String()))
	cause := context.Cause(ctx)
	switch {
	case !errors.Is(cause, context.Canceled):
		log.InfoContext(ctx, "a client is gone, its tree goes on", slog.Any(keyError, cause))
	case s.cfg.DetachOnCancel:
		log.InfoContext(ctx, "a client has cancelled a call, its tree goes on")
	case keyed && endsWithConnection(ctx):
		// The client may have lost its connection, and come back.
		log.InfoContext(ctx, "a client is gone, its tree may be cancelled soon")
		s.calls.leave(tree, s.cfg.ReturnTime, func() { s.cancel(ctx, tree) })
	default:
		s.cancel(ctx, tree)
	}
}

// cancel cancels a tree, though ctx has ended.
func (s *Server) cancel(ctx context.Context, tree subjects.Tree) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer stop()
	log := s.cfg.Log.With(slog.String(keyTree, tree.String()))
	err := s.client.Cancel(ctx, tree, subjects.Root, cancelReason)
	ended := errors.Is(err, client.ErrEnded) || errors.Is(err, client.ErrCancelled)
	if err != nil && !ended && !errors.Is(err, client.ErrUnknownTree) {
		log.ErrorContext(ctx, "a tree was not cancelled, it goes on", slog.Any(keyError, err))
		return
	}
	log.InfoContext(ctx, "a client has cancelled a call, its tree is cancelled")
}

package toolset

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

const (
	// reachTime bounds the wait for the server of another domain.
	reachTime = 5 * time.Second
	// firstWait is the time for which a call waits for its tree. A tree
	// that takes longer is a task, for which no worker waits.
	firstWait = 2 * time.Second
	// pollWait is the time for which a poll waits for the end of a tree.
	pollWait = time.Second
)

// Remote returns the toolset of a file of the kind remote. Each tool is an
// agent on the bus of another domain, to which the set connects at the first
// call. A call submits its task there. The id of the tree follows from the
// call, so every attempt finds the same tree. Of the tree only the task and the
// answer cross, with its deadline, its bounds and its cancellation.
func Remote(def configs.Toolset, log *slog.Logger) (Canceller, error) {
	space, err := subjects.NewSpace(def.SubjectPrefix)
	if err != nil {
		return nil, err
	}
	dial := bus.Dial{URL: def.Server, Context: def.Context, Creds: def.Creds, Name: "axe toolset " + def.Name}
	log = log.With(slog.String("toolset", def.Name))
	s := &remoteSet{def: def, cfg: bus.Config{Dial: dial, Space: space, Log: log}}
	for _, t := range defined(def) {
		t.Schema, t.Effect = taskSchema(), run.ToolIdempotent
		s.tools = append(s.tools, t)
	}
	return s, nil
}

// taskSchema is the schema of the arguments of a remote agent.
func taskSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"task":{"type":"string",` +
		`"description":"The task, with everything that the agent needs to know"}},"required":["task"]}`)
}

type remoteSet struct {
	static

	def configs.Toolset
	cfg bus.Config

	mu sync.Mutex
	// opening is nil before the first call, and after an opening that
	// failed.
	opening *opening
}

// opening is a connection to the other domain that is being made, or was made.
// All calls share it. Conn or err is set before done is closed.
type opening struct {
	done   chan struct{}
	cancel context.CancelFunc
	conn   *bus.Conn
	err    error
}

// Close closes the connection.
func (s *remoteSet) Close() {
	s.mu.Lock()
	o := s.opening
	s.mu.Unlock()
	if o == nil {
		return
	}
	o.cancel()
	<-o.done
	if o.conn != nil {
		o.conn.Close()
	}
}

// reach connects to the other domain, unless it is connected. It waits no
// longer than ctx allows.
func (s *remoteSet) reach(ctx context.Context) (*client.Client, error) {
	o := s.begin(ctx)
	var err error
	select {
	case <-o.done:
		err = o.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("the other domain is not reached: %w", err)
	}
	return client.New(o.conn), nil
}

// begin returns the opening of the connection. After one that failed it is a
// new one.
func (s *remoteSet) begin(ctx context.Context) *opening {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opening != nil {
		return s.opening
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), reachTime)
	o := &opening{done: make(chan struct{}), cancel: cancel}
	s.opening = o
	go func() {
		defer close(o.done)
		defer cancel()
		if o.conn, o.err = bus.Open(limited, s.cfg); o.err != nil {
			s.mu.Lock()
			s.opening = nil
			s.mu.Unlock()
		}
	}()
	return o
}

// Call submits the task of a call, or asks for the tree that an earlier attempt
// has submitted.
func (s *remoteSet) Call(ctx context.Context, c Call) (Result, error) {
	remote, err := s.reach(ctx)
	if c.Task != nil {
		if err != nil {
			return Result{}, &TaskError{c.Task.ServerTask, err}
		}
		tree, err := subjects.ParseTree(c.Task.ID)
		if err != nil {
			return Result{}, fmt.Errorf("%w: %w", ErrForgotten, err)
		}
		return awaitTree(ctx, remote, tree, pollWait)
	}
	if err != nil {
		return Result{}, err
	}
	task, err := s.task(ctx, c)
	if err != nil {
		return Result{}, err
	}
	switch _, err := remote.Submit(ctx, task); {
	case err != nil && ctx.Err() != nil:
		// The other domain may have stored the task all the same.
		return Result{}, &TaskError{run.ServerTask{ID: task.ID.String()}, err}
	case err != nil:
		return Result{}, err
	}
	return awaitTree(ctx, remote, task.ID, firstWait)
}

// task returns the task of a call. The time of the call tells it from a call
// with the same key on another bus.
func (s *remoteSet) task(ctx context.Context, c Call) (t client.Task, err error) {
	tool, ok := s.def.Tools[c.Tool]
	if !ok {
		return t, noTool(c.Tool)
	}
	args, err := c.arguments()
	if err != nil {
		return t, err
	}
	if t.Text, err = scalar("task", args); err != nil {
		return t, err
	}
	if t.Agent, err = subjects.ParseAgent(cmp.Or(tool.Agent, c.Tool)); err != nil {
		return t, err
	}
	t.ID = client.TreeID("remote " + c.Key + " " + strconv.FormatInt(c.CalledAt.UnixNano(), 10))
	t.Budget = s.def.Limits
	if end, ok := ctx.Deadline(); ok {
		t.Timeout = max(time.Until(end), time.Millisecond)
	}
	return t, nil
}

// awaitTree waits for the end of a tree, and returns its answer. A tree that
// goes on is a task, also if ctx ends.
func awaitTree(ctx context.Context, remote *client.Client, tree subjects.Tree, atMost time.Duration) (Result, error) {
	waiting, stop := context.WithTimeout(ctx, atMost)
	defer stop()
	o, err := remote.Wait(waiting, tree)
	gone := errors.Is(err, client.ErrUnknownTree) || errors.Is(err, client.ErrRemoved) ||
		errors.Is(err, client.ErrNeverTaken) || errors.Is(err, client.ErrOverdue)
	switch {
	case err == nil && o.Status == run.StatusCompleted:
		return Result{Text: text(o.Result)}, nil
	case err == nil:
		return Result{}, fmt.Errorf("the agent failed (%s): %s", cmp.Or(o.Kind, run.KindError), text(o.Error))
	case gone:
		return Result{}, fmt.Errorf("%w: %w", ErrForgotten, err)
	case waiting.Err() != nil:
		err = nil
	}
	return Result{}, &TaskError{run.ServerTask{ID: tree.String()}, err}
}

// CancelTask cancels a tree. One that has ended needs no cancellation.
func (s *remoteSet) CancelTask(ctx context.Context, id string) error {
	tree, err := subjects.ParseTree(id)
	if err != nil {
		return err
	}
	remote, err := s.reach(ctx)
	if err != nil {
		return err
	}
	err = remote.Cancel(ctx, tree, subjects.Root, "the run that asked for it has ended")
	if errors.Is(err, client.ErrEnded) || errors.Is(err, client.ErrCancelled) {
		return nil
	}
	return err
}

package mcpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/toolset"
)

// tasksExtension is the extension of the protocol 2026-07-28 by which a server
// may go on with a call as a task. Only a client that names it gets tasks.
const tasksExtension = "io.modelcontextprotocol/tasks"

// The methods of tasks. The result of a task is in the answer to methodGet. The
// protocol 2025-11-25 has methodResult for it, and no methodUpdate.
const (
	methodGet    = "tasks/get"
	methodUpdate = "tasks/update"
	methodCancel = "tasks/cancel"
	methodResult = "tasks/result"
)

// maxTaskID bounds the id of a task, which a log entry has, in bytes.
const maxTaskID = 1024

// maxTaskTime bounds the times that a server names for a task.
const maxTaskTime = 10 * 365 * 24 * time.Hour

// task is a task as a server describes it.
type task struct {
	ID      string `json:"taskId"`
	Status  string `json:"status"`
	Message string `json:"statusMessage"`
	// TTLMS and PollMS are milliseconds, absent for none.
	TTLMS  float64 `json:"ttlMs"`
	PollMS float64 `json:"pollIntervalMs"`
	// TTL and Poll are their names in the protocol 2025-11-25.
	TTL  float64 `json:"ttl"`
	Poll float64 `json:"pollInterval"`
	// Result, Error and Requests are those of the statuses completed,
	// failed and input_required.
	Result   json.RawMessage         `json:"result"`
	Error    *jsonrpc.Error          `json:"error"`
	Requests map[string]inputRequest `json:"inputRequests"`
}

// goesOn returns the error of a call that goes on as the task.
func (t *task) goesOn() error {
	if t.ID == "" || len(t.ID) > maxTaskID {
		return fmt.Errorf("the tool goes on as a task with an id of %d bytes, where 1 to %d are known: "+
			"it may take effect, and its result is not known", len(t.ID), maxTaskID)
	}
	return &toolset.TaskError{Task: run.ServerTask{
		ID: t.ID, Poll: milliseconds(cmp.Or(t.PollMS, t.Poll)), TTL: milliseconds(cmp.Or(t.TTLMS, t.TTL)),
	}}
}

// milliseconds returns a time that a server names, 0 for none.
func milliseconds(n float64) time.Duration {
	most := float64(maxTaskTime / time.Millisecond)
	return time.Duration(max(0, min(n, most))) * time.Millisecond
}

// follow asks the server for the task of a call. It gives the server the
// answers of a person first, if the call has some. A server that could not be
// asked may be asked again later: the error is a toolset.TaskError then.
func (s *Set) follow(ctx context.Context, call toolset.Call) (res toolset.Result, err error) {
	var answers mcp.InputResponseMap
	if call.Filled != nil {
		if answers, err = responses(call.Filled); err != nil {
			return res, err
		}
	}
	var ended error
	err = s.use(ctx, func(c *session) error {
		refusal, err := c.update(ctx, call.Task.ID, answers)
		if err != nil {
			return err
		}
		if res, ended, err = c.poll(ctx, call); err == nil && refusal != nil {
			_ = c.cancelTask(ctx, call.Task.ID)
			ended = fmt.Errorf("the server refused the answers to its task: %w", refusal)
		}
		return err
	})
	switch {
	case err == nil:
		return res, ended
	case refused(err, jsonrpc.CodeInvalidParams, jsonrpc.CodeMethodNotFound):
		return res, fmt.Errorf("%w: %w", toolset.ErrForgotten, err)
	}
	return res, &toolset.TaskError{Task: call.Task.ServerTask, Why: err}
}

// refused reports whether a server has answered with an error of one of some
// codes.
func refused(err error, codes ...int64) bool {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && slices.Contains(codes, e.Code)
}

// poll asks for a task once. Ended is the error of the task, err that of the
// request.
func (c *session) poll(ctx context.Context, call toolset.Call) (res toolset.Result, ended, err error) {
	raw, err := c.ask(ctx, methodGet, &taskParams{ID: call.Task.ID})
	if err != nil {
		return res, nil, err
	}
	var t task
	if err := json.Unmarshal(raw, &t); err != nil {
		return res, nil, fmt.Errorf("the task is malformed: %w", err)
	}
	t.ID = call.Task.ID
	switch t.Status {
	case "working":
		return res, t.goesOn(), nil
	case "input_required":
		return res, c.input(ctx, &t, call.Task.Answered), nil
	case "cancelled":
		return res, fmt.Errorf("the server has cancelled the task: %s", cmp.Or(t.Message, "it gives no reason")), nil
	case "completed", "failed":
		return c.result(ctx, call, &t)
	}
	_ = c.cancelTask(ctx, t.ID)
	return res, fmt.Errorf("the task has the status %q, which axe does not know: it may have taken effect",
		t.Status), nil
}

// result returns the result of a task that has ended.
func (c *session) result(ctx context.Context, call toolset.Call, t *task) (res toolset.Result, ended, err error) {
	if c.isLegacy() {
		t.Result, err = c.ask(ctx, methodResult, &taskParams{ID: t.ID})
		refusal, ok := errors.AsType[*jsonrpc.Error](err)
		switch {
		case ok:
			t.Status, t.Error = "failed", refusal
		case err != nil:
			return res, nil, err
		default:
			t.Status = "completed"
		}
	}
	if t.Status == "failed" {
		why := t.Message
		if t.Error != nil {
			why = t.Error.Message
		}
		return res, fmt.Errorf("the task failed: %s", cmp.Or(why, "it gives no reason")), nil
	}
	if len(t.Result) == 0 {
		return res, errors.New("the task gave no result, which the protocol does not allow: " +
			"it may have taken effect"), nil
	}
	res, ended = resultOf(call.Tool, t.Result)
	_, asks := errors.AsType[*toolset.InputError](ended)
	_, goesOn := errors.AsType[*toolset.TaskError](ended)
	if asks || goesOn {
		ended = errors.New("the task ended with a result that is no end: it may have taken effect")
	}
	return res, ended, nil
}

// input returns the error of a task that asks for input. Questions that a
// person has answered are left out: the server may not have read the answers
// yet. A task that asks for something else is cancelled.
func (c *session) input(ctx context.Context, t *task, answered []string) error {
	if c.isLegacy() {
		_ = c.cancelTask(ctx, t.ID)
		return errors.New("the task asks for input within a request, which axe cannot give it")
	}
	requests := maps.Clone(t.Requests)
	for _, key := range answered {
		delete(requests, key)
	}
	if len(requests) == 0 {
		return t.goesOn()
	}
	err := inputError(requests, "")
	if _, ok := errors.AsType[*toolset.InputError](err); !ok {
		_ = c.cancelTask(ctx, t.ID)
	}
	return err
}

// cancelTask asks the server to end a task.
func (c *session) cancelTask(ctx context.Context, id string) error {
	_, err := c.ask(ctx, methodCancel, &taskParams{ID: id})
	return err
}

// update gives the server the answers of a person, if there are some. The
// server ignores answers that it has already. Refusal is its error, err that of
// the request.
func (c *session) update(ctx context.Context, id string, answers mcp.InputResponseMap) (refusal, err error) {
	if answers == nil {
		return nil, nil
	}
	_, err = c.ask(ctx, methodUpdate, &taskParams{ID: id, Responses: answers})
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e, nil
	}
	return nil, err
}

// CancelTask asks the server to end a task. The server may not do so.
func (s *Set) CancelTask(ctx context.Context, id string) error {
	return s.use(ctx, func(c *session) error { return c.cancelTask(ctx, id) })
}

// taskParams are the parameters of a request about a task.
type taskParams struct {
	mcp.ParamsBase

	ID        string               `json:"taskId"`
	Responses mcp.InputResponseMap `json:"inputResponses,omitempty"`
}

// taskResult takes the place of a result that request returns as JSON.
type taskResult struct{ mcp.ResultBase }

// addTaskMethods lets a client make the requests about tasks. The SDK does not
// know them.
func addTaskMethods(client *mcp.Client) error {
	var failed []error
	for _, method := range []string{methodGet, methodUpdate, methodCancel, methodResult} {
		failed = append(failed, mcp.AddSendingCustomMethod[*taskParams, *taskResult](client, method))
	}
	return errors.Join(failed...)
}

// ask makes a request about a task, and returns the JSON of its result. By HTTP
// the id is a header too, so that a proxy finds the server that has the task.
func (c *session) ask(ctx context.Context, method string, params *taskParams) (json.RawMessage, error) {
	return requestNamed(ctx, params.ID, func(ctx context.Context) error {
		_, err := mcp.CallCustomMethod[*taskParams, *taskResult](ctx, c.client, method, params)
		return err
	})
}

type taskCallKey struct{}

// mayMakeTask marks the context of a call that has to make a task in the
// protocol 2025-11-25, in which the client decides. Any other call makes none:
// such a server may forget a task with the connection.
func (c *session) mayMakeTask(ctx context.Context, tool string) context.Context {
	if !c.isLegacy() {
		return ctx
	}
	select {
	case c.listing <- struct{}{}:
	case <-ctx.Done():
		return ctx
	}
	defer func() { <-c.listing }()
	if c.tasks[tool] {
		return context.WithValue(ctx, taskCallKey{}, true)
	}
	return ctx
}

// taskCall are the parameters of a call that makes a task in the protocol
// 2025-11-25.
type taskCall struct {
	*mcp.CallToolParams

	Task struct{} `json:"task"`
}

// withTask lets a marked call make a task.
func withTask(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		client, ok := req.GetSession().(*mcp.ClientSession)
		params, isCall := req.GetParams().(*mcp.CallToolParams)
		if ok && isCall && ctx.Value(taskCallKey{}) != nil {
			req = &mcp.ClientRequest[*taskCall]{Session: client, Params: &taskCall{CallToolParams: params}}
		}
		return next(ctx, method, req)
	}
}

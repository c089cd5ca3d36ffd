package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/toolset"
	"github.com/axebus/axe/subjects"
)

// maxWait is the longest time for which a request waits for an outcome.
const maxWait = 10 * time.Minute

// headerKey is the header with the key of an idempotent submission.
const headerKey = "Idempotency-Key"

// taskBody is the JSON body of a submission.
type taskBody struct {
	Task    string          `json:"task"`
	Timeout seconds         `json:"timeout"`
	Limits  subjects.Budget `json:"limits"`
}

// seconds is a number of seconds, or a text such as 10m.
type seconds time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (s *seconds) UnmarshalJSON(b []byte) error {
	d, err := duration(strings.Trim(string(b), `"`))
	if err != nil {
		return fmt.Errorf("timeout %w", err)
	}
	*s = seconds(d)
	return nil
}

// taskAnswer is the answer to a submission.
type taskAnswer struct {
	Tree string `json:"tree"`
	// Outcome is the outcome of the tree, nil if it goes on.
	Outcome *run.Outcome `json:"outcome,omitempty"`
}

// accepted answers that a task is stored.
func accepted(w http.ResponseWriter, tree subjects.Tree) error {
	w.Header().Set("Location", "/v1/trees/"+tree.String())
	return reply(w, http.StatusAccepted, taskAnswer{Tree: tree.String()})
}

// submit submits a task. With wait it answers with the outcome, if the tree
// ends in that time.
func (s *Server) submit(w http.ResponseWriter, r *http.Request) error {
	wait, err := duration(r.URL.Query().Get("wait"))
	if err != nil {
		return invalid("wait %w", err)
	}
	if wait > maxWait {
		return invalid("wait must be %s at most", maxWait)
	}
	task, err := readTask(r)
	if err != nil {
		return err
	}
	lasts(w)
	extend(w, requestTimeout+wait+writeTimeout)
	tree, err := cli.Submit(r.Context(), s.Client, task)
	if err != nil {
		return err
	}
	if wait == 0 {
		return accepted(w, tree)
	}
	o, err := s.await(r.Context(), tree, wait)
	if errors.Is(err, errWaited) {
		return accepted(w, tree)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/trees/"+tree.String())
	return reply(w, http.StatusOK, taskAnswer{tree.String(), &o})
}

// errWaited ends a wait for an outcome. The tree goes on.
var errWaited = errors.New("the tree has not ended in time")

// await waits for the outcome of a tree. The error is errWaited if the tree has
// not ended in time, or if the server is about to end.
func (s *Server) await(ctx context.Context, tree subjects.Tree, wait time.Duration) (run.Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(wait, func() { cancel(errWaited) }).Stop()
	go func() { // cancel ends it
		select {
		case <-s.drain:
			cancel(errWaited)
		case <-ctx.Done():
		}
	}()
	o, err := s.Wait(ctx, tree)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return o, err
}

// readTask reads the task of a request: JSON, or text of any other type.
func readTask(r *http.Request) (t client.Task, err error) {
	if t.Agent, err = subjects.ParseAgent(r.PathValue("agent")); err != nil {
		return t, err
	}
	if keys := r.Header.Values(headerKey); len(keys) > 0 {
		key := strings.Trim(strings.TrimSpace(keys[0]), `"`)
		if key == "" || len(keys) > 1 {
			return t, invalid("%s must be one text that is not empty", headerKey)
		}
		t.ID = client.TreeID(key)
	}
	as := r.URL.Query().Get("as")
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case as != "" && as != "text":
		return t, invalid("as must be text, got %q", as)
	case as == "" && kind == "application/json":
		var body taskBody
		if err := decode(r, &body); err != nil {
			return t, err
		}
		t.Text, t.Timeout, t.Budget = body.Task, time.Duration(body.Timeout), body.Limits
		return t, checkBudget(t.Budget)
	}
	text, err := io.ReadAll(r.Body)
	if err == nil && !utf8.Valid(text) {
		err = invalid("the task must be UTF-8")
	}
	t.Text = string(text)
	return t, err
}

// checkBudget refuses a bound that no budget has.
func checkBudget(b subjects.Budget) error {
	for _, n := range []int{b.Agents, b.Turns, b.Tokens, b.ToolCalls} {
		if n < 0 || n > subjects.MaxLimit {
			return invalid("a limit must be 0 to %d, got %d", subjects.MaxLimit, n)
		}
	}
	return nil
}

// checkAnswers refuses answers that do not fit the questions of a form.
func checkAnswers(form *run.Form, answers map[string]json.RawMessage) error {
	for _, q := range form.Questions {
		if err := toolset.CheckAnswer(q, answers[q.Key]); err != nil {
			return invalid("the answer to %q: %w", q.Key, err)
		}
	}
	return nil
}

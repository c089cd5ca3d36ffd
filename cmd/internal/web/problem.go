package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/roles"
	"github.com/axebus/axe/subjects"
)

// Keys of log attributes.
const (
	keyError  = "error"
	keyMethod = "method"
	keyPath   = "path"
	keyStatus = "status"
)

// problem is the body of an answer to a request that failed: RFC 9457.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Code is a word for programs.
	Code string `json:"code"`
}

// failure is an error with the status of its answer.
type failure struct {
	status int
	code   string
	err    error
}

// Error returns the text of the error.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the error.
func (f *failure) Unwrap() error { return f.err }

// invalid is the error of a request that is malformed.
func invalid(format string, args ...any) error {
	return &failure{http.StatusBadRequest, "invalid", fmt.Errorf(format, args...)}
}

// failures has the status and the code of errors, the more special first.
var failures = []failure{
	{http.StatusNotFound, "unknown_tree", client.ErrUnknownTree},
	{http.StatusNotFound, "unknown_run", client.ErrUnknownRun},
	{http.StatusNotFound, "unknown_dead_letter", client.ErrUnknownDeadLetter},
	{http.StatusNotFound, "unknown_artifact", client.ErrUnknownArtifact},
	{http.StatusConflict, "not_started", client.ErrNotStarted},
	{http.StatusConflict, "ended", client.ErrEnded},
	{http.StatusConflict, "cancelled", client.ErrCancelled},
	{http.StatusConflict, "not_held", client.ErrNotHeld},
	{http.StatusForbidden, "not_approver", client.ErrNotApprover},
	{http.StatusConflict, "nothing_to_settle", client.ErrNothingToSettle},
	{http.StatusConflict, "settled_otherwise", client.ErrSettledOtherwise},
	{http.StatusConflict, "many_to_settle", client.ErrManyToSettle},
	{http.StatusConflict, "no_mail", client.ErrNoMail},
	{http.StatusUnprocessableEntity, "key_reused", client.ErrIDReused},
	{http.StatusUnprocessableEntity, "key_taken", client.ErrIDTaken},
	{http.StatusBadRequest, "invalid", client.ErrNoArguments},
	{http.StatusBadRequest, "invalid", client.ErrInvalidMessage},
	{http.StatusBadRequest, "invalid", subjects.ErrToken},
	{http.StatusRequestEntityTooLarge, "too_large", bus.ErrTooLarge},
	{http.StatusInsufficientStorage, "no_room", bus.ErrNoRoom},
	{http.StatusGone, "removed", client.ErrRemoved},
	{http.StatusGone, "removed", client.ErrNeverTaken},
	{http.StatusServiceUnavailable, "no_progress", client.ErrNoProgress},
	{http.StatusServiceUnavailable, "no_bus", bus.ErrNoStream},
	{http.StatusServiceUnavailable, "no_bus", bus.ErrNoReader},
	{http.StatusGatewayTimeout, "timeout", context.DeadlineExceeded},
}

// asFailure returns the status of an error. An error without one is a failure
// of the server.
func asFailure(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return &failure{f.status, f.code, err}
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &failure{http.StatusRequestEntityTooLarge, "too_large", err}
	}
	for _, f := range failures {
		if errors.Is(err, f.err) {
			return &failure{f.status, f.code, err}
		}
	}
	switch {
	case bus.Forbidden(err):
		return &failure{http.StatusForbidden, "not_permitted", fmt.Errorf("%w%s", err, roles.OfViolation(err))}
	case cli.Code(err) == cli.CodeConfig:
		return &failure{http.StatusBadRequest, "invalid", err}
	}
	return &failure{http.StatusInternalServerError, "failed", err}
}

// refuse answers a request that failed.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	f := asFailure(err)
	if f.status >= http.StatusInternalServerError && r.Context().Err() == nil {
		s.log.WarnContext(r.Context(), "a request failed", slog.String(keyMethod, r.Method),
			slog.String(keyPath, r.URL.Path), slog.Int(keyStatus, f.status), slog.Any(keyError, err))
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(f.status)
	_ = json.NewEncoder(w).Encode(problem{http.StatusText(f.status), f.status, f.Error(), f.code})
}

// refuseAccess answers a request that the guard refuses.
func (s *Server) refuseAccess(w http.ResponseWriter, r *http.Request, status int, err error) {
	code := "forbidden"
	if status == http.StatusUnauthorized {
		code = "unauthorized"
	}
	s.refuse(w, r, &failure{status, code, err})
}

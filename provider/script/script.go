package script

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/axebus/axe/provider"
)

// Script is a provider.Provider that answers from a file.
type Script struct {
	name    string
	entries []entry
}

var _ provider.Provider = (*Script)(nil)

// Send answers with the first matching entry, after its latency.
func (s *Script) Send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	if ctx.Err() != nil {
		return nil, provider.ContextError(ctx)
	}
	v := newTemplateData(req)
	e, err := s.choose(v)
	if err != nil {
		return nil, s.requestError(err)
	}
	resp, err := e.answer(v)
	if !wait(ctx, e.latency) {
		return nil, provider.ContextError(ctx)
	}
	if err != nil {
		return nil, s.requestError(err)
	}
	resp.Model = req.Model
	resp.Usage = provider.Usage{InputTokens: tokens(requestSize(req)), OutputTokens: tokens(responseSize(resp))}
	return resp, nil
}

// choose returns the first matching entry.
func (s *Script) choose(v templateData) (*entry, error) {
	for i := range s.entries {
		if ok, err := s.entries[i].matches(v); err != nil {
			return nil, err
		} else if ok {
			return &s.entries[i], nil
		}
	}
	return nil, fmt.Errorf("no entry matches turn %d", v.Turn)
}

// requestError returns the error of a request: the failure that the script
// defines, or a bad_request.
func (s *Script) requestError(err error) error {
	if e, ok := errors.AsType[*provider.Error](err); ok {
		return e
	}
	return &provider.Error{Category: provider.BadRequest, Message: "script " + s.name + ": " + err.Error(), Err: err}
}

// wait waits for d. It reports false if ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// callID returns an id that is unique within a conversation. A repeated request
// gets the same id.
func callID(turn, index int) string {
	return "script_" + strconv.Itoa(turn) + "_" + strconv.Itoa(index)
}

package script

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/provider"
)

// Script is a provider.Provider that answers from a file.
type Script struct {
	name    string
	entries []entry
	// slowdown multiplies the latencies. 0 stands for 1.
	slowdown int
}

var _ provider.Provider = (*Script)(nil)

// SlowDown returns the script with latencies that are n times as long.
func (s *Script) SlowDown(n int) *Script {
	slow := *s
	slow.slowdown = n
	return &slow
}

// Send answers with the first matching entry, after its latency.
func (s *Script) Send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	if ctx.Err() != nil {
		return nil, provider.ContextError(ctx)
	}
	data := newTemplateData(req)
	e, err := s.choose(data)
	if err != nil {
		return nil, s.requestError(err)
	}
	resp, err := e.answer(data)
	if pause.For(ctx, e.latency*time.Duration(max(1, s.slowdown))) != nil {
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
func (s *Script) choose(data templateData) (*entry, error) {
	for i := range s.entries {
		if ok, err := s.entries[i].matches(data); err != nil {
			return nil, err
		} else if ok {
			return &s.entries[i], nil
		}
	}
	return nil, fmt.Errorf("no entry matches turn %d", data.Turn)
}

// requestError returns the error of a request: the failure that the script
// defines, or a bad_request.
func (s *Script) requestError(err error) error {
	if e, ok := errors.AsType[*provider.Error](err); ok {
		return e
	}
	return badRequest(s.name, err)
}

// callID returns an id that is unique within a conversation. A repeated request
// gets the same id.
func callID(turn, index int) string {
	return "script_" + strconv.Itoa(turn) + "_" + strconv.Itoa(index)
}

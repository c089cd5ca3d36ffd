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

// Send answers with the first entry that fits, after its latency. Its error is
// a *provider.Error, or wraps context.Canceled and the cause when ctx is
// cancelled first.
func (s *Script) Send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	v := newView(req)
	e, err := s.choose(v)
	if err != nil {
		return nil, s.bad(err)
	}
	resp, err := e.answer(v)
	if !wait(ctx, e.latency) {
		return nil, ended(ctx)
	}
	if err != nil {
		return nil, s.bad(err)
	}
	resp.Model = req.Model
	resp.Usage = provider.Usage{InputTokens: tokens(requestSize(req)), OutputTokens: tokens(responseSize(resp))}
	return resp, nil
}

// choose returns the first entry that fits.
func (s *Script) choose(v view) (*entry, error) {
	for i := range s.entries {
		if ok, err := s.entries[i].fits(v); err != nil {
			return nil, err
		} else if ok {
			return &s.entries[i], nil
		}
	}
	return nil, fmt.Errorf("no entry fits turn %d", v.Turn)
}

// bad is the error that a request ends with: the one that the script is made to
// give, or bad_request.
func (s *Script) bad(err error) error {
	if e, ok := errors.AsType[*provider.Error](err); ok {
		return e
	}
	return &provider.Error{Category: provider.BadRequest, Message: "script " + s.name + ": " + err.Error(), Err: err}
}

// wait reports whether d has passed before ctx ended.
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

// ended is the error for a context that is over, of the same kinds as for a
// model across the network: a passed deadline is a timeout, a cancellation the
// caller's own doing.
func ended(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("asking the script: %w", err)
	}
	return &provider.Error{Category: provider.Timeout, Message: "no complete answer in time", Err: err}
}

// callID is unique within a conversation, and the same when the turn is asked
// again.
func callID(turn, index int) string {
	return "script_" + strconv.Itoa(turn) + "_" + strconv.Itoa(index)
}

package mcpserver

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axebus/axe/client"
)

// TestLeave: a tree that lost its client is cancelled after a minute. It is not
// cancelled if a call attaches to it before that, if a call is attached
// already, or if the server stops. A call of another tree does not count.
func TestLeave(t *testing.T) {
	for name, test := range map[string]struct {
		before, after func(*attachments, *attachment)
		cancelled     bool
	}{
		"no call":          {nil, nil, true},
		"a call after":     {nil, func(s *attachments, a *attachment) { s.attach(a) }, false},
		"a call before":    {func(s *attachments, a *attachment) { s.attach(a) }, nil, false},
		"a call came":      {nil, func(s *attachments, a *attachment) { s.attach(a)() }, false},
		"a call went":      {func(s *attachments, a *attachment) { s.attach(a)() }, nil, true},
		"the server stops": {nil, func(s *attachments, _ *attachment) { s.stop() }, false},
		"it has stopped":   {func(s *attachments, _ *attachment) { s.stop() }, nil, false},
		"another tree": {nil, func(s *attachments, a *attachment) {
			s.attach(a)
			s.setTree(a, client.TreeID("T2"))
		}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newAttachments()
			a := &attachment{tree: client.TreeID("T1"), end: func(error) {}}
			if test.before != nil {
				test.before(s, a)
			}
			var at []time.Duration
			began := time.Now()
			s.leave(client.TreeID("T1"), time.Minute, func() { at = append(at, time.Since(began)) })
			time.Sleep(30 * time.Second)
			if test.after != nil {
				test.after(s, a)
			}
			time.Sleep(time.Hour)
			s.stop()
			s.wait()
			if cancelled := len(at) == 1 && at[0] == time.Minute; cancelled != test.cancelled || len(at) > 1 {
				t.Errorf("%s: cancelled after %v, want one cancellation after 1m: %t", name, at, test.cancelled)
			}
		})
	}
}

// TestEnds: the end of a session ends the calls of that session alone. A stop
// of the server ends the calls in flight, and those that come later.
func TestEnds(t *testing.T) {
	s := newAttachments()
	// cause attaches a call, calls between, and returns the cause with
	// which the call was ended; nil if it was not.
	cause := func(session string, between func()) error {
		ctx, end := context.WithCancelCause(t.Context())
		defer end(nil)
		defer s.attach(&attachment{session: session, end: end})()
		between()
		return context.Cause(ctx)
	}
	if err := cause("a", func() { s.endSession("a") }); !errors.Is(err, errLeft) {
		t.Errorf("end of the session: got %v, want %v", err, errLeft)
	}
	if err := cause("a", func() { s.endSession("b") }); err != nil {
		t.Errorf("end of another session: got %v, want no end", err)
	}
	for range 2 {
		if err := cause("a", s.stop); !errors.Is(err, errStopping) {
			t.Errorf("stop: got %v, want %v", err, errStopping)
		}
	}
	if err := cause("a", func() {}); !errors.Is(err, errStopping) {
		t.Errorf("after the stop: got %v, want %v", err, errStopping)
	}
}

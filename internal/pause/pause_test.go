package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axebus/axe/internal/pause"
)

var errStop = errors.New("stopped")

// TestPauseEnds: a pause ends after its time, when its channel is ready, and
// with its context.
func TestPauseEnds(t *testing.T) {
	for _, tt := range []struct {
		name         string
		d            time.Duration
		ready, ended bool
		took         time.Duration
		err          error
	}{
		{name: "time", d: time.Minute, took: time.Minute},
		{name: "no time", d: -time.Second},
		{name: "channel", d: time.Minute, ready: true},
		{name: "context", d: time.Minute, ended: true, err: errStop},
		{name: "no time and context", ended: true, err: errStop},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancelCause(t.Context())
				defer end(nil)
				early := make(chan struct{})
				if tt.ready {
					close(early)
				}
				if tt.ended {
					end(errStop)
				}
				began := time.Now()
				err := pause.AtMost(ctx, tt.d, early)
				if took := time.Since(began); took != tt.took || !errors.Is(err, tt.err) {
					t.Errorf("took %s, error %v; want %s, error %v", took, err, tt.took, tt.err)
				}
			})
		})
	}
}

// TestForWaits: For waits for its time.
func TestForWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := pause.For(t.Context(), time.Second); err != nil || time.Since(began) != time.Second {
			t.Errorf("took %s, error %v; want 1s, no error", time.Since(began), err)
		}
	})
}

// TestNotifyCoalesces: Notify of a channel that is ready neither waits nor adds
// a second token.
func TestNotifyCoalesces(t *testing.T) {
	c := make(chan struct{}, 1)
	pause.Notify(c)
	pause.Notify(c)
	if len(c) != 1 {
		t.Fatalf("got %d tokens, want 1", len(c))
	}
	<-c
	pause.Notify(c)
	if len(c) != 1 {
		t.Fatal("the channel is not ready after its token was taken and Notify was called again")
	}
}

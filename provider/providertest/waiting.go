package providertest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axebus/axe/provider"
)

// stallingHandlers returns servers that fall silent at different moments. Each
// handler returns when the client aborts its request.
func stallingHandlers() map[string]handler {
	return map[string]handler{
		"before the header": func(_ http.ResponseWriter, r *http.Request, _ []byte) { <-r.Context().Done() },
		"in the body":       stallInBody(http.StatusOK),
		"in a refusal":      stallInBody(http.StatusInternalServerError),
	}
}

func stallInBody(status int) handler {
	return func(w http.ResponseWriter, r *http.Request, _ []byte) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"model":`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// bubble runs f in virtual time. The provider reaches its server through
// net.Pipe, over one connection at a time, so that an aborted request must
// return the connection. Timeout is the limit of the http.Client.
func (s Subject) bubble(t *testing.T, timeout time.Duration, h handler, f func(*testing.T, provider.Provider)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		srv := &http.Server{Handler: s.checkingHandler(t, h)}
		done := make(chan struct{})
		go func() { defer close(done); _ = srv.Serve(l) }()
		hc := &http.Client{Timeout: timeout, Transport: &http.Transport{DialContext: l.dial, MaxConnsPerHost: 1}}
		f(t, s.open("http://model", hc))
		hc.CloseIdleConnections()
		_ = srv.Close()
		<-done
	})
}

// sendNow sends a part of an answer.
func sendNow(w http.ResponseWriter, text string) {
	_, _ = io.WriteString(w, text)
	_ = http.NewResponseController(w).Flush()
}

// stalled tests answers that have begun and come no further. Each ends the
// request after a minute, so that it does not hold a slot until the deadline.
func (s Subject) stalled(t *testing.T) {
	for name, test := range map[string]struct {
		h    handler
		want provider.Category
	}{
		"silence":   {stallInBody(http.StatusOK), provider.Timeout},
		"a refusal": {stallInBody(http.StatusServiceUnavailable), provider.Overloaded},
		"a byte a second": {func(w http.ResponseWriter, r *http.Request, _ []byte) {
			for range 600 {
				sendNow(w, "[")
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
					return
				}
			}
		}, provider.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			s.bubble(t, 0, test.h, func(t *testing.T, p provider.Provider) {
				t.Helper()
				start := time.Now()
				e := s.sendFails(t, p, test.want)
				if took := time.Since(start); took != time.Minute {
					t.Errorf("took %v, want a minute: %v", took, e)
				}
				if test.want == provider.Timeout && !strings.Contains(e.Message, "the answer stalled") {
					t.Errorf("message = %q", e.Message)
				}
			})
		})
	}
	t.Run("a slow line", func(t *testing.T) {
		f := s.fixture(t, "large")
		text := strings.Repeat("x", 1<<10)
		parts := strings.Split(string(f.Answer), "LARGE")
		slow := func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			sendNow(w, strings.Join(parts[:len(parts)-1], text))
			for range 60 {
				sendNow(w, text)
				time.Sleep(59 * time.Second)
			}
			sendNow(w, parts[len(parts)-1])
		}
		s.bubble(t, 0, slow, func(t *testing.T, p provider.Provider) {
			t.Helper()
			if got := send(t, p, hello()); len(got.Content) < 60*len(text) {
				t.Errorf("%d bytes", len(got.Content))
			}
		})
	})
}

// slowModel tests that only the context bounds the time until an answer begins.
func (s Subject) slowModel(t *testing.T) {
	f := s.fixture(t, "defaults")
	slow := func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		time.Sleep(time.Hour)
		for range 60 {
			// Some servers keep the connection alive so.
			sendNow(w, "\n")
			time.Sleep(time.Minute)
		}
		_, _ = w.Write(f.Answer)
	}
	s.bubble(t, 0, slow, func(t *testing.T, p provider.Provider) {
		t.Helper()
		if got := send(t, p, hello()); got.Content != f.Want.Content {
			t.Errorf("content = %q", got.Content)
		}
	})
}

func (s Subject) deadline(t *testing.T) {
	for name, h := range stallingHandlers() {
		t.Run(name, func(t *testing.T) { s.bubble(t, 0, h, CheckDeadline) })
	}
}

func (s Subject) cancel(t *testing.T) {
	for name, h := range stallingHandlers() {
		t.Run(name, func(t *testing.T) { s.bubble(t, 0, h, CheckCancel) })
	}
	t.Run("before it began", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errCause)
		p := s.serve(t, func(http.ResponseWriter, *http.Request, []byte) { t.Error("sent") })
		_, err := p.Send(ctx, hello())
		checkCancelled(t, err)
	})
}

// queue tests that a request stops waiting for a connection when its context
// ends.
func (s Subject) queue(t *testing.T) {
	s.bubble(t, 0, stallingHandlers()["before the header"], func(t *testing.T, p provider.Provider) {
		t.Helper()
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error, 1)
		go func() { _, err := p.Send(ctx, hello()); failed <- err }()
		synctest.Wait() // the request holds the one connection
		CheckDeadline(t, p)
		CheckCancel(t, p)
		cancel(errCause)
		checkCancelled(t, <-failed)
	})
}

// clientTimeout tests the time limit of an http.Client. It is a Timeout, unless
// the server has already sent a status of failure.
func (s Subject) clientTimeout(t *testing.T) {
	want := map[string]provider.Category{"in a refusal": provider.Server}
	for name, h := range stallingHandlers() {
		t.Run(name, func(t *testing.T) {
			s.bubble(t, 45*time.Second, h, func(t *testing.T, p provider.Provider) {
				t.Helper()
				_ = s.sendFails(t, p, cmp.Or(want[name], provider.Timeout))
			})
		})
	}
}

// errCause is the cause of the cancellations in this suite.
var errCause = errors.New("the tree was cancelled")

// CheckDeadline tests the end of a Send at its deadline: at once, with a
// Timeout. It runs in a synctest bubble. Silent must not answer for hours.
func CheckDeadline(t *testing.T, silent provider.Provider) {
	t.Helper()
	for _, after := range []time.Duration{45 * time.Second, 0, -time.Hour} {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), after)
		resp, err := silent.Send(ctx, hello())
		cancel()
		_ = checkFailure(t, resp, err, provider.Timeout)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v does not wrap context.DeadlineExceeded", err)
		}
		if took := time.Since(start); took != max(0, after) {
			t.Errorf("took %v, want %v", took, after)
		}
	}
}

// CheckCancel tests the end of a cancelled Send: at once, with context.Canceled
// and the cause, and not with a *provider.Error. It runs in a synctest bubble.
// Silent must not answer for hours.
func CheckCancel(t *testing.T, silent provider.Provider) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error, 1)
	go func() { _, err := silent.Send(ctx, hello()); failed <- err }()
	synctest.Wait() // the provider has fallen silent
	start := time.Now()
	cancel(errCause)
	checkCancelled(t, <-failed)
	_, err := silent.Send(ctx, hello())
	checkCancelled(t, err)
	if took := time.Since(start); took != 0 {
		t.Errorf("took %v", took)
	}
}

func checkCancelled(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, context.Canceled) || !errors.Is(err, errCause) {
		t.Errorf("%v does not wrap context.Canceled and the cause", err)
	}
	if e, ok := errors.AsType[*provider.Error](err); ok {
		t.Errorf("a cancellation is a *provider.Error: %v", e)
	}
}

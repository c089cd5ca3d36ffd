package providertest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
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

// slowModel tests that only the context bounds the time of an answer.
func (s Subject) slowModel(t *testing.T) {
	f := s.fixture(t, "defaults")
	slow := func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		time.Sleep(time.Hour)
		_, _ = w.Write(f.Answer[:1])
		_ = http.NewResponseController(w).Flush()
		time.Sleep(time.Hour)
		_, _ = w.Write(f.Answer[1:])
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
			s.bubble(t, 90*time.Second, h, func(t *testing.T, p provider.Provider) {
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
	for _, after := range []time.Duration{90 * time.Second, 0, -time.Hour} {
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

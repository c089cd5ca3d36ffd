package providertest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axebus/axe/provider"
)

// stalls are the moments at which a server may fall silent. Each returns when
// the request is aborted.
func stalls() map[string]handler {
	return map[string]handler{
		"before the header": func(_ http.ResponseWriter, r *http.Request, _ []byte) {
			<-r.Context().Done()
		},
		"in the body": func(w http.ResponseWriter, r *http.Request, _ []byte) {
			stall(w, r, http.StatusOK)
		},
		"in a refusal": func(w http.ResponseWriter, r *http.Request, _ []byte) {
			stall(w, r, http.StatusInternalServerError)
		},
	}
}

func stall(w http.ResponseWriter, r *http.Request, status int) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"model":`)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// bubble runs f in virtual time, on a provider whose server is reached through
// net.Pipe, over one connection at once: a request that is given up must give
// it back. limit is the client's own.
func (s Subject) bubble(t *testing.T, limit time.Duration, h handler, f func(*testing.T, provider.Provider)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newPipes()
		srv := &http.Server{Handler: s.checked(t, h)}
		done := make(chan struct{})
		go func() { defer close(done); _ = srv.Serve(l) }()
		hc := &http.Client{Timeout: limit, Transport: &http.Transport{DialContext: l.dial, MaxConnsPerHost: 1}}
		f(t, s.open("http://model", hc))
		hc.CloseIdleConnections()
		_ = srv.Close()
		<-done
	})
}

// patience: nothing but the context limits how long a model may think.
func (s Subject) patience(t *testing.T) {
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
	for name, h := range stalls() {
		t.Run(name, func(t *testing.T) { s.bubble(t, 0, h, Expires) })
	}
}

func (s Subject) cancel(t *testing.T) {
	for name, h := range stalls() {
		t.Run(name, func(t *testing.T) { s.bubble(t, 0, h, Cancels) })
	}
	t.Run("before it began", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errWhy)
		p := s.serve(t, func(http.ResponseWriter, *http.Request, []byte) { t.Error("sent") })
		_, err := p.Send(ctx, hello())
		cancelled(t, err)
	})
}

// queue: a request that waits for a connection waits no longer than its
// context.
func (s Subject) queue(t *testing.T) {
	s.bubble(t, 0, stalls()["before the header"], func(t *testing.T, p provider.Provider) {
		t.Helper()
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error, 1)
		go func() { _, err := p.Send(ctx, hello()); failed <- err }()
		synctest.Wait() // it holds the one connection
		Expires(t, p)
		Cancels(t, p)
		cancel(errWhy)
		cancelled(t, <-failed)
	})
}

// clientTimeout: the limit of an http.Client is a timeout as well, except that
// what a server said already counts.
func (s Subject) clientTimeout(t *testing.T) {
	want := map[string]provider.Category{"in a refusal": provider.Server}
	for name, h := range stalls() {
		t.Run(name, func(t *testing.T) {
			s.bubble(t, 90*time.Second, h, func(t *testing.T, p provider.Provider) {
				t.Helper()
				_ = s.fail(t, p, cmp.Or(want[name], provider.Timeout))
			})
		})
	}
}

// errWhy is the cause of what is cancelled here.
var errWhy = errors.New("the tree was cancelled")

// Expires checks how a Send ends whose deadline passes: at once, with a
// Timeout. It runs in a synctest bubble, on a provider that says nothing for
// hours.
func Expires(t *testing.T, silent provider.Provider) {
	t.Helper()
	for _, after := range []time.Duration{90 * time.Second, 0, -time.Hour} {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), after)
		resp, err := silent.Send(ctx, hello())
		cancel()
		_ = failure(t, resp, err, provider.Timeout)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v is no context.DeadlineExceeded", err)
		}
		if took := time.Since(start); took != max(0, after) {
			t.Errorf("took %v, want %v", took, after)
		}
	}
}

// Cancels checks how a Send ends that is cancelled: at once, with a
// context.Canceled and its cause, and no *provider.Error. It runs where Expires
// does.
func Cancels(t *testing.T, silent provider.Provider) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error, 1)
	go func() { _, err := silent.Send(ctx, hello()); failed <- err }()
	synctest.Wait() // the provider has fallen silent
	start := time.Now()
	cancel(errWhy)
	cancelled(t, <-failed)
	_, err := silent.Send(ctx, hello())
	cancelled(t, err)
	if took := time.Since(start); took != 0 {
		t.Errorf("took %v", took)
	}
}

func cancelled(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, context.Canceled) || !errors.Is(err, errWhy) {
		t.Errorf("%v is no context.Canceled, or forgot why", err)
	}
	if e, ok := errors.AsType[*provider.Error](err); ok {
		t.Errorf("the provider is blamed: %v", e)
	}
}

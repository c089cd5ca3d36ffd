package providertest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axebus/axe/provider"
)

// stalls are the moments at which a server may fall silent. Each returns when the request is aborted.
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

// bubble runs f in virtual time, on a provider whose server is reached through net.Pipe.
func (s Subject) bubble(t *testing.T, h handler, f func(*testing.T, provider.Provider)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newPipes()
		srv := &http.Server{Handler: s.checked(t, h)}
		done := make(chan struct{})
		go func() { defer close(done); _ = srv.Serve(l) }()
		hc := &http.Client{Transport: &http.Transport{DialContext: l.dial}}
		f(t, s.New("http://model", hc))
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
	s.bubble(t, slow, func(t *testing.T, p provider.Provider) {
		t.Helper()
		if got := send(t, p, hello()); got.Content != f.Want.Content {
			t.Errorf("content = %q", got.Content)
		}
	})
}

func (s Subject) deadline(t *testing.T) {
	for name, h := range stalls() {
		t.Run(name, func(t *testing.T) {
			s.bubble(t, h, func(t *testing.T, p provider.Provider) {
				t.Helper()
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
				defer cancel()
				resp, err := p.Send(ctx, hello())
				_ = s.failed(t, resp, err, provider.Timeout)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v is no context.DeadlineExceeded", err)
				}
				if took := time.Since(start); took != 90*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func (s Subject) cancel(t *testing.T) {
	why := errors.New("the tree was cancelled")
	for name, h := range stalls() {
		t.Run(name, func(t *testing.T) {
			s.bubble(t, h, func(t *testing.T, p provider.Provider) {
				t.Helper()
				ctx, cancel := context.WithCancelCause(t.Context())
				failed := make(chan error, 1)
				go func() { _, err := p.Send(ctx, hello()); failed <- err }()
				synctest.Wait() // the server has fallen silent
				start := time.Now()
				cancel(why)
				cancelled(t, <-failed, why)
				if took := time.Since(start); took != 0 {
					t.Errorf("took %v", took)
				}
			})
		})
	}
	t.Run("before it began", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		p := s.serve(t, func(http.ResponseWriter, *http.Request, []byte) { t.Error("sent") })
		_, err := p.Send(ctx, hello())
		cancelled(t, err, why)
	})
}

func cancelled(t *testing.T, err, why error) {
	t.Helper()
	if !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
		t.Errorf("%v is no context.Canceled, or forgot why", err)
	}
	if e, ok := errors.AsType[*provider.Error](err); ok {
		t.Errorf("the provider is blamed: %v", e)
	}
}

package providertest

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/axebus/axe/provider"
)

// CheckConnections sends many parallel requests, and the server refuses every
// other one. The test fails if the provider opens more than limit connections.
func CheckConnections(t *testing.T, limit int, answer string, open func(base string) provider.Provider) {
	t.Helper()
	const requests = 50
	var asked, dialed atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if asked.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, answer)
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			dialed.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	p := open(srv.URL)
	var answered atomic.Int32
	var wg sync.WaitGroup
	for range requests {
		wg.Go(func() {
			_, err := p.Send(t.Context(), hello())
			if e, ok := errors.AsType[*provider.Error](err); err == nil {
				answered.Add(1)
			} else if !ok || e.Status != http.StatusInternalServerError {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := int(dialed.Load()); n < 1 || n > limit {
		t.Errorf("%d connections, want at most %d", n, limit)
	}
	if asked.Load() != requests || answered.Load() != requests/2 {
		t.Errorf("%d requests, %d answers; want %d and %d", asked.Load(), answered.Load(), requests, requests/2)
	}
}

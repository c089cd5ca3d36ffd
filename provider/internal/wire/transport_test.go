package wire

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestTransportIsBounded: a transport has the given bound on connections, and
// on idle ones. The default is 128.
func TestTransportIsBounded(t *testing.T) {
	for conns, want := range map[int]int{-1: 128, 0: 128, 7: 7} {
		tr := Transport(conns)
		if tr.MaxConnsPerHost != want || tr.MaxIdleConnsPerHost != want {
			t.Errorf("Transport(%d): %d connections, %d idle; want %d of both",
				conns, tr.MaxConnsPerHost, tr.MaxIdleConnsPerHost, want)
		}
	}
}

// post sends a request and returns the protocol of the response, "" after an
// error. It reads the whole response, so that the connection can be used again.
func post(t *testing.T, hc *http.Client, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody)
	if err != nil {
		t.Errorf("request: %v", err)
		return ""
	}
	resp, err := hc.Do(req)
	if err != nil {
		t.Errorf("response: %v", err)
		return ""
	}
	defer resp.Body.Close()
	if _, err := readBounded(resp.Body, maxBody); err != nil {
		t.Errorf("body: %v", err)
	}
	return resp.Proto
}

// TestTransportReusesConnections: fifty parallel requests use no more
// connections than the bound.
func TestTransportReusesConnections(t *testing.T) {
	const conns = 3
	var dialed atomic.Int32
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			dialed.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	hc := &http.Client{Transport: Transport(conns)}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { post(t, hc, srv.URL) })
	}
	wg.Wait()
	if n := dialed.Load(); n > conns {
		t.Errorf("%d connections, want at most %d", n, conns)
	}
}

// TestTransportSpeaksHTTP2: a transport uses HTTP/2 with a server that offers
// it.
func TestTransportSpeaksHTTP2(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	tr := Transport(1)
	trusted, ok := srv.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatal("the test server's client has another transport")
	}
	tr.TLSClientConfig = trusted.TLSClientConfig
	if got := post(t, &http.Client{Transport: tr}, srv.URL); got != "HTTP/2.0" {
		t.Errorf("protocol %q, want HTTP/2.0", got)
	}
}

// TestClientIsNotShared: the given client keeps its redirects. Its copy follows
// none, and has the same timeout.
func TestClientIsNotShared(t *testing.T) {
	given := &http.Client{Timeout: time.Minute}
	kept := withoutRedirects(given)
	if given.CheckRedirect != nil || kept.CheckRedirect == nil || kept.Timeout != time.Minute {
		t.Errorf("given client %+v, copy %+v; want CheckRedirect in the copy alone", given, kept)
	}
}

package wire

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"
)

// defaultConns is the default number of connections to one host.
const defaultConns = 128

// Transport returns a transport for few hosts, many parallel requests, and
// answers that take minutes. Conns bounds the connections to one host; 0 stands
// for 128. Requests beyond them wait for a connection until their context ends.
// The transport does not bound the time of an answer.
func Transport(conns int) *http.Transport {
	if conns <= 0 {
		conns = defaultConns
	}
	dialer := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                 proxy,
		DialContext:           dialer.DialContext,
		ForceAttemptHTTP2:     true,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		MaxConnsPerHost:       conns,
		MaxIdleConnsPerHost:   conns,
		IdleConnTimeout:       90 * time.Second,
		// One HTTP/2 connection carries many requests. Pings find a
		// dead connection before a request fails on it.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// proxy returns the proxy of the environment. It hides the original error,
// which quotes a malformed proxy URL with its password.
func proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, errors.New("the proxy named in the environment is malformed")
	}
	return u, nil
}

// withoutRedirects returns a copy of c that follows no redirects, because
// net/http would send an X-Api-Key header to another host. For a nil c it
// returns a client with a Transport of its own.
func withoutRedirects(c *http.Client) *http.Client {
	if c == nil {
		c = &http.Client{Transport: Transport(0)}
	}
	kept := *c
	kept.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &kept
}

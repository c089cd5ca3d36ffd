package wire

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"
)

// defaultConns is how many connections a Transport holds to one host if nobody
// says otherwise.
const defaultConns = 128

// Transport is made for few hosts, many requests at once, and answers that take
// minutes. conns bounds the connections to one host (0: 128); requests beyond
// them wait until their context ends. There is no limit on the time that an
// answer takes: that is the context's.
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
		// One HTTP/2 connection carries many requests: that it died
		// must show without any of them failing first.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// proxy is the environment's. The error for a malformed one quotes it, password
// and all.
func proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, errors.New("the proxy named in the environment is malformed")
	}
	return u, nil
}

// client is c, or one over a Transport of its own, that follows no redirect:
// net/http would take an x-api-key along to another host.
func client(c *http.Client) *http.Client {
	if c == nil {
		c = &http.Client{Transport: Transport(0)}
	}
	kept := *c
	kept.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &kept
}

package builtin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

const (
	// fetchTime bounds a call of url_fetch, with its redirects.
	fetchTime = 15 * time.Second
	// maxRedirects is the number of redirects that url_fetch follows.
	maxRedirects = 10
	// maxPage bounds the bytes that url_fetch reads. The text of an HTML
	// page is a small part of it.
	maxPage = 1 << 20
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 256 << 10
)

func urlFetch() Tool { return fetcher{fetchTime, nil, isPublicPort}.tool() }

// fetcher is the implementation of url_fetch.
type fetcher struct {
	timeout time.Duration
	// resolver is nil for that of the system.
	resolver *net.Resolver
	// mayDial reports whether an address may be dialled.
	mayDial func(netip.AddrPort) bool
}

func isPublicPort(to netip.AddrPort) bool { return isPublic(to.Addr()) }

func (f fetcher) tool() Tool {
	return Tool{
		Definition: define("url_fetch",
			"Fetch content from a URL using HTTP GET and return the response body as text. HTML becomes Markdown.",
			map[string]provider.ToolParameter{
				"url": required("The URL to fetch."),
			}),
		Effect: run.ToolReads,
		Run: func(ctx context.Context, c Call) (string, error) {
			u, err := parseURL(c.Arguments["url"])
			if err != nil {
				return "", err
			}
			if err := mayFetch(u, c.Hosts); err != nil {
				return "", err
			}
			late := fmt.Errorf("no answer within %v", f.timeout)
			ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, late)
			defer cancel()
			page, err := f.fetch(ctx, u, c.Hosts)
			if err != nil && ctx.Err() != nil {
				return "", context.Cause(ctx)
			}
			return page, err
		},
	}
}

func parseURL(s string) (*url.URL, error) {
	if s == "" {
		return nil, errors.New("url is required")
	}
	u, err := url.Parse(s)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return nil, fmt.Errorf("invalid url %q: %w", s, e.Err)
	}
	return u, err
}

// mayFetch returns the reason why a URL is not fetched. Hosts are the allowed
// ones, all if it is empty.
func mayFetch(u *url.URL, hosts []string) error {
	host := u.Hostname()
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("unsupported scheme %q: only http and https are allowed", u.Scheme)
	case host == "":
		return errors.New("url has no host")
	case len(hosts) > 0 && !slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, host) }):
		return fmt.Errorf("host %q is not in allowed_hosts", host)
	}
	return nil
}

// fetch returns the text behind a URL. An answer that is not 2xx is an error.
func (f fetcher) fetch(ctx context.Context, u *url.URL, hosts []string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("User-Agent", "axe")
	client := f.client(hosts)
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return "", e.Err // without the URL, which the model knows
	}
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
	if err != nil {
		return "", err
	}
	page, err := pageText(resp, body)
	switch {
	case err != nil && !succeeded(resp):
		return "", fmt.Errorf("HTTP %d: %w", resp.StatusCode, err)
	case !succeeded(resp):
		return "", fmt.Errorf("HTTP %d: %s", resp.StatusCode, page)
	}
	return page, err
}

func succeeded(resp *http.Response) bool { return resp.StatusCode/100 == 2 }

// client makes a client for one call. It has no cookies, no proxy, and no
// connection that outlives the call.
func (f fetcher) client(hosts []string) *http.Client {
	dialer := net.Dialer{Resolver: f.resolver, Control: f.control}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			DisableKeepAlives:      true,
			ForceAttemptHTTP2:      true,
			MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return errors.New("too many redirects")
			}
			return mayFetch(req.URL, hosts)
		},
	}
}

// control refuses to dial an address that is not public. It sees the address
// that the socket is about to connect to. So it does not matter how a URL
// spells the address, nor what a name meant at another time.
func (f fetcher) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if !f.mayDial(to) {
		return fmt.Errorf("address %s is a private/reserved IP", to.Addr())
	}
	return nil
}

package builtin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// cut is the last line of a text that was cut.
const cut = "\n... [response truncated, exceeded 10000 characters]"

// anywhere returns url_fetch without a check of addresses.
func anywhere() fetcher { return fetcher{fetchTime, nil, func(netip.AddrPort) bool { return true }} }

// onlyTo returns url_fetch that may dial public addresses and that of a server.
func onlyTo(srv *httptest.Server) fetcher {
	f := anywhere()
	f.mayDial = func(to netip.AddrPort) bool {
		return to.String() == srv.Listener.Addr().String() || isPublicPort(to)
	}
	return f
}

// TestURLFetch: url_fetch returns a text, and a page as Markdown, up to 10,000
// characters. Binary bodies, HTTP errors and malformed URLs are errors.
func TestURLFetch(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	answer := func(path, kind string, status int, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		})
	}
	answer("/plain", "text/plain", http.StatusOK, "a <b> & c\n")
	answer("/json", "application/json", http.StatusCreated, `{"a": 1}`)
	answer("/empty", "text/plain", http.StatusNoContent, "")
	answer("/exact", "text/plain", http.StatusOK, strings.Repeat("x", 10_000))
	answer("/long", "text/plain", http.StatusOK, strings.Repeat("é", 1<<20))
	answer("/latin", "text/plain", http.StatusOK, "caf\xe9")
	answer("/image", "image/png", http.StatusOK, "\x89PNG\x00\x01")
	answer("/gone", "text/html; charset=utf-8", http.StatusNotFound, "<h1>Gone</h1><p>It <b>was</b> here.")
	answer("/broken", "image/png", http.StatusBadGateway, "\x00")
	answer("/page/one", "Text/HTML; charset=UTF-8", http.StatusOK, `<!doctype html><title>T</title>
		<style>p { color: red }</style><script>alert("<p>no</p>")</script><noscript>none</noscript>
		<h1>One</h1><!-- hidden --><p>See <a href="two">two</a>.</p><ul><li>a<li>b</ul>
		<table><tr><th>k<th>v<tr><td>1<td colspan="100000" rowspan="100000">2</table>
		<img alt=dot src="data:image/png;base64,`+strings.Repeat("A", 5000)+`"><pre>x := 1</pre>`)
	answer("/large", "text/html", http.StatusOK, "<p>first<p>"+strings.Repeat("word ", 1<<18))
	answer("/deep", "text/html", http.StatusOK, strings.Repeat("<div>", 1<<16))
	mux.HandleFunc("/again/{n}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("n") == "0" {
			fmt.Fprintf(w, "cookies: %d", len(r.Cookies()))
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "c", Value: "v", Path: "/"})
		http.Redirect(w, r, "/again/"+r.PathValue("n")[1:], http.StatusFound)
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	page := "# One\n\nSee [two](" + srv.URL + "/page/two).\n\n- a\n- b\n\n| k | v |\n|---|---|\n| 1 | 2 |\n\n" +
		"```\nx := 1\n```"
	at := func(path string) args { return args{"url": srv.URL + path} }
	for _, tt := range []toolCall{
		{"plain text", at("/plain"), "a <b> & c\n", ""},
		{"JSON", at("/json"), `{"a": 1}`, ""},
		{"an empty body", at("/empty"), "", ""},
		{"a body of the limit", at("/exact"), strings.Repeat("x", 10_000), ""},
		{"a long body", at("/long"), strings.Repeat("é", 5000) + cut, ""},
		{"no UTF-8", at("/latin"), "caf\uFFFD", ""},
		{"HTML", at("/page/one"), page, ""},
		{"ten redirects", at("/again/" + strings.Repeat("1", 10) + "0"), "cookies: 0", ""},
		{"eleven redirects", at("/again/" + strings.Repeat("1", 11) + "0"), "", "too many redirects"},

		{"a binary body", at("/image"), "", "binary content (image/png)"},
		{"no success", at("/gone"), "", "HTTP 404: # Gone\n\nIt **was** here."},
		{"no success and no text", at("/broken"), "", "HTTP 502: binary content (image/png)"},
		{"a deep page", at("/deep"), "", "exceeds 512 nodes"},
		{"a redirect to a file", at("/file"), "", `unsupported scheme "file": only http and https are allowed`},
		{"no argument", nil, "", "url is required"},
		{"an empty URL", args{"url": ""}, "", "url is required"},
		{"another scheme", args{"url": "ftp://a.test/"}, "", `unsupported scheme "ftp": only http and https are`},
		{"no scheme", args{"url": "example.com"}, "", `unsupported scheme "": only http and https are allowed`},
		{"no host", args{"url": "http:///x"}, "", "url has no host"},
		{"no URL", args{"url": "http://[::1"}, "", `invalid url "http://[::1": missing ']' in host`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.check(t, anywhere().tool(), Call{})
		})
	}
	t.Run("a large page", func(t *testing.T) {
		t.Parallel()
		got, err := use(t.Context(), anywhere().tool(), Call{Arguments: at("/large")})
		if err != nil || !strings.HasPrefix(got, "first\n\n") || !strings.HasSuffix(got, cut) || len(got) > 10_100 {
			t.Errorf("got %d bytes that begin with %.20q, error %v; want the page, cut", len(got), got, err)
		}
	})
}

// TestURLFetchRefuses: url_fetch dials no address that is not public, whatever
// form it has in the URL. A name is looked up first: the resolver of this test
// answers 127.0.0.1 for every name.
func TestURLFetchRefuses(t *testing.T) {
	t.Parallel()
	hits, srv := hitServer(t)
	port := portOf(t, srv)
	loopback := resolver(t, func(string) netip.Addr { return netip.MustParseAddr("127.0.0.1") })
	f := fetcher{fetchTime, loopback, isPublicPort}
	for _, host := range []string{
		"127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
		"[64:ff9b::7f00:1]", "[64:ff9b::169.254.169.254]", "169.254.169.254", "10.0.0.1", "100.64.0.1",
		"[fd00:ec2::254]",
		// Some systems read the next hosts as 127.0.0.1. For Go they
		// are unknown hosts, or names for the resolver.
		"2130706433", "0x7f000001", "0x7f.1", "017700000001", "0177.0.0.1", "127.1", "127.0.0.1.", "①②⑦.0.0.1",
		"name.test", "public.test@name.test", "8.8.8.8@127.0.0.1", "8.8.8.8%2f@127.0.0.1", "8.8.8.8:80@[::1]",
	} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			c := Call{Arguments: args{"url": "http://" + host + ":" + port + "/"}}
			got, err := use(t.Context(), f.tool(), c)
			if err == nil || !regexp.MustCompile("is a private/reserved IP|no such host").MatchString(err.Error()) {
				t.Errorf("got %q and error %v, want the address refused", got, err)
			}
		})
	}
	t.Cleanup(func() {
		if n := hits.Load(); n != 0 {
			t.Errorf("the server got %d requests, want none", n)
		}
	})
}

// TestURLFetchRedirects: url_fetch checks the address at every redirect again.
func TestURLFetchRedirects(t *testing.T) {
	t.Parallel()
	hits, inner := hitServer(t)
	outer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusTemporaryRedirect)
	}))
	t.Cleanup(outer.Close)
	for _, to := range []string{inner.URL, "http://169.254.169.254/latest/meta-data/", outer.URL + "?to=" + inner.URL} {
		c := Call{Arguments: args{"url": outer.URL + "?to=" + to}}
		got, err := use(t.Context(), onlyTo(outer).tool(), c)
		if err == nil || !strings.Contains(err.Error(), "is a private/reserved IP") {
			t.Errorf("%s: got %q and error %v, want the address refused", to, got, err)
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("the server got %d requests, want none", n)
	}
}

// TestURLFetchRebinding: the resolver answers with a private address when a
// name is looked up the second time. That address is refused too. Each request
// looks its name up once, and dials the address that was checked.
func TestURLFetchRebinding(t *testing.T) {
	t.Parallel()
	outer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+r.Host+"/again", http.StatusFound)
	}))
	t.Cleanup(outer.Close)
	var lookups atomic.Int32
	f := onlyTo(outer)
	f.resolver = resolver(t, func(string) netip.Addr {
		if lookups.Add(1) == 1 {
			return netip.MustParseAddr("127.0.0.1")
		}
		return netip.MustParseAddr("169.254.169.254")
	})
	c := Call{Arguments: args{"url": "http://rebind.test:" + portOf(t, outer) + "/"}}
	got, err := use(t.Context(), f.tool(), c)
	if err == nil || !strings.Contains(err.Error(), "address 169.254.169.254 is a private/reserved IP") {
		t.Errorf("got %q and error %v, want the address refused", got, err)
	}
	if n := lookups.Load(); n != 2 {
		t.Errorf("%d look-ups, want 2", n)
	}
}

// TestURLFetchHosts: with allowed hosts, no request goes to another host, also
// after a redirect.
func TestURLFetchHosts(t *testing.T) {
	t.Parallel()
	hits, inner := hitServer(t)
	outer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		fmt.Fprint(w, "hello")
	}))
	t.Cleanup(outer.Close)
	f := anywhere()
	f.resolver = resolver(t, func(string) netip.Addr { return netip.MustParseAddr("127.0.0.1") })
	port := portOf(t, outer)
	for _, tt := range []toolCall{
		{"allowed", args{"url": "http://docs.test:" + port}, "hello", ""},
		{"in capitals", args{"url": "http://DOCS.Test:" + port}, "hello", ""},
		{"a redirect within", args{"url": "http://docs.test:" + port + "/?to=/there"}, "hello", ""},
		{"another", args{"url": "http://other.test:" + port}, "", `host "other.test" is not in allowed_hosts`},
		{"below", args{"url": "http://a.docs.test:" + port}, "", `host "a.docs.test" is not in allowed_hosts`},
		{"with a dot", args{"url": "http://docs.test.:" + port}, "", `host "docs.test." is not in allowed_hosts`},
		{"a user", args{"url": "http://docs.test@other.test:" + port}, "", `host "other.test" is not in allowed_hosts`},
		{
			"a user and a port",
			args{"url": "http://docs.test:80@other.test:" + port},
			"",
			`host "other.test" is not in allowed_hosts`,
		},
		{"a backslash", args{"url": `http://other.test\@docs.test/`}, "", "invalid"},
		{
			"a redirect",
			args{"url": "http://docs.test:" + port + "/?to=" + inner.URL},
			"",
			`host "127.0.0.1" is not in allowed_hosts`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.check(t, f.tool(), Call{Hosts: []string{"docs.TEST"}})
		})
	}
	t.Cleanup(func() {
		if n := hits.Load(); n != 0 {
			t.Errorf("the server got %d requests, want none", n)
		}
	})
}

// TestURLFetchNoProxy: url_fetch uses no proxy, which would dial without the
// check of addresses.
func TestURLFetchNoProxy(t *testing.T) {
	t.Parallel()
	if transport, ok := anywhere().client(nil).Transport.(*http.Transport); !ok || transport.Proxy != nil {
		t.Error("url_fetch uses a proxy")
	}
}

// TestURLFetchTime: a server does not answer, or does not end its answer. The
// call ends after its time, or when its context ends.
func TestURLFetchTime(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begins" {
			fmt.Fprint(w, "begun")
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}))
	t.Cleanup(srv.Close)
	f := anywhere()
	f.timeout = 50 * time.Millisecond
	for _, path := range []string{"/", "/begins"} {
		got, err := use(t.Context(), f.tool(), Call{Arguments: args{"url": srv.URL + path}})
		if err == nil || err.Error() != "no answer within 50ms" {
			t.Errorf("%s: got %q and error %v, want that there was no answer within 50ms", path, got, err)
		}
	}
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(stopped) })
	if got, err := use(ctx, anywhere().tool(), Call{Arguments: args{"url": srv.URL}}); !errors.Is(err, stopped) {
		t.Errorf("got %q and error %v, want %v", got, err, stopped)
	}
}

// hitServer starts a server at a loopback address, which counts its requests.
func hitServer(t *testing.T) (*atomic.Int32, *httptest.Server) {
	t.Helper()
	var hits atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		fmt.Fprint(w, "secret")
	}))
	t.Cleanup(srv.Close)
	return &hits, srv
}

// portOf returns the port of a server.
func portOf(t *testing.T, srv *httptest.Server) string {
	t.Helper()
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// resolver returns a resolver whose DNS server answers with the IPv4 address
// that lookup returns for a name.
func resolver(t *testing.T, lookup func(name string) netip.Addr) *net.Resolver {
	t.Helper()
	var listen net.ListenConfig
	conn, err := listen.ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			if answer, err := dnsAnswer(b[:n], lookup); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// dnsAnswer returns the answer to a DNS query for IPv4 addresses.
func dnsAnswer(query []byte, lookup func(name string) netip.Addr) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	m.Response, m.Additionals = true, nil
	for _, q := range m.Questions {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
				Body:   &dnsmessage.AResource{A: lookup(q.Name.String()).As4()},
			})
		}
	}
	return m.Pack()
}

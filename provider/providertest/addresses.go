package providertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/axebus/axe/provider"
)

// key sends requests with missing and malformed keys. The provider refuses them
// before it sends anything. White space around a key is harmless.
func (s Subject) key(t *testing.T) {
	env := strings.ToUpper(s.Name) + "_API_KEY"
	missing := fmt.Sprintf("API key for provider %q is not configured (set %s or add to config.toml)", s.Name, env)
	malformed := fmt.Sprintf("API key for provider %q holds control characters (check %s or config.toml)", s.Name, env)
	for _, test := range []struct{ key, want string }{
		{"", missing}, {" \n", missing}, {"sk\nx", malformed}, {"sk\x7f", malformed},
	} {
		if s.KeyOptional && test.want == missing {
			continue
		}
		t.Run(strconv.Quote(test.key), func(t *testing.T) {
			recorder := &Recorder{}
			e := s.sendFails(t, s.New(test.key, "", &http.Client{Transport: recorder}), provider.Auth)
			if e.Message != test.want || recorder.URL != "" {
				t.Errorf("message = %q, want %q; asked %q", e.Message, test.want, recorder.URL)
			}
		})
	}
	open := s.New
	s.New = func(key, base string, hc *http.Client) provider.Provider { return open(" "+key+"\n", base, hc) }
	s.Exchange(t, "defaults")
}

// defaultURL sends a request without a base URL. It goes to the provider's own.
func (s Subject) defaultURL(t *testing.T) {
	recorder := &Recorder{Status: http.StatusOK, Answer: string(s.fixture(t, "defaults").Answer)}
	send(t, s.open("", &http.Client{Transport: recorder}), hello())
	if recorder.URL != s.URL {
		t.Errorf("asked %s, want %s", recorder.URL, s.URL)
	}
}

func (s Subject) unreachable(t *testing.T) {
	refuses := s.open("http://user:hunter2@127.0.0.1:1/base/?token=hunter2", nil)
	e := s.sendFails(t, refuses, provider.Server)
	if !strings.Contains(e.Message, "http://127.0.0.1:1/base/") || strings.Contains(e.Error(), "hunter2") {
		t.Errorf("message = %q", e.Message)
	}
	if e.Err == nil {
		t.Error("no cause")
	}
}

func (s Subject) baseURL(t *testing.T) {
	for _, base := range []string{
		"localhost:11434", "ftp://host", "http://", "://", "host", " http://host", "http://ho st",
		"http://user:hunter2@ho st", "http://user:hunter2@host:port", "http://user:hun%zzter2@host/x@y",
		"hunter2@host", "ftp://host?token=hunter2", "http://user:hunter2/more@host",
	} {
		t.Run(base, func(t *testing.T) {
			e := s.sendFails(t, s.open(base, nil), provider.BadRequest)
			if !strings.Contains(e.Message, "base URL") || strings.Contains(e.Error(), "hunter2") {
				t.Errorf("message = %q", e.Message)
			}
		})
	}
	for _, test := range []struct{ below, prefix string }{
		{"", ""},
		{"/", ""},
		{"/some/path", "/some/path"},
		{"/some/path/", "/some/path"},
		{"/some%20path", "/some path"},
	} {
		t.Run("the server's and "+test.below, func(t *testing.T) {
			inner := s
			inner.basePath = test.prefix
			inner.New = func(key, base string, hc *http.Client) provider.Provider {
				return s.New(key, base+test.below, hc)
			}
			inner.Exchange(t, "defaults")
		})
	}
}

// redirect answers with redirects. A client must not send its key to another
// URL, least of all on another host.
func (s Subject) redirect(t *testing.T) {
	refuse := func(http.ResponseWriter, *http.Request) { t.Error("followed to another host") }
	otherHost := httptest.NewServer(http.HandlerFunc(refuse))
	defer otherHost.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		for where, to := range map[string]string{"another host": otherHost.URL, "the same": "?again"} {
			t.Run(fmt.Sprint(status, " to ", where), func(t *testing.T) {
				p := s.serve(t, func(w http.ResponseWriter, r *http.Request, _ []byte) {
					if r.URL.RawQuery != "" {
						t.Error("followed")
						return // and redirect no further
					}
					w.Header().Set("Location", to)
					w.WriteHeader(status)
				})
				e := s.sendFails(t, p, provider.BadRequest)
				if e.Status != status || !strings.Contains(e.Message, "redirected") {
					t.Errorf("got status %d and message %q", e.Status, e.Message)
				}
			})
		}
	}
}

package providertest

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/provider"
)

// refusal is the message in refusal.json.
const refusal = "the model says no"

// categories maps statuses to categories. 402, 418 and 520 stand for all other
// statuses of failure.
func categories() map[int]provider.Category {
	return map[int]provider.Category{
		400: provider.BadRequest, 401: provider.Auth, 402: provider.BadRequest, 403: provider.Auth,
		404: provider.BadRequest, 408: provider.Timeout, 413: provider.BadRequest, 418: provider.BadRequest,
		422: provider.BadRequest, 429: provider.RateLimit, 500: provider.Server, 502: provider.Server,
		503: provider.Overloaded, 504: provider.Server, 520: provider.Server, 529: provider.Overloaded,
	}
}

func (s Subject) statuses(t *testing.T) {
	body := string(load[json.RawMessage](t, s, "refusal"))
	for status, want := range categories() {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			e := s.sendFails(t, s.serveAnswer(t, status, body), want)
			if e.Status != status || e.Message != refusal {
				t.Errorf("got status %d and message %q, want %d and %q", e.Status, e.Message, status, refusal)
			}
		})
	}
}

// messages tests the text of errors. It is the provider's message if the body
// has one, and never contains the key.
func (s Subject) messages(t *testing.T) {
	page := "<html>\n" + strings.Repeat("é<br>\r\n", 100)
	excerpt := "<html>" + strings.Repeat(" é<br>", 32) + " é…"
	tests := []struct{ name, body, want string }{
		{"nothing", "", "Internal Server Error"},
		{"a page", page, excerpt},
		{"plain", "out of memory\n", "out of memory"},
		{"escapes", "\x1b[31mred\x00\xff", "[31mred \uFFFD"},
		{"an object", `{"error":{"message":"two\nlines"}}`, "two lines"},
		{"a string", `{"error":"plain words"}`, "plain words"},
		{"no message", `{"error":{"code":7}}`, `{"error":{"code":7}}`},
		{"null", `{"error":null}`, `{"error":null}`},
		{"long", `{"error":"` + strings.Repeat("x", 5000) + `"}`, strings.Repeat("x", 1000) + "…"},
	}
	if s.Key != "" {
		tests = append(tests, []struct{ name, body, want string }{
			{"the key", `{"error":"no such key: ` + s.Key + `."}`, "no such key: [key]."},
			{"the key in a page", strings.Repeat("x", 195) + s.Key, strings.Repeat("x", 195) + "[key]"},
		}...)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := s.sendFails(t, s.serveAnswer(t, http.StatusInternalServerError, test.body), provider.Server)
			if e.Message != test.want {
				t.Errorf("message = %q, want %q", e.Message, test.want)
			}
		})
	}
}

func (s Subject) retryAfter(t *testing.T) {
	tests := []struct {
		header   string
		min, max time.Duration
	}{
		{"", 0, 0},
		{"7", 7 * time.Second, 7 * time.Second},
		{"0.25", 250 * time.Millisecond, 250 * time.Millisecond},
		{"soon", 0, 0},
		{"-1", 0, 0},
		{time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), 50 * time.Minute, time.Hour},
		{time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), 0, 0},
	}
	for _, test := range tests {
		t.Run(test.header, func(t *testing.T) {
			p := s.serve(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
				w.Header().Set("Retry-After", test.header)
				w.WriteHeader(http.StatusTooManyRequests)
			})
			e := s.sendFails(t, p, provider.RateLimit)
			if e.RetryAfter < test.min || e.RetryAfter > test.max {
				t.Errorf("retry after %v, want %v to %v", e.RetryAfter, test.min, test.max)
			}
		})
	}
}

// malformed tests invalid answers with a status of success. Each is a failure
// of the server.
func (s Subject) malformed(t *testing.T) {
	bodies := append(load[[]json.RawMessage](t, s, "wrong"), load[json.RawMessage](t, s, "refusal"))
	for _, body := range []string{"", "{", "null", "[]", `"x"`, "{}", "<html>", "{}{}"} {
		bodies = append(bodies, json.RawMessage(body))
	}
	for _, body := range bodies {
		t.Run(string(body), func(t *testing.T) {
			e := s.sendFails(t, s.serveAnswer(t, http.StatusOK, string(body)), provider.Server)
			if e.Status != http.StatusOK || !strings.HasPrefix(e.Message, "malformed answer: ") {
				t.Errorf("got status %d and message %q", e.Status, e.Message)
			}
		})
	}
}

// unencodable tests that a request without a JSON form is not sent.
func (s Subject) unencodable(t *testing.T) {
	p := s.serve(t, func(http.ResponseWriter, *http.Request, []byte) { t.Error("sent") })
	req := hello()
	req.Temperature = new(math.Inf(1))
	resp, err := p.Send(t.Context(), req)
	_ = s.checkError(t, resp, err, provider.BadRequest)
}

// truncated tests that an answer that ends early is an error.
func (s Subject) truncated(t *testing.T) {
	answer := s.fixture(t, "tool_calls").Answer
	half := answer[:len(answer)/2]
	for name, h := range map[string]handler{
		"by the model": func(w http.ResponseWriter, _ *http.Request, _ []byte) { _, _ = w.Write(half) },
		"with a length": func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
			_, _ = w.Write(half)
		},
		"in chunks": func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			// The whole answer, without the end of the last chunk.
			_, _ = w.Write(answer)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"before the header": func(http.ResponseWriter, *http.Request, []byte) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) { _ = s.sendFails(t, s.serve(t, h), provider.Server) })
	}
}

// tooLong tests answers of 100 MiB. The provider stops at 16 MiB, and reads
// nothing of an answer that announces more.
func (s Subject) tooLong(t *testing.T) {
	const mib = 1 << 20
	piece := bytes.Repeat([]byte("x"), mib)
	for _, test := range []struct {
		name   string
		length int
		// read and allocated bound the MiB that are sent and allocated.
		// Those that are sent include what the sockets keep. On Linux
		// that is 4 MiB of the writer. A reader that goes on reading
		// gets up to 32, and one that never does hardly any.
		read, allocated int
	}{
		{"announced", 100 * mib, 12, 4},
		{"in chunks", 0, 16 + 4 + 32, 100},
	} {
		t.Run(test.name, func(t *testing.T) {
			sent := make(chan int, 1)
			p := s.serve(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
				if test.length > 0 {
					w.Header().Set("Content-Length", strconv.Itoa(test.length))
				}
				n := 0
				for n < 100 {
					if _, err := w.Write(piece); err != nil {
						break
					}
					n++
				}
				sent <- n
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			e := s.sendFails(t, p, provider.Server)
			runtime.ReadMemStats(&after)
			if !strings.Contains(e.Message, "longer than 16777216 bytes") {
				t.Errorf("message = %q", e.Message)
			}
			if n := <-sent; n > test.read {
				t.Errorf("%d MiB were sent, want at most %d", n, test.read)
			}
			if n := int(after.TotalAlloc-before.TotalAlloc) / mib; n > test.allocated {
				t.Errorf("%d MiB were allocated, want at most %d", n, test.allocated)
			}
		})
	}
}

// outgrown tests the refusals of a conversation that has outgrown the model's
// window. The error names the tokens.
func (s Subject) outgrown(t *testing.T) {
	for _, test := range load[[]struct {
		Status int             `json:"status"`
		Answer json.RawMessage `json:"answer"`
		// Want is the beginning of the message.
		Want string `json:"want"`
	}](t, s, "window") {
		t.Run(test.Want, func(t *testing.T) {
			e := s.sendFails(t, s.serveAnswer(t, test.Status, string(test.Answer)), provider.ContextWindow)
			const words = "the conversation has outgrown the model's window: it has "
			if !strings.HasPrefix(e.Message, words+test.Want) || e.Status != test.Status {
				t.Errorf("status %d, message %q", e.Status, e.Message)
			}
		})
	}
}

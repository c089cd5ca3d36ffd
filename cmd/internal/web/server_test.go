package web

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/httpguard"
	"github.com/axebus/axe/subjects"
)

// TestForeignRequests: no route answers a request of a page of another site, or
// one to the name of another host. Nothing is stored.
func TestForeignRequests(t *testing.T) {
	h := newHarness(t)
	s, _ := h.serve(httpguard.Tokens{})
	variables := strings.NewReplacer("{agent}", "echo", "{tree}", "t1", "{path}", "r", "{other}", "t2", "{name}", "n",
		"{letter}", "1")
	for _, route := range s.routes() {
		method, path, _ := strings.Cut(variables.Replace(route.pattern), " ")
		for name, change := range map[string]func(*http.Request){
			"another site":   func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
			"cross-site":     func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
			"a rebound name": func(r *http.Request) { r.Host = "evil.example" },
		} {
			r := h.request(method, path, "")
			change(r)
			if p := h.refused(r); p.Status != http.StatusForbidden || p.Code != "forbidden" {
				t.Errorf("%s, %s: problem %+v, want status 403", route.pattern, name, p)
			}
		}
	}
	page, err := h.Trees(t.Context(), client.TreeQuery{All: true})
	if err != nil || len(page.Trees) > 0 {
		t.Errorf("trees %v, %v; want none", page.Trees, err)
	}
}

// tokenFile reads a file of tokens.
func tokenFile(t *testing.T, text string) httpguard.Tokens {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := httpguard.ReadTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// TestRoles: a request without a token is refused with 401, and one whose token
// lacks the role of its route with 403.
func TestRoles(t *testing.T) {
	h := newHarness(t)
	h.serve(tokenFile(t, "read r1\nsubmit s1\noperate o1\n"))
	for _, tt := range []struct {
		method, path string
		// read, submit and operate are the statuses for tokens with that
		// role alone.
		read, submit, operate int
	}{
		{http.MethodGet, "/v1/trees", 200, 403, 200},
		{http.MethodGet, "/v1/trees/none/events", 404, 403, 404},
		{http.MethodPost, "/v1/agents/echo/tasks", 403, 202, 202},
		{http.MethodPost, "/v1/trees/none/cancel", 403, 403, 404},
		{http.MethodPost, "/v1/dead-letters/1/retry", 403, 403, 404},
	} {
		for token, want := range map[string]int{"": 401, "x": 401, "r1": tt.read, "s1": tt.submit, "o1": tt.operate} {
			h.token = token
			body := "{}"
			if strings.Contains(tt.path, "retry") || tt.method == http.MethodGet {
				body = ""
			}
			status, header, text := h.do(h.request(tt.method, tt.path, body))
			if status != want {
				t.Errorf("%s %s with the token %q: status %d, want %d: %s",
					tt.method, tt.path, token, status, want, text)
			}
			if challenge := header.Get("WWW-Authenticate"); (challenge != "") != (want == 401) {
				t.Errorf("%s %s with the token %q: challenge %q", tt.method, tt.path, token, challenge)
			}
		}
	}
}

// TestBadRequests: a request that is malformed or too large is refused with a
// problem that says why.
func TestBadRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	h := newHarness(t)
	h.serve(httpguard.Tokens{})
	form := func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }
	key := func(k string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(headerKey, k) }
	}
	for _, tt := range []struct {
		method, path, body string
		change             func(*http.Request)
		status             int
		detail             string
	}{
		{"GET", "/v1/nothing", "", nil, 404, "see /v1/openapi.json"},
		{"DELETE", "/v1/trees", "", nil, 405, "must be GET"},
		{"GET", "/v1/trees/t/cancel", "", nil, 405, "must be POST"},
		{"GET", "/v1/trees?n=0", "", nil, 400, `n must be 1 to 500, got "0"`},
		{"GET", "/v1/trees?since=-1h", "", nil, 400, "since must not be negative"},
		{"GET", "/v1/trees?since=long", "", nil, 400, "since must be seconds"},
		{"GET", "/v1/trees?all=yes", "", nil, 400, "all must be true or false"},
		{"GET", "/v1/trees?agent=A%20B", "", nil, 400, "agent"},
		{"GET", "/v1/statistics?sort=name", "", nil, 400, "sort must be one of"},
		{"GET", "/v1/dead-letters/x", "", nil, 400, "is a number"},
		{"POST", "/v1/agents/echo/tasks?wait=1h", "x", nil, 400, "wait must be 10m0s at most"},
		{"POST", "/v1/agents/echo/tasks?as=xml", "x", nil, 400, "as must be text"},
		{"POST", "/v1/agents/echo/tasks", "\xff", nil, 400, "must be UTF-8"},
		{"POST", "/v1/agents/No%20Agent/tasks", "x", nil, 400, "agent"},
		{"POST", "/v1/agents/echo/tasks", "x", key(`""`), 400, "Idempotency-Key must be one text"},
		{"POST", "/v1/agents/echo/tasks", `{"task":"x"} {}`, nil, 400, "one JSON object"},
		{"POST", "/v1/agents/echo/tasks", `{"task":"x","limits":{"max_turns":-1}}`, nil, 400, "a limit must be"},
		{"POST", "/v1/agents/echo/tasks", `{"task":"x","timeout":"soon"}`, nil, 400, "timeout must be seconds"},
		{"POST", "/v1/agents/echo/tasks", strings.Repeat("x", bus.DefaultMaxBody+1), nil, 413, "too large"},
		{"POST", "/v1/trees/t/cancel", "reason=x", form, 415, "must be application/json"},
		{"POST", "/v1/trees/t/cancel", `{"path":"x"}`, nil, 400, "path"},
		{"POST", "/v1/trees/t/mail", `{"text":"` + strings.Repeat("x", maxBody) + `"}`, nil, 413, "too large"},
		{"POST", "/v1/trees/t/approve", `{"arguments":{"0":[1]}}`, nil, 400, "must be a JSON object"},
		{"POST", "/v1/trees/t/approve", `{"arguments":{"a":{}}}`, nil, 400, "the body"},
	} {
		r := h.request(tt.method, tt.path, tt.body)
		if tt.change != nil {
			tt.change(r)
		}
		if p := h.refused(r); p.Status != tt.status || !strings.Contains(p.Detail, tt.detail) {
			t.Errorf("%s %s: problem %+v, want status %d and %q", tt.method, tt.path, p, tt.status, tt.detail)
		}
	}
}

// TestSubmitOnce: submissions with one key are one tree. A key that is a valid
// id is the tree's id. Another text under the key is refused.
func TestSubmitOnce(t *testing.T) {
	h := newHarness(t)
	h.serve(httpguard.Tokens{})
	submit := func(key, body, query string) *http.Request {
		r := h.request(http.MethodPost, "/v1/agents/echo/tasks"+query, body)
		r.Header.Set(headerKey, key)
		return r
	}
	var first, second, other taskAnswer
	h.expect(submit("order4711", "hello", "?wait=30s"), http.StatusOK, &first)
	h.expect(submit(`"order4711"`, "hello", "?wait=30s"), http.StatusOK, &second)
	if first.Tree != "order4711" || second.Tree != first.Tree || second.Outcome.Result != "echo: hello" {
		t.Errorf("answers %+v and %+v, want the tree order4711 with the echo", first, second)
	}
	h.expect(submit("order 4711 of ann", "hello", ""), http.StatusAccepted, &other)
	if want := client.TreeID("order 4711 of ann").String(); other.Tree != want {
		t.Errorf("tree %s, want %s, made from the key", other.Tree, want)
	}
	if p := h.refused(submit("order4711", "goodbye", "")); p.Status != 422 || p.Code != "key_reused" {
		t.Errorf("another text: problem %+v, want key_reused with 422", p)
	}
	// Any JSON is a text, if the request says so: a webhook sends its own.
	h.expect(submit("hook1", `{"event": "push"}`, "?as=text&wait=30s"), http.StatusOK, &first)
	if want := `echo: {"event": "push"}`; first.Outcome.Result != want {
		t.Errorf("result %q, want %q", first.Outcome.Result, want)
	}
}

// TestWaitTooShort: a wait that is over answers that the task is stored, and
// the tree goes on.
func TestWaitTooShort(t *testing.T) {
	h := newHarness(t)
	h.serve(httpguard.Tokens{})
	status, header, _ := h.do(h.request(http.MethodPost, "/v1/agents/gate/tasks?wait=50ms", "x"))
	tree := strings.TrimPrefix(header.Get("Location"), "/v1/trees/")
	if status != http.StatusAccepted || tree == "" {
		t.Fatalf("status %d, location %q; want 202 and the tree", status, header.Get("Location"))
	}
	close(h.gate.open)
	if o := h.outcome(tree); o.Result != "opened" {
		t.Errorf("outcome %+v, want the result opened", o)
	}
}

// TestDrain: a server that ends answers the request that waits for an outcome,
// ends the streams, and leaves the tree at work. It says nothing about an end
// of the tree.
func TestDrain(t *testing.T) {
	h := newHarness(t)
	_, stop := h.serve(httpguard.Tokens{})
	waited := make(chan int, 1)
	go func() {
		r := h.request(http.MethodPost, "/v1/agents/gate/tasks?wait=5m", "x")
		r.Header.Set(headerKey, "t1")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			waited <- 0
			return
		}
		_ = res.Body.Close()
		waited <- res.StatusCode
	}()
	next(t, h.gate.asked)
	events, _ := h.watch("")
	next(t, events)
	began := time.Now()
	stop()
	if took := time.Since(began); took > closeTimeout {
		t.Errorf("the end of the server took %s, want less than %s", took, closeTimeout)
	}
	if status, _ := next(t, waited); status != http.StatusAccepted {
		t.Errorf("status %d of the request that waits, want 202", status)
	}
	for e := range events {
		if e.event == "end" {
			t.Error("the stream says that the tree has ended")
		}
	}
	close(h.gate.open)
	if o := h.outcome("t1"); o.Result != "opened" {
		t.Errorf("outcome %+v, want the result opened", o)
	}
}

// TestSharedReads: equal requests that come together are one read. A failed
// read and one before a change are not used again.
func TestSharedReads(t *testing.T) {
	var reads atomic.Int32
	release := make(chan struct{})
	failed := errors.New("failed")
	s := newShared(time.Hour, func(_ context.Context, key int) (int32, error) {
		if key == 0 {
			return 0, failed
		}
		<-release
		return reads.Add(1), nil
	})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if n, err := s.get(t.Context(), 1); n != 1 || err != nil {
				t.Errorf("read %d, %v; want the first read", n, err)
			}
		})
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	close(release)
	all.Wait()
	s.forget()
	if n, err := s.get(gone, 1); n != 2 || err != nil {
		t.Errorf("read %d, %v; want the second, though its client is gone", n, err)
	}
	for range 2 {
		if _, err := s.get(t.Context(), 0); !errors.Is(err, failed) {
			t.Errorf("error %v, want that of the read", err)
		}
	}
	s.age = 0
	if n, _ := s.get(t.Context(), 1); n != 3 {
		t.Errorf("read %d after the age, want the third", n)
	}
}

// TestListsAreThoseOfTheCommands: the list of trees has the filters and the
// pages of axe ps.
func TestListsAreThoseOfTheCommands(t *testing.T) {
	h := newHarness(t)
	h.serve(httpguard.Tokens{})
	for _, id := range []string{"a1", "a2", "a3"} {
		h.submit("echo", "x", id)
		h.outcome(id)
	}
	h.submit("bad", "x", "b1")
	h.outcome("b1")
	h.submit("guarded", "pay", "g1")
	h.held("g1")
	ids := func(query string) (ids []string, next string) {
		var list treeList
		h.get("/v1/trees?"+query, &list)
		for _, l := range list.Trees {
			ids = append(ids, l.Tree+" "+string(l.Status))
		}
		return ids, list.Next
	}
	for query, want := range map[string]string{
		"":                             "g1 held",
		"all=true":                     "g1 held,b1 failed,a3 completed,a2 completed,a1 completed",
		"agent=echo&all=true":          "a3 completed,a2 completed,a1 completed",
		"status=failed,held":           "g1 held,b1 failed",
		"status=failed&status=held":    "g1 held,b1 failed",
		"status=completed&since=1h":    "a3 completed,a2 completed,a1 completed",
		"all=true&before=a3":           "a2 completed,a1 completed",
		"all=true&agent=nobody":        "",
		"all=true&since=0.000001s&n=5": "",
	} {
		if got, _ := ids(query); strings.Join(got, ",") != want {
			t.Errorf("%s: %s, want %s", query, strings.Join(got, ","), want)
		}
	}
	first, after := ids("all=true&n=2")
	rest, _ := ids("all=true&before=" + after)
	got := strings.Join(append(first, rest...), ",")
	if !strings.HasSuffix(got, "b1 failed,a3 completed,a2 completed,a1 completed") {
		t.Errorf("two pages have %s, want all trees once", got)
	}
	// The answer about a run has the lines of the commands.
	var answer runAnswer
	h.get("/v1/trees/g1/runs/r", &answer)
	snapshot, err := h.Snapshot(t.Context(), client.TreeID("g1"))
	if err != nil {
		t.Fatal(err)
	}
	want := cli.RunLines(snapshot, subjects.Root, cli.Display{Now: time.Now()})[0]
	line := answer.Run
	if line.Status != want.Status || line.Task != want.Task || !strings.Contains(line.Why, "who pays?") {
		t.Errorf("run %+v, want %+v", line, want)
	}
	var texts []string
	for _, m := range answer.Messages {
		texts = append(texts, string(m.Role)+" "+m.Text)
	}
	said := strings.Join(texts, ";")
	if !strings.Contains(said, "task pay;") || !strings.Contains(said, "verdict who pays?") {
		t.Errorf("messages %s, want the task and the verdict", said)
	}
}

package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/toolset"
)

// names returns the names of a set's tools, in their order.
func names(t *testing.T, s *Set) []string {
	t.Helper()
	tools, err := s.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := []string{}
	for _, tool := range tools {
		all = append(all, tool.Name)
	}
	return all
}

// TestToolsAsSent: the tools have the order in which the server sent them, and
// their schemas have the bytes that it sent.
func TestToolsAsSent(t *testing.T) {
	rawServers(t, func(t *testing.T, s *Set) {
		t.Helper()
		want := []toolset.Tool{
			{Name: "b", Schema: json.RawMessage(
				`{ "type":"object","properties":{"z":{"type":"number"},"a":{"const":1.50}}}`)},
			{Name: "a", Description: "first <by> name", Schema: json.RawMessage(`{"type":"object"}`)},
		}
		got, err := s.Tools(t.Context())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("error %v, tools (-want +got):\n%s", err, diff)
		}
	})
}

// TestToolsPages: each use requests all pages of a list, also from a server that
// allows clients to keep them.
func TestToolsPages(t *testing.T) {
	for _, ttl := range []int{0, 60_000} {
		server := serverWith(&mcp.ServerOptions{PageSize: 3})
		asked := 0
		server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				res, err := next(ctx, method, req)
				if list, ok := res.(*mcp.ListToolsResult); ok {
					asked++
					list.TTLMs = ttl
				}
				return res, err
			}
		})
		s := open(t, service(t, streamable(server, false)))
		want := []string{"ask", "die", "echo", "env", "fail", "grow", "refuse", "wait"}
		for range 2 {
			if got := names(t, s); !slices.Equal(got, want) {
				t.Errorf("tools %v, want %v", got, want)
			}
		}
		if asked != 6 {
			t.Errorf("time to live %d ms: %d pages were requested, want 6", ttl, asked)
		}
	}
}

// TestToolsForgotten: a connection keeps the pages of one list at most, also if
// the server names other cursors in each list and no list ends.
func TestToolsForgotten(t *testing.T) {
	cursor := 0
	s := open(t, service(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			ID     json.RawMessage
			Method string
			Params struct{ Cursor string }
		}
		_ = json.NewDecoder(r.Body).Decode(&req)
		result := `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`
		if req.Method == "tools/list" {
			if want := strconv.Itoa(cursor); cursor%maxPages != 0 && req.Params.Cursor != want {
				t.Errorf("the cursor is %q, want %s", req.Params.Cursor, want)
			}
			cursor++
			result = fmt.Sprintf(`{"tools":[{"name":"t%d","description":"%s","inputSchema":{"type":"object"}}],`+
				`"nextCursor":"%d"}`, cursor, strings.Repeat("x", 32<<10), cursor)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, req.ID, result)
	})))
	held := func() int {
		if _, err := s.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), "128 pages") {
			t.Fatalf("error %v, want one with the number of pages", err)
		}
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	first := held()
	for range 3 {
		held()
	}
	if more, size := held()-first, maxPages*32<<10; more > size {
		t.Errorf("after four more lists of %d bytes the connection holds %d bytes more", size, more)
	}
}

// list returns the definition of a toolset. Its server answers a request for
// its tools with a JSON text.
func list(t *testing.T, tools string) configs.Toolset {
	t.Helper()
	return service(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		_ = json.NewDecoder(r.Body).Decode(&req)
		result := `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`
		if req.Method == "tools/list" {
			result = tools
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, req.ID, result)
	}))
}

// TestToolsTrusted: the annotations of a trusted server give its tools their
// effects. The annotations of another server are ignored.
func TestToolsTrusted(t *testing.T) {
	def := list(t, `{"tools":[
		{"name":"look","inputSchema":{},"annotations":{"readOnlyHint":true,"idempotentHint":true}},
		{"name":"set","inputSchema":{},"annotations":{"idempotentHint":true,"destructiveHint":true}},
		{"name":"add","inputSchema":{},"annotations":{"destructiveHint":false,"readOnlyHint":false}},
		{"name":"any","inputSchema":{}}]}`)
	for trust, want := range map[bool][]run.ToolEffect{
		false: {"", "", "", ""},
		true:  {run.ToolReads, run.ToolIdempotent, "", ""},
	} {
		def.Trust = trust
		tools, err := open(t, def).Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []run.ToolEffect
		for _, tool := range tools {
			got = append(got, tool.Effect)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("trust %v: effects (-want +got):\n%s", trust, diff)
		}
	}
}

// TestToolsFlawed: a tool is left out if it has no name, no object as its
// schema, or the name of an earlier tool.
func TestToolsFlawed(t *testing.T) {
	def := list(t, `{"tools":[
		{"name":"","inputSchema":{}}, {"name":"none"}, {"name":"null","inputSchema":null},
		{"name":"array","inputSchema":[]}, {"name":"good","inputSchema":{"type":"object"}},
		{"name":"good","inputSchema":{"type":"object","title":"second"}}]}`)
	tools, err := open(t, def).Tools(t.Context())
	want := []toolset.Tool{{Name: "good", Schema: json.RawMessage(`{"type":"object"}`)}}
	if diff := cmp.Diff(want, tools); diff != "" || err != nil {
		t.Errorf("error %v, tools (-want +got):\n%s", err, diff)
	}
}

// TestToolsEndless: a list with too many pages is an error with their number.
func TestToolsEndless(t *testing.T) {
	endless := list(t, `{"tools":[],"nextCursor":"on"}`)
	if _, err := open(t, endless).Tools(t.Context()); err == nil || !strings.Contains(err.Error(), "128 pages") {
		t.Errorf("endless pages: error %v, want one with the number of pages", err)
	}
}

// TestToolsMalformed: a list that cannot be read is an error.
func TestToolsMalformed(t *testing.T) {
	for _, tools := range []string{`{"tools":7}`, `{"tools":[7]}`, `[]`} {
		if got, err := open(t, list(t, tools)).Tools(t.Context()); err == nil {
			t.Errorf("%s: tools %v, want an error", tools, got)
		}
	}
}

// TestToolsChange: a server gets another tool, and says so. Changed has a token
// after that, and the tools include the new one.
func TestToolsChange(t *testing.T) {
	transports(t, func(t *testing.T, def configs.Toolset) {
		t.Helper()
		s := open(t, def)
		before := names(t, s)
		select {
		case <-s.Changed():
			t.Fatal("Changed has a token before the change")
		default:
		}
		callText(t, s, "grow", `{}`)
		select {
		case <-s.Changed():
		case <-t.Context().Done():
			t.Fatal("Changed has no token after the change")
		}
		if after := names(t, s); len(after) != len(before)+1 || !slices.Contains(after, "grown") {
			t.Errorf("tools %v, want one more than %v", after, before)
		}
	})
}

// TestToolsUnseenChange: the server ends the stream of notifications, so that
// the tools may change unseen. Changed has a token after that, and the next use
// makes another connection with a stream. On a young connection the end of the
// stream is ignored.
func TestToolsUnseenChange(t *testing.T) {
	hangUp := make(chan func(), 1)
	inner := streamable(testServer(), false)
	def := service(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "subscriptions/listen" {
			ctx, cancel := context.WithCancel(r.Context())
			hangUp <- cancel
			r = r.WithContext(ctx)
		}
		inner.ServeHTTP(w, r)
	}))
	s := open(t, def)
	names(t, s)
	s.silenced(s.current.server)
	if s.current == nil || len(s.changed) > 0 {
		t.Error("a young connection was given up")
	}
	s.current.began = time.Now().Add(-settled)
	(<-hangUp)()
	<-s.Changed()
	names(t, s)
	if s.connections != 2 || len(hangUp) != 1 {
		t.Errorf("%d connections, %d new streams; want 2 and 1", s.connections, len(hangUp))
	}
}

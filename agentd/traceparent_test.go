package agentd_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/trace"
	"github.com/axebus/axe/subjects"
)

// TestTraceparentGoesOn: the trace of the submitter goes on to the models and
// to the tools of a tree. Each request is in the span of its turn or call. The
// requests of a tree without a trace, or with a malformed one, name none.
func TestTraceparentGoesOn(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("traceparent"))
	}))
	t.Cleanup(s.Close)
	set := configs.Toolset{Name: "shop", Kind: configs.ToolsetHTTP, Digest: "1", Tools: map[string]configs.ToolsetTool{
		"get": {
			ToolConfig: configs.ToolConfig{Effect: configs.ToolReads}, URL: s.URL, Description: "Returns a header.",
		},
	}}
	withHarness(t, func(h *harness) {
		clerk := define("clerk", nil, withTools("", "shop/*"))
		h.models["clerk"] = turns(calls(use("get")), joinsResults)
		h.startWorker("one", workerOptions{
			agents: []configs.Agent{clerk}, toolsets: []configs.Toolset{set},
		})
		h.awaitReady()
		asked := 0
		const valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		long := strings.Repeat("x", 60<<10)
		for _, given := range []string{valid, "", "x", long, strings.Replace(valid, "00", "01", 1) + "-" + long} {
			root := h.root("clerk")
			var header [][2]string
			if given != "" {
				header = append(header, [2]string{"traceparent", given})
			}
			h.submitTo(root, "serve", header...)
			o := h.awaitOutcome(root, time.Minute)
			in := func(id trace.SpanID) string {
				if given != valid {
					return ""
				}
				return trace.Of(root.Tree, given).Header(id)
			}
			if want := "c0=" + in(trace.Tool(subjects.Root.Child(1, 0))); o.Result != want {
				t.Errorf("traceparent %q: the tool got %q, want %q", given, o.Result, want)
			}
			for _, m := range h.readAll(h.conn.Space().TreeOf(root.Tree)) {
				if got := m.Header.Get("traceparent"); got != "" && given != valid {
					t.Errorf("message %s carries a malformed traceparent of %d bytes on", m.Subject, len(got))
				}
			}
			requests := h.requests("clerk")[asked:]
			asked += len(requests)
			for i, r := range requests {
				if want := in(trace.Chat(subjects.Root, i+1)); r.traceparent != want {
					t.Errorf("traceparent %q: turn %d asked with %q, want %q", given, i+1, r.traceparent, want)
				}
			}
		}
	})
}

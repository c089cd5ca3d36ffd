package agentd_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
)

// shop is a toolset of the kind http, made outside of a bubble. Its service
// answers with the method, the path and the body of each request, with the
// status 404 for the order "none".
func shop(t *testing.T) configs.Toolset {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/none") {
			w.WriteHeader(http.StatusNotFound)
		}
		body := make([]byte, r.ContentLength)
		_, _ = r.Body.Read(body)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.EscapedPath(), body)
	}))
	t.Cleanup(s.Close)
	return configs.Toolset{Name: "shop", Kind: configs.ToolsetHTTP, Digest: "1", Tools: map[string]configs.ToolsetTool{
		"get": {
			ToolConfig: configs.ToolConfig{Effect: configs.ToolReads}, URL: s.URL + "/orders/{order}",
			Description: "Returns an order.",
		},
		"refund": {
			Method: "POST", URL: s.URL + "/orders/{order}/refund", Description: "Refunds an order.",
			Parameters: []byte(`{"type":"object","properties":{"order":{"type":"string"},"cents":{"type":"integer"}},` +
				`"required":["order","cents"]}`),
		},
	}}
}

// TestToolset lets an agent use the tools of a toolset that another worker
// serves. Its model reads the schemas of the tools. Arguments that do not fit
// them never reach the service.
func TestToolset(t *testing.T) {
	t.Parallel()
	set := shop(t)
	withHarness(t, func(h *harness) {
		set.Prefix = "shop_"
		clerk := define("clerk", nil, withTools("", "shop/*"))
		h.models["clerk"] = turns(
			calls(
				use("shop_get", "order", "a/../b"),
				use("shop_get", "order", "none"),
				use("shop_refund", "order", "7"),
				use("refund", "order", "7"),
			),
			joinsResults,
		)
		h.startWorker("set", workerOptions{agents: []configs.Agent{}, toolsets: []configs.Toolset{set}})
		h.startWorker("clerk", workerOptions{agents: []configs.Agent{clerk}, toolsets: []configs.Toolset{}})
		h.awaitReady()
		root := h.submit("clerk", "serve")
		o := h.awaitOutcome(root, time.Hour)
		want := `c0=GET /orders/a%2F..%2Fb |c1=HTTP 404: GET /orders/none |` +
			`c2=the arguments do not fit the tool's schema: required: missing properties: ["cents"]|` +
			`c3=Unknown tool: "refund"`
		if o.Result != want {
			t.Errorf("result %q, want %q", o.Result, want)
		}
		offered := h.requests("clerk")[0].Tools
		if len(offered) != 2 || offered[1].Name != "shop_refund" || offered[1].Description != "Refunds an order." ||
			!strings.Contains(string(offered[1].Schema), `"required":["order","cents"]`) {
			t.Errorf("the model was offered %+v, want two tools, shop_refund with its schema as the second", offered)
		}
		h.checkVerified()
	})
}

// TestToolsetNeedsNoRead: an agent with 100 tools of a toolset takes no read
// more than one without tools: one for each submission.
func TestToolsetNeedsNoRead(t *testing.T) {
	t.Parallel()
	withPartitions(t, 1, func(h *harness) {
		tools := map[string]configs.ToolsetTool{}
		for i := range 100 {
			tools[fmt.Sprintf("tool%d", i)] = configs.ToolsetTool{URL: "http://127.0.0.1:1/"}
		}
		h.toolsets = []configs.Toolset{{Name: "set", Kind: configs.ToolsetHTTP, Tools: tools}}
		h.agents = []configs.Agent{define("clerk", nil, withTools("", "set/*"))}
		w := h.startWorker("w", workerOptions{})
		h.awaitReady()
		h.expectCompleted(h.submit("clerk", "first"), "clerk")
		began := time.Now()
		before := w.conn.Stats().Reads
		const n = 20
		for range n {
			h.expectCompleted(h.submit("clerk", "go"), "clerk")
		}
		if reads := w.conn.Stats().Reads - before; reads < n || reads > n+presenceReads(began) {
			t.Errorf("%d reads for %d submissions, want one for each", reads, n)
		}
		if offered := h.requests("clerk")[0].Tools; len(offered) != 100 {
			t.Errorf("%d tools were offered, want 100", len(offered))
		}
	})
}

// TestToolsetLost: a request that was sent, and of which no answer came, may
// have taken effect. The outcome is unknown, unless the tool may be called
// again.
func TestToolsetLost(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
	}))
	t.Cleanup(s.Close)
	for effect, kind := range map[configs.ToolEffect]run.Kind{
		configs.ToolOnce: run.KindUnknown, configs.ToolIdempotent: run.KindError,
	} {
		t.Run(string(effect), func(t *testing.T) {
			t.Parallel()
			withHarness(t, func(h *harness) {
				h.serveSet(configs.Toolset{Kind: configs.ToolsetHTTP}, configs.ToolsetTool{
					ToolConfig: configs.ToolConfig{Effect: effect}, URL: s.URL, Method: "POST",
				})
				h.startWorker("w", workerOptions{})
				h.awaitReady()
				root := h.submit("ops", "do it")
				h.awaitOutcome(root, time.Hour)
				if outcomes := h.outcomes(root.Reply(1, 0)); len(outcomes) != 1 || outcomes[0].Kind != kind {
					t.Errorf("the outcomes of the tool are %+v, want one of the kind %s", outcomes, kind)
				}
				h.checkVerified()
			})
		})
	}
}

// TestToolsetMissing: a run goes on without the tools of a toolset that no
// worker serves, and its model is told so. A run does not start without a
// toolset that is required, with a tool of an agent, or with two tools of one
// name.
func TestToolsetMissing(t *testing.T) {
	t.Parallel()
	set := shop(t)
	withHarness(t, func(h *harness) {
		down := configs.Toolset{Name: "down", Kind: configs.ToolsetNATS, Service: "none", Required: true}
		other := set
		other.Name = "other"
		h.toolsets = []configs.Toolset{set, down, other}
		h.agents = []configs.Agent{
			define("a", nil, withTools("", "far/*", "shop/get", "shop/none")),
			define("b", nil, withTools("", "down/*")), define("c", nil, withTools("", "a/get")),
			define("d", nil, withTools("", "shop/get", "other/get")),
		}
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		time.Sleep(time.Minute)
		h.expectCompleted(h.submit("a", "do it"), "a")
		asked := h.requests("a")[0]
		const missing = "- far/*: no worker serves the toolset\n- shop/none: the toolset has no such tool"
		if !strings.HasSuffix(asked.System, missing) || len(asked.Tools) != 1 {
			t.Errorf("the system text is %q, with %d tools, want %q at its end, and 1 tool",
				asked.System, len(asked.Tools), missing)
		}
		h.expectFailed(h.submit("b", "do it"), run.KindError,
			"the toolset down is required: no instance of the service none is there")
		h.expectFailed(h.submit("c", "do it"), run.KindError, `tools: "a/get": a is an agent, and no toolset`)
		h.expectFailed(h.submit("d", "do it"), run.KindError,
			"the tools shop/get and other/get have one name for the model (get): set a prefix in the toolset's file")
	})
}

// TestToolsetBounds: a toolset with too many tools, or with too large ones, is
// not offered, and says why. Tools that the file does not allow do not count.
func TestToolsetBounds(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		many := map[string]configs.ToolsetTool{}
		for i := range configs.MaxToolsetTools + 1 {
			many[fmt.Sprintf("tool%d", i)] = configs.ToolsetTool{URL: "http://127.0.0.1:1/"}
		}
		wide := configs.Toolset{Name: "wide", Kind: configs.ToolsetHTTP, Tools: many, Required: true}
		some := wide
		some.Name, some.Allow = "some", []string{"tool1*"}
		large := wide
		large.Name = "large"
		large.Tools = map[string]configs.ToolsetTool{"long": {
			URL: "http://127.0.0.1:1/", Description: strings.Repeat("x", 800_000),
		}}
		h.toolsets = []configs.Toolset{wide, some, large}
		h.agents = []configs.Agent{
			define("a", nil, withTools("", "wide/*")), define("b", nil, withTools("", "some/*")),
			define("c", nil, withTools("", "large/*")),
		}
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		h.expectFailed(h.submit("a", "do it"), run.KindError, "the toolset wide is required: "+
			"the toolset has 129 tools, at most 128 are offered: name some of them in allow")
		h.expectCompleted(h.submit("b", "do it"), "b")
		if offered := h.requests("b")[0].Tools; len(offered) != 40 {
			t.Errorf("%d tools were offered, want 40", len(offered))
		}
		h.expectFailed(h.submit("c", "do it"), run.KindError, "the toolset large is required: "+
			"the definitions of the toolset's tools have 800077 bytes, at most 786432: name some of them in allow")
	})
}

// TestOwnServer: the tools of an agent's own MCP server are offered to it
// alone, and its own workers carry them out.
func TestOwnServer(t *testing.T) {
	t.Parallel()
	url, effects := effectsServer(t)
	inRealTime(t, func(h *harness) {
		server := configs.Toolset{Name: "own", Kind: configs.ToolsetMCP, URL: url}
		h.agents = []configs.Agent{
			define("owner", nil, func(a *configs.Agent) { a.Servers = []configs.Toolset{server} }),
			define("other", nil, withTools("", "own/*")),
		}
		h.models["owner"] = turns(calls(use("act")), joinsResults)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		root := h.submit("owner", "do it")
		h.expectCompleted(root, "c0=done")
		if keys := effects(); len(keys) != 1 || keys[0] != root.Tree.String()+".r-1-0" {
			t.Errorf("effects with the keys %q, want one with the call's", keys)
		}
		h.expectCompleted(h.submit("other", "do it"), "other")
		asked := h.requests("other")[0]
		if len(asked.Tools) != 0 || !strings.Contains(asked.System, "- own/*: no worker serves the toolset") {
			t.Errorf("another agent was offered %+v with the text %q, want no tool, and that the toolset is missing",
				asked.Tools, asked.System)
		}
		h.checkVerified()
	})
}

// TestToolsetIsNoAgent: a toolset cannot be called as an agent, neither by a
// submission nor by a model.
func TestToolsetIsNoAgent(t *testing.T) {
	t.Parallel()
	set := shop(t)
	withHarness(t, func(h *harness) {
		h.toolsets = []configs.Toolset{set}
		h.agents = []configs.Agent{define("lead", []string{"shop"})}
		h.models["lead"] = turns(calls(call("shop", "sell")), joinsResults)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		const refused = `failed to load agent "shop": it is a toolset, and no agent`
		h.expectFailed(h.submit("shop", "sell"), run.KindError, refused)
		o := h.awaitOutcome(h.submit("lead", "sell"), time.Hour)
		if !strings.Contains(o.Result, agentd.NotAnAgent) {
			t.Errorf("got %q, want that a toolset is no agent", o.Result)
		}
	})
}

// TestToolsetPolicy: a policy names tools of toolsets by "set/tool", with a *
// at the end. A person approves of those that a glob names.
func TestToolsetPolicy(t *testing.T) {
	t.Parallel()
	set := shop(t)
	withHarness(t, func(h *harness) {
		h.toolsets = []configs.Toolset{set}
		within := func(tools ...string) func(*configs.Agent) {
			return func(a *configs.Agent) { a.Policy.Tools = tools }
		}
		h.agents = []configs.Agent{
			define("boss", []string{"clerk"}, within("call_agent", "shop/re*")),
			define("clerk", nil, withTools("", "shop/*"), within("shop/*", "read_file"), func(a *configs.Agent) {
				a.Approve = []string{"shop/r*"}
			}),
		}
		h.models["boss"] = turns(calls(call("clerk", "refund")), joinsResults)
		h.models["clerk"] = turns(
			calls(use("get", "order", "7")),
			calls(useJSON("refund", `{"order":"7","cents":100}`)),
			joinsResults,
		)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		root := h.submit("boss", "refund")
		h.awaitRequests("clerk", 2)
		time.Sleep(time.Minute)
		clerk := h.child(root, "clerk", 0)
		if got := h.requests("clerk")[1].results()[0].Content; got != "get error: not permitted by policy" {
			t.Errorf("get returned %q, want a refusal", got)
		}
		if offered := h.requests("clerk")[0].Tools; len(offered) != 1 || offered[0].Name != "refund" {
			t.Errorf("offered are %+v, want refund alone", offered)
		}
		if n := len(h.requests("clerk")); n != 2 {
			t.Fatalf("clerk's model was asked %d times before a person approved, want 2", n)
		}
		h.publish(clerk.Approve(h.key("ann")), `{"approve":true}`)
		o := h.awaitOutcome(root, time.Hour)
		if !strings.HasPrefix(o.Result, `c0=c0=POST /orders/7/refund {"cents":100}`) {
			t.Errorf("got %q, want the answer of the refund", o.Result)
		}
		h.checkVerified()
	})
}

// TestToolsetReplaced: the tools of a changed file are offered to the runs that
// begin, and those of a removed file are not.
func TestToolsetReplaced(t *testing.T) {
	t.Parallel()
	set := shop(t)
	withHarness(t, func(h *harness) {
		h.toolsets = []configs.Toolset{set}
		h.agents = []configs.Agent{define("clerk", nil, withTools("", "shop/*"))}
		w := h.startWorker("w", workerOptions{})
		h.awaitReady()
		offered := func() string {
			before := len(h.requests("clerk"))
			h.expectCompleted(h.submit("clerk", "hello"), "clerk")
			var names []string
			for _, tool := range h.requests("clerk")[before].Tools {
				names = append(names, tool.Name)
			}
			return strings.Join(names, " ")
		}
		if got := offered(); got != "get refund" {
			t.Errorf("offered are %q, want get and refund", got)
		}
		set.Digest = "2"
		set.Allow = []string{"g*"}
		for _, step := range []struct {
			sets []configs.Toolset
			want string
		}{{[]configs.Toolset{set}, "get"}, {nil, ""}} {
			if err := w.Serve(configs.Definitions{Agents: h.agents, Toolsets: step.sets}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			if got := offered(); got != step.want {
				t.Errorf("offered are %q, want %q", got, step.want)
			}
		}
	})
}

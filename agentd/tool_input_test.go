package agentd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/mcpclient"
	"github.com/axebus/axe/subjects"
)

// askingServer is an MCP server with the tool act. A call of act asks for a
// city, and a call with the answer acts. Each request is served by a new
// mcp.Server, which knows only what the request says.
type askingServer struct {
	url string
	// asked counts the questions.
	asked atomic.Int32
	// acted has the key and the city of each call that acted.
	acted keyList
}

func newAskingServer(t *testing.T) *askingServer {
	t.Helper()
	a := &askingServer{}
	serve := func(*http.Request) *mcp.Server {
		server := mcp.NewServer(&mcp.Implementation{Name: "asker"}, nil)
		mcp.AddTool(server, &mcp.Tool{Name: "act"}, a.act)
		return server
	}
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(serve, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(s.Close)
	a.url = s.URL
	return a
}

func (a *askingServer) act(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
	if r.Params.RequestState == "" {
		a.asked.Add(1)
		return &mcp.CallToolResult{
			RequestState: "the state", InputRequests: mcp.InputRequestMap{"where": &mcp.ElicitParams{
				Message: "Which city?", RequestedSchema: json.RawMessage(
					`{"type":"object","required":["city"],"properties":{"city":{"type":"string"}}}`),
			}},
		}, nil, nil
	}
	answer, ok := r.Params.InputResponses["where"].(*mcp.ElicitResult)
	if !ok || r.Params.RequestState != "the state" {
		return nil, nil, fmt.Errorf("the answer is missing in %+v", r.Params)
	}
	if answer.Action != "accept" {
		return nil, nil, errors.New("the person has " + answer.Action + "d")
	}
	key, _ := r.Params.Meta[mcpclient.KeyMeta].(string)
	a.acted.add(fmt.Sprint(key, " ", answer.Content["city"]))
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
}

// serveAsking serves the toolset of the server, and an agent that calls its
// tool once.
func (h *harness) serveAsking(a *askingServer, effect configs.ToolEffect) {
	h.serveSet(configs.Toolset{Kind: configs.ToolsetMCP, URL: a.url},
		configs.ToolsetTool{ToolConfig: configs.ToolConfig{Effect: effect}})
}

// answerForm answers the only form of a tree. It returns the tool run.
func (h *harness) answerForm(tree subjects.Tree, city string) subjects.Run {
	h.awaitHeld(tree, 1)
	c := client.New(h.conn)
	held, err := c.HeldForm(h.ctx, tree, subjects.Root)
	if err != nil {
		h.tb.Fatal(err)
	}
	answer := json.RawMessage(fmt.Sprintf(`{"city":%q}`, city))
	err = c.Settle(h.ctx, tree, held.Run.Path, run.Settlement{
		Attempt: held.Form.ID, As: run.SettleAnswer, Answers: map[string]json.RawMessage{"where": answer}, By: "ann",
	})
	if err != nil {
		h.tb.Fatal(err)
	}
	return held.Run
}

// TestToolAsks: a call of a tool that asks for input is held with the form. Its
// worker dies. Another worker calls the tool again with the answer, the state
// of the form and the same key. An answer to another form, a malformed one, a
// settlement of another kind and a second answer do nothing.
func TestToolAsks(t *testing.T) {
	t.Parallel()
	for _, effect := range []configs.ToolEffect{configs.ToolReads, configs.ToolOnce} {
		t.Run(string(effect), func(t *testing.T) {
			t.Parallel()
			a := newAskingServer(t)
			inRealTime(t, func(h *harness) {
				h.serveAsking(a, effect)
				first := h.startWorker("first", workerOptions{})
				h.awaitReady()
				root := h.submit("ops", "do it")
				held := h.awaitHeld(root.Tree, 1)[0]
				if held.Tool != "act" || held.Worker != "" || held.Reason != "the tool asks: Which city?" ||
					held.Form.State != "the state" || held.Form.Questions[0].Key != "where" ||
					!strings.Contains(string(held.Form.Questions[0].Schema), `"city"`) {
					t.Errorf("the held call is %+v, want that of the tool's question", held)
				}
				first.kill()
				<-first.ended
				h.settle(held.Run, "another", `{"as":"answer","attempt":"x","answers":{"where":{"city":"Rome"}}}`)
				h.settle(held.Run, "malformed", `{"as":"perhaps"}`)
				h.settle(held.Run, "done", `{"as":"done","text":"paid"}`)
				h.settle(held.Run, "again", `{"as":"again"}`)
				c := client.New(h.conn)
				err := c.Settle(h.ctx, root.Tree, root.Path, run.Settlement{As: run.SettleDone})
				if !errors.Is(err, client.ErrSettledOtherwise) {
					t.Errorf("a settlement of a form without an answer: %v, want %v", err, client.ErrSettledOtherwise)
				}
				tool := h.answerForm(root.Tree, "Bern")
				h.settle(tool, "second", `{"as":"answer","answers":{"where":{"city":"Oslo"}}}`)
				h.startWorker("second", workerOptions{})
				h.expectCompleted(root, "c0=done")
				if got, want := fmt.Sprint(a.acted.all()), "["+root.Tree.String()+".r-1-0 Bern]"; got != want {
					t.Errorf("acted with the keys and cities %s, want %s", got, want)
				}
				if n := a.asked.Load(); n != 1 {
					t.Errorf("asked %d times, want once", n)
				}
				h.awaitHeld(root.Tree, 0)
				h.expectNoOwnTimer(tool)
				h.checkVerified()
			})
		})
	}
}

// TestToolAsksDeclined: the tool is told that a person declines to answer, and
// its result reaches the model.
func TestToolAsksDeclined(t *testing.T) {
	t.Parallel()
	a := newAskingServer(t)
	inRealTime(t, func(h *harness) {
		h.serveAsking(a, configs.ToolOnce)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		root := h.submit("ops", "do it")
		h.awaitHeld(root.Tree, 1)
		declined := run.Settlement{As: run.SettleDecline}
		if err := client.New(h.conn).Settle(h.ctx, root.Tree, root.Path, declined); err != nil {
			t.Fatal(err)
		}
		o := h.awaitOutcome(root, time.Minute)
		if !strings.Contains(o.Result, "the person has declined") {
			t.Errorf("outcome %q %q, want that the person has declined", o.Result, o.Error)
		}
		h.checkVerified()
	})
}

// TestToolAsksInVain: a question ends with a cancel message, and at the
// deadline of the run. Where no person can answer, or where no answer of an
// approver would count, the model reads the question.
func TestToolAsksInVain(t *testing.T) {
	t.Parallel()
	a := newAskingServer(t)
	inRealTime(t, func(h *harness) {
		h.serveAsking(a, configs.ToolReads)
		w := h.startWorker("w", workerOptions{})
		h.awaitReady()
		root := h.submit("ops", "do it")
		tool := h.awaitHeld(root.Tree, 1)[0].Run
		h.publish(root.Cancel(), "")
		h.expectFailed(root, run.KindCancelled, "cancelled")
		h.settle(tool, "late", `{"as":"answer","answers":{"where":{"city":"Rome"}}}`)

		late := h.root("ops")
		h.submitTo(late, "do it", [2]string{subjects.HeaderTimeout, "4"})
		h.awaitHeld(late.Tree, 1)
		h.awaitOutcome(late, time.Minute)
		if outcomes := h.outcomes(late.Reply(1, 0)); len(outcomes) != 1 || outcomes[0].Kind != run.KindTimeout ||
			!strings.Contains(outcomes[0].Error, "no person has answered: the tool asks: Which city?") {
			t.Errorf("the tool run ended with %+v, want a timeout that names the question", outcomes)
		}
		w.stop()
		<-w.ended

		h.agents[0].Approvers = subjects.Approvers{"user:alice"}
		for name, config := range map[string]agentd.Config{
			"unattended": {Unattended: true}, "unproven": {Unproven: true},
		} {
			w := h.startWorker(name, workerOptions{Config: config})
			alone := h.awaitOutcome(h.submit("ops", "do it"), time.Minute)
			if want := "the tool asks: Which city?: nobody can answer it here"; !strings.Contains(alone.Result, want) {
				t.Errorf("%s: the model read %q, want %q", name, alone.Result, want)
			}
			w.drain()
		}
		if acted := a.acted.all(); len(acted) != 0 {
			t.Errorf("the tool has acted: %q, want that it has not", acted)
		}
		h.checkVerified()
	})
}

// TestToolAsksCrashTable kills the worker of a tool that asks, at a moment of
// the call. No person is asked again after the answer. An effect that may
// happen once happens once at most. Its outcome is unknown if the worker died
// between the entry of an attempt and the next write.
func TestToolAsksCrashTable(t *testing.T) {
	t.Parallel()
	thorough(t)
	const log, reply = ".r-1-0.log", ".r.in.1.0"
	for _, test := range []struct {
		effect configs.ToolEffect
		// The worker dies at the nth write to the subject, before or
		// after it.
		suffix string
		nth    int
		after  bool
		// asked and acted count the calls of the tool.
		asked, acted int
		// kind is the kind of the outcome, "" if it is completed.
		kind run.Kind
	}{
		{configs.ToolReads, log, 1, false, 2, 1, ""},   // asked, and not held
		{configs.ToolReads, log, 1, true, 1, 1, ""},    // held
		{configs.ToolReads, reply, 1, false, 1, 2, ""}, // answered, and acted
		{configs.ToolReads, reply, 1, true, 1, 1, ""},
		{configs.ToolOnce, log, 2, false, 1, 0, run.KindUnknown}, // asked, and not held
		{configs.ToolOnce, log, 2, true, 1, 1, ""},               // held
		{configs.ToolOnce, log, 3, true, 1, 0, run.KindUnknown},  // begun with the answer
		{configs.ToolOnce, reply, 1, false, 1, 1, run.KindUnknown},
		{configs.ToolOnce, reply, 1, true, 1, 1, ""},
	} {
		diesAnswered := test.suffix == reply || test.nth == 3
		name := fmt.Sprintf("%s %s %d %t", test.effect, test.suffix, test.nth, test.after)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAskingServer(t)
			inRealTime(t, func(h *harness) {
				h.serveAsking(a, test.effect)
				writes := 0
				victim := h.startWorker("victim", workerOptions{atStep: func(s step) error {
					if s.Op != "write" || !strings.HasSuffix(s.Subject, test.suffix) || s.After != test.after {
						return nil
					}
					if writes++; writes == test.nth {
						s.worker.kill()
					}
					return nil
				}})
				h.awaitReady()
				root := h.submit("ops", "do it")
				if diesAnswered {
					h.answerForm(root.Tree, "Bern")
				}
				<-victim.ended
				h.startWorker("successor", workerOptions{})
				if !diesAnswered && test.kind == "" {
					h.answerForm(root.Tree, "Bern")
				}
				h.expectToolOutcome(root, time.Minute, test.kind)
				if asked, acted := int(a.asked.Load()), len(a.acted.all()); asked != test.asked || acted != test.acted {
					t.Errorf("asked %d times and acted %d times, want %d and %d", asked, acted, test.asked, test.acted)
				}
				h.checkVerified()
			})
		})
	}
}

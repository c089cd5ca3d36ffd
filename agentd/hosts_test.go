package agentd_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// withHosts gives an agent the tool url_fetch, and the hosts as its list.
func withHosts(hosts ...string) func(*configs.Agent) {
	return func(a *configs.Agent) {
		a.Tools = []string{"url_fetch"}
		a.AllowedHosts = hosts
	}
}

// The results of fetchesTwo, by the hosts that the run may ask.
const (
	// The list has no host that fetchesTwo asks.
	fetchedNone = `host "127.0.0.1" is not in allowed_hosts|host "other.test" is not in allowed_hosts`
	// The list has the first host. The fetch from it fails later, because
	// its address is private.
	fetchedFirst = `address 127.0.0.1 is a private/reserved IP|host "other.test" is not in allowed_hosts`
)

// fetchesTwo calls url_fetch for two hosts.
func fetchesTwo() scriptedModel {
	return calls(use("url_fetch", "url", "http://127.0.0.1:1/"), use("url_fetch", "url", "http://other.test/"))
}

// fetched returns the results of fetchesTwo, by the first user text of the run.
func (h *harness) fetched() map[string]string {
	all := map[string]string{}
	for _, r := range h.requests("") {
		results := r.results()
		if len(results) != 2 || !strings.Contains(results[0].Content, "127.0.0.1") {
			continue
		}
		all[r.text()] = lastPart(results[0]) + "|" + lastPart(results[1])
	}
	return all
}

// lastPart returns the text after the last colon: the innermost cause of an
// error.
func lastPart(r provider.ToolResult) string {
	parts := strings.Split(r.Content, ": ")
	return parts[len(parts)-1]
}

// TestAllowedHostsAreInherited: a run whose agent names no hosts may ask those
// of the nearest run above it that has a list. That holds below an agent
// without the tool, and for an ad hoc run. An agent with a list of its own uses
// that list.
func TestAllowedHostsAreInherited(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("top", []string{"mid", "own", "maker"}, withHosts("docs.test")),
			define("mid", []string{"plain"}),
			define("plain", nil, withHosts()),
			define("own", nil, withHosts("127.0.0.1")),
			define("maker", []string{"plain"}, withHosts(), spawning),
		}
		h.models["top"] = turns(fetchesTwo(),
			calls(call("mid", "go"), call("own", "by own"), call("maker", "make")), says("done"))
		h.models["mid"] = turns(calls(call("plain", "by plain")), says("done"))
		h.models["plain"] = turns(fetchesTwo(), says("done"))
		h.models["own"] = turns(fetchesTwo(), says("done"))
		h.models["maker"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if req.text() == "by the ad hoc run" {
				return turns(fetchesTwo(), submits("done"))(ctx, req)
			}
			return turns(calls(use("spawn_agent", "task", "by the ad hoc run")), says("done"))(ctx, req)
		}
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		h.expectCompleted(h.submit("top", "by top"), "done")
		want := map[string]string{
			"by top":            fetchedNone,
			"Task: by plain":    fetchedNone,
			"Task: by own":      fetchedFirst,
			"by the ad hoc run": fetchedNone,
		}
		if diff := cmp.Diff(want, h.fetched()); diff != "" {
			t.Errorf("the results of the fetches differ (-want +got):\n%s", diff)
		}
		h.checkVerified()
	})
}

// TestAllowedHostsOfCopies: a fork may ask the hosts that its parent may ask,
// and a copy of a run those that the run might ask. One of the copied runs has
// a log, and the other one has none.
func TestAllowedHostsOfCopies(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("top", []string{"mid", "leaf"}, withHosts("docs.test")),
			define("mid", nil, withHosts(), mailing),
			define("leaf", nil, withHosts()),
		}
		h.models["top"] = turns(calls(call("mid", "fork"), call("leaf", "answer")), says("done"))
		h.models["leaf"] = says("answered")
		h.models["mid"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if req.text() == "by the fork" {
				return turns(fetchesTwo(), says("done"))(ctx, req)
			}
			return turns(
				calls(use("fork", "prompt", "by the fork")), calls(use("wait")), says("done"),
			)(ctx, req)
		}
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		root := h.submit("top", "go")
		h.expectCompleted(root, "done")
		for index, agent := range []string{"mid", "leaf"} {
			h.setModel(agent, func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
				if last := req.Messages[len(req.Messages)-1]; last.Content == "by a copy" {
					return fetchesTwo()(ctx, req)
				}
				return says("copied")(ctx, req)
			})
			h.expectCompleted(h.fork(h.child(root, agent, index), "by a copy"), "copied")
		}
		want := map[string]string{
			"by the fork": fetchedNone,
			"Task: fork":  fetchedNone, // the copy of mid
			"answer":      fetchedNone, // the copy of leaf
		}
		if diff := cmp.Diff(want, h.fetched()); diff != "" {
			t.Errorf("the results of the fetches differ (-want +got):\n%s", diff)
		}
		h.checkVerified()
	})
}

// TestAllowedHostsOfAnOldCall: a call of url_fetch has no list of hosts, as
// from a worker of an earlier version. The list in the agent's file bounds it.
func TestAllowedHostsOfAnOldCall(t *testing.T) {
	t.Parallel()
	in := run.ToolInput{Name: "url_fetch", Arguments: []byte(`{"url":"http://other.test/"}`)}
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("own", nil, withHosts("docs.test"))}
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		root := h.root("own")
		tool := h.child(root, "own", 0)
		head := subjects.Header{
			Tree: tool.Tree, Path: tool.Path, Parent: root.Agent, Depth: 1,
			Deadline: time.Now().Add(time.Hour), Reply: root.Reply(1, 0),
		}
		body, err := json.Marshal(run.Input{Tool: &in})
		if err != nil {
			t.Fatal(err)
		}
		h.write(bus.Message{Subject: tool.ToolCall(), Header: head.Pairs(), Body: body})
		time.Sleep(time.Minute)
		outcomes := h.outcomes(root.Reply(1, 0))
		if want := `host "other.test" is not in allowed_hosts`; len(outcomes) != 1 || outcomes[0].Error != want {
			t.Errorf("got %+v, want one outcome with %q", outcomes, want)
		}
	})
}

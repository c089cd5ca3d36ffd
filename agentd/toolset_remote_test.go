package agentd_test

import (
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/testbus"
)

// TestRemoteCallMadeAgain kills the worker of a call of a remote agent before
// the id of the remote tree is on the log. The next worker calls again, and
// goes on with the same tree.
func TestRemoteCallMadeAgain(t *testing.T) {
	t.Parallel()
	url := testbus.Listen(t)
	submitted := submissions(t, url)
	far := newHarness(t.Context(), t, testbus.Dial(t, url))
	far.agents = []configs.Agent{define("far", nil)}
	inRealTime(t, func(h *harness) {
		h.serveSet(configs.Toolset{Kind: configs.ToolsetRemote, Server: url}, configs.ToolsetTool{Agent: "far"})
		h.models["ops"] = turns(calls(use("act", "task", "the task")), joinsResults)
		root := h.killToolAt(toolDeath{"before the task is on the log", "write", ".r-1-0.log", false})
		if n := len(h.entries(h.child(root, "set", 0))); n != 0 {
			t.Errorf("the log of the call has %d entries, want the worker killed before the first one", n)
		}
		defer far.stopWorkers()
		far.startWorker("far", workerOptions{conn: testbus.Dial(t, url)})
		h.expectToolOutcome(root, time.Minute, "")
		if trees := submitted(); len(trees) != 1 {
			t.Errorf("two workers submitted the trees %v, want one tree", trees)
		}
		h.checkVerified()
	})
}

// submissions watches the submissions to the server at a URL. It returns a
// function that returns the number of messages on each of their subjects so
// far.
func submissions(t *testing.T, url string) func() map[string]int {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	var mu sync.Mutex
	seen := map[string]int{}
	if _, err := nc.Subscribe("axe.submit.>", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		seen[m.Subject]++
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return func() map[string]int {
		// Every submission before the flush has reached the client.
		if err := nc.Flush(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(seen)
	}
}

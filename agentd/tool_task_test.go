package agentd_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/mcpclient"
	"github.com/axebus/axe/subjects"
)

// tasker is an MCP server with the tool act, which goes on with each call as a
// task. It keeps no connection open, so that it may be outside of a bubble.
type tasker struct {
	url string

	mu sync.Mutex
	// times are the times of a task in JSON.
	times string
	// poll returns the part of the n-th answer about a task, from 1, that
	// depends on its status. Without it the task is done at the third poll.
	poll func(n int) string
	// made has the keys of the calls, and polled the number of polls of each
	// task. Its id is its number, from 1.
	made   []string
	polled map[string]int
	// updates and cancelled have the answers to tasks and the ids of
	// cancelled ones.
	updates   []string
	cancelled []string
	// down lets the server break off every request.
	down bool
}

const (
	working = `"status":"working"`
	doneNow = `"status":"completed","result":{"content":[{"type":"text","text":"done"}]}`
	asksFor = `"status":"input_required","inputRequests":{"where":{"method":"elicitation/create","params":{` +
		`"message":"Which city?","requestedSchema":{"type":"object","properties":{"city":{"type":"string"}}}}}}`
)

func newTasker(t *testing.T) *tasker {
	t.Helper()
	k := &tasker{polled: map[string]int{}, times: `"pollIntervalMs":2000`}
	s := httptest.NewServer(k)
	t.Cleanup(s.Close)
	k.url = s.URL
	return k
}

func (k *tasker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req struct {
		ID     json.RawMessage
		Method string
		Params struct {
			TaskID  string
			Answers json.RawMessage `json:"inputResponses"`
			Meta    map[string]any  `json:"_meta"`
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&req)
	w.Header().Set("Connection", "close")
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	result := `"resultType":"complete"`
	id := req.Params.TaskID
	switch req.Method {
	case "server/discover":
		result += `,"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}`
	case "tools/list":
		result += `,"tools":[{"name":"act","inputSchema":{"type":"object"}}]`
	case "tools/call":
		k.made = append(k.made, fmt.Sprint(req.Params.Meta[mcpclient.KeyMeta]))
		result = fmt.Sprintf(`"resultType":"task","taskId":"%d",%s,%s`, len(k.made), working, k.times)
	case "tasks/get":
		k.polled[id]++
		result += "," + k.times + "," + k.status(k.polled[id])
	case "tasks/update":
		k.updates = append(k.updates, id+" "+string(req.Params.Answers))
	case "tasks/cancel":
		k.cancelled = append(k.cancelled, id)
	}
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(result, ",") {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such task"}}`, req.ID)
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{%s}}`, req.ID, result)
}

// status is the status of a task at its n-th poll, "" if the server has
// forgotten it.
func (k *tasker) status(n int) string {
	switch {
	case k.poll != nil:
		return k.poll(n)
	case n < 3:
		return working
	}
	return doneNow
}

// set changes the server.
func (k *tasker) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

// polls is the number of polls of the first task.
func (k *tasker) polls() (n int) {
	k.set(func() { n = k.polled["1"] })
	return n
}

// expect compares the calls, the polls of the first task, and the ids of the
// cancelled tasks.
func (k *tasker) expect(t *testing.T, made, polls int, cancelled ...string) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.made) != made || polls >= 0 && k.polled["1"] != polls || !slices.Equal(k.cancelled, cancelled) {
		t.Errorf("%d calls, polls %v, cancelled tasks %q, want %d, %d of the first task, %q",
			len(k.made), k.polled, k.cancelled, made, polls, cancelled)
	}
	for _, key := range k.made {
		if key != k.made[0] {
			t.Errorf("the calls have the keys %q, want the same", k.made)
		}
	}
}

// serveTasker serves the toolset, and an agent that calls the tool once.
func (h *harness) serveTasker(k *tasker, c configs.ToolConfig) {
	h.serveSet(configs.Toolset{Kind: configs.ToolsetMCP, URL: k.url}, configs.ToolsetTool{ToolConfig: c})
}

// beginTask starts the worker first with a toolset that makes tasks, and
// submits a tree whose task is on the log when it returns.
func (h *harness) beginTask(k *tasker, c configs.ToolConfig) (first *worker, root, tool subjects.Run) {
	h.serveTasker(k, c)
	first = h.startWorker("first", workerOptions{})
	h.awaitReady()
	root = h.submit("ops", "do it")
	return first, root, h.awaitTask(root)
}

// awaitTask waits until the tool run of a tree waits for its task.
func (h *harness) awaitTask(root subjects.Run) subjects.Run {
	tool := root.Space.Run(h.agent("set"), root.Tree, root.Path.Child(1, 0))
	h.eventually("the task is on the log", func() bool {
		all := h.entries(tool)
		return len(all) > 0 && all[len(all)-1].Kind == run.EntryTask
	})
	return tool
}

// TestToolTask: a task is polled by a timer until it ends, and its result is
// that of the call. Its log has one entry about it, and nothing is left after
// its end. The polls go on after the worker died that made the call.
func TestToolTask(t *testing.T) {
	t.Parallel()
	for _, effect := range []configs.ToolEffect{configs.ToolReads, configs.ToolOnce} {
		t.Run(string(effect), func(t *testing.T) {
			t.Parallel()
			k := newTasker(t)
			withHarness(t, func(h *harness) {
				w, root, tool := h.beginTask(k, configs.ToolConfig{Effect: effect})
				w.kill()
				<-w.ended
				h.startWorker("second", workerOptions{})
				h.expectCompleted(root, "c0=done")
				k.expect(t, 1, 3)
				err := client.New(h.conn).Follow(h.ctx, root.Tree, func(e client.Event) {
					if e.Kind == client.TimedOut {
						t.Errorf("a follower got %+v, want no event of a poll", e)
					}
				})
				if err != nil {
					t.Error(err)
				}
				var kinds []run.EntryKind
				for _, e := range h.entries(tool) {
					kinds = append(kinds, e.Kind)
				}
				want := []run.EntryKind{run.EntryTask}
				if effect == configs.ToolOnce {
					want = []run.EntryKind{run.EntryStarted, run.EntryTask}
				}
				if n := len(h.readAll(tool.Timer(0))); n != 0 || !slices.Equal(kinds, want) {
					t.Errorf("%d timers are left, and the entries %s, want none and %s", n, kinds, want)
				}
				h.checkVerified()
			})
		})
	}
}

// TestToolTaskTakesNoSlot: a worker with one slot for tools makes the calls of
// two trees while the task of neither has ended.
func TestToolTaskTakesNoSlot(t *testing.T) {
	t.Parallel()
	k := newTasker(t)
	ended := false
	k.poll = func(int) string {
		if ended {
			return doneNow
		}
		return working
	}
	withHarness(t, func(h *harness) {
		h.serveTasker(k, configs.ToolConfig{})
		h.startWorker("w", workerOptions{Config: agentd.Config{ToolSlots: 1}})
		h.awaitReady()
		one, two := h.submit("ops", "do it"), h.submit("ops", "do it")
		h.awaitTask(one)
		h.awaitTask(two)
		k.set(func() { ended = true })
		h.expectCompleted(one, "c0=done")
		h.expectCompleted(two, "c0=done")
		h.checkVerified()
	})
}

// TestToolTaskPauses: the pause between two polls is that of the server at
// first, and grows with the age of the task up to a minute.
func TestToolTaskPauses(t *testing.T) {
	t.Parallel()
	thorough(t)
	k := newTasker(t)
	withHarness(t, func(h *harness) {
		k.poll = func(int) string { return working }
		_, _, tool := h.beginTask(k, configs.ToolConfig{Effect: configs.ToolReads})
		time.Sleep(12 * time.Minute)
		at := h.readAll(tool.Fired(0))
		n := len(at)
		first, last := at[1].Time.Sub(at[0].Time), at[n-1].Time.Sub(at[n-2].Time)
		if polls := k.polls(); polls != n {
			t.Errorf("%d polls by %d firings, want one each", polls, n)
		}
		if first < 2*time.Second || first > 3*time.Second || last < time.Minute || last > 62*time.Second || n > 60 {
			t.Errorf("pauses of %v at first and %v at last, %d in 12m, want 2s, 1m and at most 60", first, last, n)
		}
		if all := h.entries(tool); len(all) != 1 {
			t.Errorf("%d entries after %d polls, want one", len(all), n)
		}
	})
}

// TestToolTaskEnds: what a call with a task ends with, if the task does not
// complete. The server is asked to end a task that is still at work.
func TestToolTaskEnds(t *testing.T) {
	thorough(t)
	t.Parallel()
	const late = ": the task was cancelled, and may have taken effect"
	for name, test := range map[string]struct {
		tool  configs.ToolConfig
		times string
		poll  func(n int) string
		down  bool
		// the end of the call, and whether the task is cancelled
		kind      run.Kind
		want      string
		cancelled bool
	}{
		"timeout": {
			tool: configs.ToolConfig{Timeout: 30 * time.Second}, poll: func(int) string { return working },
			kind: run.KindTimeout, want: "timeout after 30s" + late, cancelled: true,
		},
		"timeout of a call that a person may settle": {
			tool: configs.ToolConfig{Timeout: 30 * time.Second, OnUnknown: configs.UnknownAsk},
			poll: func(int) string { return working },
			kind: run.KindTimeout, want: "timeout after 30s" + late, cancelled: true,
		},
		"ttl": {
			times: `"ttlMs":60000`, poll: func(int) string { return working },
			kind: run.KindTimeout, want: "the server keeps its task for 1m0s only, and has not ended it" + late,
			cancelled: true,
		},
		"down": {
			tool: configs.ToolConfig{Timeout: 30 * time.Second}, down: true,
			kind: run.KindTimeout, want: "timeout after 30s" + late + ". The server could not be asked: ",
		},
		"forgotten": {
			poll: func(int) string { return "" },
			kind: run.KindUnknown, want: "it may have taken effect: the server does not know its task any more (key ",
		},
		"forgotten, and read": {
			tool: configs.ToolConfig{Effect: configs.ToolReads}, poll: func(int) string { return "" },
			kind: run.KindError, want: "the server does not know its task any more: the server answered: no such task",
		},
		"failed": {
			poll: func(int) string { return `"status":"failed","error":{"code":-32603,"message":"out of luck"}` },
			kind: run.KindError, want: "the task failed: out of luck",
		},
		"unknown status": {
			poll: func(int) string { return `"status":"paused"` },
			kind: run.KindError, want: `the task has the status "paused", which axe does not know`, cancelled: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newTasker(t)
			k.poll = test.poll
			k.times += "," + cmp.Or(test.times, `"ttlMs":null`)
			withHarness(t, func(h *harness) {
				_, root, _ := h.beginTask(k, test.tool)
				k.set(func() { k.down = test.down })
				h.expectToolOutcome(root, 10*time.Minute, test.kind)
				if o := h.outcomes(root.Reply(1, 0))[0]; !strings.HasPrefix(o.Error, test.want) {
					t.Errorf("error %q, want %q", o.Error, test.want)
				}
				var cancelled []string
				if test.cancelled {
					cancelled = []string{"1"}
				}
				k.expect(t, 1, -1, cancelled...)
				h.checkVerified()
			})
		})
	}
}

// TestToolTaskCancelled: a cancel message over the tree, and an interrupt of
// the run that made the call, end the task at its server, once. A server that
// is down holds up no end.
func TestToolTaskCancelled(t *testing.T) {
	thorough(t)
	t.Parallel()
	for name, test := range map[string]struct {
		end  func(h *harness, root subjects.Run)
		down bool
	}{
		"cancelled":   {func(h *harness, root subjects.Run) { h.publish(root.Cancel(), "") }, false},
		"down":        {func(h *harness, root subjects.Run) { h.publish(root.Cancel(), "") }, true},
		"interrupted": {func(h *harness, root subjects.Run) { h.publish(root.Interrupt(h.key("ann")), "{}") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newTasker(t)
			k.poll = func(int) string { return working }
			withHarness(t, func(h *harness) {
				_, root, tool := h.beginTask(k, configs.ToolConfig{})
				time.Sleep(5 * time.Second)
				k.set(func() { k.down = test.down })
				test.end(h, root)
				h.eventually("the tool run has ended", func() bool { return len(h.outcomes(root.Reply(1, 0))) == 1 })
				polls := k.polls()
				time.Sleep(time.Minute)
				want := []string{"1"}
				if test.down {
					want = nil
				}
				k.expect(t, 1, polls, want...)
				h.expectNoOwnTimer(tool)
				h.checkVerified()
			})
		})
	}
}

// TestToolTaskOfOwnServer: a task of an agent's own MCP server is polled and
// cancelled as any other.
func TestToolTaskOfOwnServer(t *testing.T) {
	t.Parallel()
	k := newTasker(t)
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("owner", nil, func(a *configs.Agent) {
			a.Servers = []configs.Toolset{{Name: "own", Kind: configs.ToolsetMCP, URL: k.url}}
		})}
		h.models["owner"] = turns(calls(use("act")), joinsResults)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		h.expectCompleted(h.submit("owner", "do it"), "c0=done")
		k.expect(t, 1, 3)
		k.set(func() { k.made, k.poll = nil, func(int) string { return working } })
		root := h.submit("owner", "do it")
		time.Sleep(10 * time.Second)
		h.publish(root.Cancel(), "")
		h.expectFailed(root, run.KindCancelled, "cancelled")
		time.Sleep(10 * time.Second)
		k.expect(t, 1, -1, "1")
		h.checkVerified()
	})
}

// TestToolTaskOfAnotherKind: a toolset that is no MCP server any more does not
// call its tool for a task. The call ends with an error.
func TestToolTaskOfAnotherKind(t *testing.T) {
	t.Parallel()
	k := newTasker(t)
	withHarness(t, func(h *harness) {
		first, root, _ := h.beginTask(k, configs.ToolConfig{})
		first.kill()
		<-first.ended
		h.serveSet(configs.Toolset{Kind: configs.ToolsetHTTP}, configs.ToolsetTool{URL: k.url})
		h.startWorker("second", workerOptions{})
		h.expectToolOutcome(root, time.Hour, run.KindError)
		k.expect(t, 1, 0)
		h.checkVerified()
	})
}

// TestToolTaskOfAnother: a worker that finds another task on the log ends its
// own one. If the task on the log is its own, it ends none. The run goes on with
// the task on the log.
func TestToolTaskOfAnother(t *testing.T) {
	t.Parallel()
	for stored, cancelled := range map[string][]string{"1": nil, "2": {"1"}} {
		t.Run(stored, func(t *testing.T) {
			t.Parallel()
			k := newTasker(t)
			withHarness(t, func(h *harness) {
				h.serveTasker(k, configs.ToolConfig{Effect: configs.ToolReads})
				h.startWorker("w", workerOptions{atStep: func(s step) error {
					if s.Op != "write" || s.After || !strings.HasSuffix(s.Subject, ".r-1-0.log") {
						return nil
					}
					at, err := h.conn.Space().Parse(s.Subject)
					if err != nil {
						h.tb.Fatal(err)
					}
					call := h.readAll(at.Run.ToolCall())[0].Seq
					body, err := json.Marshal(run.Entry{
						Index: 1, Kind: run.EntryTask, Trigger: call, Seen: call, Worker: "another",
						Until: time.Now().Add(time.Hour), Task: &run.ServerTask{ID: stored},
					})
					if err != nil {
						h.tb.Fatal(err)
					}
					h.write(bus.Message{Subject: s.Subject, Body: body, Fence: bus.After(s.Subject, 0)})
					return nil
				}})
				h.awaitReady()
				h.expectCompleted(h.submit("ops", "do it"), "c0=done")
				k.expect(t, 1, -1, cancelled...)
				h.checkVerified()
			})
		})
	}
}

// TestToolTaskDown: a server that is down is polled again until it answers.
func TestToolTaskDown(t *testing.T) {
	thorough(t)
	t.Parallel()
	k := newTasker(t)
	withHarness(t, func(h *harness) {
		first, root, _ := h.beginTask(k, configs.ToolConfig{})
		k.set(func() { k.down = true })
		first.kill()
		<-first.ended
		h.startWorker("second", workerOptions{}) // it cannot list the tools
		time.Sleep(time.Minute)
		if n := len(h.outcomes(root.Reply(1, 0))); n != 0 {
			t.Fatalf("%d outcomes while the server is down, want none", n)
		}
		k.set(func() { k.down = false })
		h.expectCompleted(root, "c0=done")
		k.expect(t, 1, 3)
		h.checkVerified()
	})
}

// TestToolTaskAsks: a task that asks for input is held for a person, and gets
// the answers once. Questions that were answered are not asked again. Where no
// person can answer, the task is cancelled.
func TestToolTaskAsks(t *testing.T) {
	thorough(t)
	t.Parallel()
	k := newTasker(t)
	k.poll = func(n int) string {
		if n == 1 || n > 1 && n < 4 { // the server has not read the answers yet
			return asksFor
		}
		return doneNow
	}
	withHarness(t, func(h *harness) {
		h.serveTasker(k, configs.ToolConfig{})
		first := h.startWorker("first", workerOptions{})
		h.awaitReady()
		root := h.submit("ops", "do it")
		held := h.awaitHeld(root.Tree, 1)[0]
		if held.Reason != "the tool asks: Which city?" || held.Form.Questions[0].Key != "where" {
			t.Errorf("the held call is %+v, want that of the task's question", held)
		}
		first.kill()
		<-first.ended
		time.Sleep(time.Minute)
		h.answerForm(root.Tree, "Rome")
		k.set(func() { k.down = true })
		h.startWorker("second", workerOptions{})
		time.Sleep(time.Minute)
		k.set(func() { k.down = false })
		h.expectCompleted(root, "c0=done")
		k.expect(t, 1, 4)
		want := `1 {"where":{"action":"accept","content":{"city":"Rome"}}}`
		if !slices.Equal(k.updates, []string{want}) {
			t.Errorf("the server got the answers %q, want %q once", k.updates, want)
		}
		h.awaitHeld(root.Tree, 0)
		h.checkVerified()
	})
}

// TestToolTaskAsksInVain: where no person can answer a task, it is cancelled. A
// cancel message over a run with a task that asks ends the task too.
func TestToolTaskAsksInVain(t *testing.T) {
	t.Parallel()
	k := newTasker(t)
	k.poll = func(int) string { return asksFor }
	withHarness(t, func(h *harness) {
		h.serveTasker(k, configs.ToolConfig{})
		w := h.startWorker("unattended", workerOptions{Config: agentd.Config{Unattended: true}})
		h.awaitReady()
		o := h.awaitOutcome(h.submit("ops", "do it"), time.Hour)
		if want := "the tool asks: Which city?: nobody can answer it here"; !strings.Contains(o.Result, want) {
			t.Errorf("the model read %q, want %q", o.Result, want)
		}
		k.expect(t, 1, 1, "1")
		w.drain()
		k.set(func() { k.made = nil; k.cancelled = nil })
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		root := h.submit("ops", "do it")
		h.awaitHeld(root.Tree, 1)
		h.publish(root.Cancel(), "")
		h.expectFailed(root, run.KindCancelled, "cancelled")
		time.Sleep(time.Minute)
		k.expect(t, 1, -1, "1")
		h.checkVerified()
	})
}

// TestToolTaskForgottenAsks: a call with a task that its server has forgotten
// is held for a person, if its settings ask for that, and made again on
// request.
func TestToolTaskForgottenAsks(t *testing.T) {
	t.Parallel()
	k := newTasker(t)
	k.poll = func(int) string { return "" }
	withHarness(t, func(h *harness) {
		h.serveTasker(k, configs.ToolConfig{OnUnknown: configs.UnknownAsk})
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		root := h.submit("ops", "do it")
		held := h.awaitHeld(root.Tree, 1)[0]
		if !strings.HasPrefix(held.Reason, "it may have taken effect: the server does not know its task any more") {
			t.Errorf("held for %q, want that the task is forgotten", held.Reason)
		}
		k.set(func() { k.poll = nil })
		again := run.Settlement{As: run.SettleAgain}
		if err := client.New(h.conn).Settle(h.ctx, root.Tree, root.Path, again); err != nil {
			t.Fatal(err)
		}
		h.expectCompleted(root, "c0=done")
		k.expect(t, 2, 1)
		h.checkVerified()
	})
}

// TestToolTaskCrashTable kills the worker of a call with a task at each message
// that it stores about the call. Any other worker goes on with the task, and no
// other task is made, unless the first one is not on the log yet. An effect
// that may happen once is unknown then.
func TestToolTaskCrashTable(t *testing.T) {
	t.Parallel()
	thorough(t)
	const (
		log   = ".r-1-0.log"
		timer = ".r-1-0.0"
		reply = ".r.in.1.0"
	)
	for _, test := range []struct {
		effect configs.ToolEffect
		// nth says which write to the subject the worker dies at.
		suffix string
		nth    int
		after  bool
		// made is the number of calls, and polls that of the polls of
		// the first task.
		made, polls int
		kind        run.Kind
	}{
		{configs.ToolReads, log, 1, false, 2, 0, ""}, // made, and not on the log
		{configs.ToolReads, log, 1, true, 1, 3, ""},
		{configs.ToolReads, timer, 1, false, 1, 3, ""},
		{configs.ToolReads, timer, 1, true, 1, 3, ""},
		{configs.ToolReads, timer, 2, false, 1, 3, ""}, // polled once
		{configs.ToolReads, timer, 2, true, 1, 3, ""},
		{configs.ToolReads, reply, 1, false, 1, 4, ""},
		{configs.ToolReads, reply, 1, true, 1, 3, ""},
		{configs.ToolOnce, log, 2, false, 1, 0, run.KindUnknown},
		{configs.ToolOnce, log, 2, true, 1, 3, ""},
		{configs.ToolOnce, timer, 1, false, 1, 3, ""},
		{configs.ToolOnce, timer, 2, true, 1, 3, ""},
		{configs.ToolOnce, reply, 1, false, 1, 4, ""},
		{configs.ToolOnce, reply, 1, true, 1, 3, ""},
	} {
		name := fmt.Sprintf("%s %s %d %t", test.effect, test.suffix, test.nth, test.after)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newTasker(t)
			withHarness(t, func(h *harness) {
				h.serveTasker(k, configs.ToolConfig{Effect: test.effect})
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
				<-victim.ended
				h.startWorker("successor", workerOptions{})
				h.expectToolOutcome(root, time.Hour, test.kind)
				polls := test.polls
				if k.polls() == polls+1 {
					polls++ // a firing that was not acknowledged comes again
				}
				k.expect(t, test.made, polls)
				h.checkVerified()
			})
		})
	}
}

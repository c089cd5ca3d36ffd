package agentd_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/metrics"
	"github.com/axebus/axe/internal/ratelimit"
	"github.com/axebus/axe/price"
	"github.com/axebus/axe/provider"
)

// counted is the configuration of a worker with metrics.
func counted(c agentd.Config) (workerOptions, *agentd.Metrics) {
	c.Metrics = metrics.NewWorker("test", price.Table{})
	return workerOptions{Config: c}, c.Metrics
}

// series returns the values of metrics by their names and labels, as in
// axe_runs_total{agent="lead",outcome="completed"}. A histogram has its number
// of observations and their sum, with the names _count and _sum.
func (h *harness) series(m *agentd.Metrics) map[string]float64 {
	families, err := m.Gatherer().Gather()
	if err != nil {
		h.tb.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			var labels []string
			for _, l := range one.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			set := ""
			if len(labels) > 0 {
				set = "{" + strings.Join(labels, ",") + "}"
			}
			values[f.GetName()+set] = one.GetCounter().GetValue() + one.GetGauge().GetValue()
			if d := one.GetHistogram(); d != nil {
				values[f.GetName()+"_count"+set] = float64(d.GetSampleCount())
				values[f.GetName()+"_sum"+set] = d.GetSampleSum()
			}
		}
	}
	return values
}

// expectSeries expects values of metrics.
func (h *harness) expectSeries(m *agentd.Metrics, want map[string]float64) {
	got := h.series(m)
	for name, value := range want {
		if got[name] != value {
			h.tb.Errorf("%s is %v, want %v", name, got[name], value)
		}
	}
}

// TestMetricsOfTrees: a worker counts what ended, what it asked of which model,
// and its requests to the bus.
func TestMetricsOfTrees(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf", "broken"}, call("leaf", "1"), call("broken", "2"))
		h.models["broken"] = fails(&provider.Error{Category: provider.Auth, Message: "no such key"})
		o, m := counted(agentd.Config{Slots: 3, ToolSlots: 2})
		h.startWorker("one", o)
		h.awaitReady()
		h.awaitOutcome(h.submit("lead", "go"), time.Minute)
		h.expectFailed(h.submit("broken", "go"), run.KindError, "auth: no such key")
		time.Sleep(time.Second)
		h.expectSeries(m, map[string]float64{
			`axe_runs_total{agent="lead",outcome="completed"}`:             1,
			`axe_runs_total{agent="leaf",outcome="completed"}`:             1,
			`axe_runs_total{agent="broken",outcome="error"}`:               2,
			`axe_trees_total{agent="lead",outcome="completed"}`:            1,
			`axe_trees_total{agent="leaf",outcome="completed"}`:            0,
			`axe_trees_total{agent="broken",outcome="error"}`:              1,
			`axe_run_seconds_count{agent="broken"}`:                        2,
			`axe_first_take_up_seconds_count{agent="lead"}`:                1,
			`axe_first_take_up_seconds_count{agent="broken"}`:              2,
			`axe_turns_total{agent="lead"}`:                                2,
			`axe_turns_total{agent="broken"}`:                              0,
			`axe_model_requests_total{model="sim/lead",result="answered"}`: 2,
			`axe_model_requests_total{model="sim/broken",result="auth"}`:   2,
			`axe_model_request_seconds_count{model="sim/lead"}`:            2,
			`axe_tokens_total{kind="input",model="sim/leaf"}`:              10,
			`axe_tokens_total{kind="output",model="sim/leaf"}`:             1,
			`axe_slots{kind="model"}`:                                      3,
			`axe_slots_free{kind="model"}`:                                 3,
			`axe_slots{kind="tool"}`:                                       2,
			`axe_runs_in_hand`:                                             0,
			`axe_redeliveries_total{agent="lead"}`:                         0,
			`axe_gate_wait_seconds_count{model="sim/lead"}`:                0,
			`axe_refused_writes_total{to="stream"}`:                        0,
			`axe_queue_calls{agent="lead"}`:                                0,
			`axe_build_info{version="test"}`:                               1,
		})
		for _, op := range []string{"write", "read", "api"} {
			name := fmt.Sprintf("axe_bus_request_seconds_count{op=%q}", op)
			if n := h.series(m)[name]; n == 0 {
				t.Errorf("%s is 0, want more", name)
			}
		}
	})
}

// TestMetricsOfQueues: the calls that wait for a worker, and those in hand, are
// counted. A worker that has ended has no load.
func TestMetricsOfQueues(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil), define("idle", nil)}
		h.models["leaf"] = delayed(time.Minute, says("done"))
		o, m := counted(agentd.Config{Slots: 1})
		w := h.startWorker("one", o)
		h.awaitReady()
		for range 3 {
			h.submit("leaf", "go")
		}
		h.awaitRequests("leaf", 1)
		time.Sleep(10 * time.Second)
		h.expectSeries(m, map[string]float64{
			`axe_queue_calls{agent="leaf"}`: 2, `axe_queue_calls_in_hand{agent="leaf"}`: 1,
			`axe_queue_calls{agent="idle"}`: 0, `axe_slots_free{kind="model"}`: 0, `axe_runs_in_hand`: 1,
		})
		w.kill()
		<-w.ended
		if got, ok := h.series(m)[`axe_slots{kind="model"}`]; ok {
			t.Errorf("a worker that has ended has %v slots", got)
		}
	})
}

// TestMetricsOfTakeovers: a worker counts the runs that it takes over from a
// worker that was lost, or that has drained.
func TestMetricsOfTakeovers(t *testing.T) {
	thorough(t)
	t.Parallel()
	for cause, end := range map[string]func(*worker){
		"lost":    func(w *worker) { w.kill() },
		"drained": func(w *worker) { w.stop() },
	} {
		withHarness(t, func(h *harness) {
			h.agents = []configs.Agent{define("leaf", nil)}
			h.models["leaf"] = delayed(20*time.Second, says("done"))
			one := h.startWorker("one", workerOptions{Config: agentd.Config{Grace: time.Second}})
			h.awaitReady()
			r := h.submit("leaf", "go")
			h.awaitRequests("leaf", 1)
			o, m := counted(agentd.Config{})
			h.startWorker("two", o)
			h.awaitReady()
			end(one)
			h.expectCompleted(r, "done")
			// The worker counts a run after it has stored the outcome.
			time.Sleep(time.Second)
			h.expectSeries(m, map[string]float64{
				fmt.Sprintf("axe_takeovers_total{cause=%q}", cause):        1,
				`axe_redeliveries_total{agent="leaf"}`:                     1,
				`axe_first_take_up_seconds_count{agent="leaf"}`:            0,
				`axe_runs_total{agent="leaf",outcome="completed"}`:         1,
				`axe_model_requests_total{model="sim/leaf",result="auth"}`: 0,
			})
		})
	}
}

// TestMetricsOfFaults: a worker counts dead letters, writes that were refused,
// and waits for a rate limit.
func TestMetricsOfFaults(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		h.models["leaf"] = delayed(5*time.Second, says("done"))
		o, m := counted(limited(ratelimit.Settings{Concurrent: 1}))
		h.startWorker("one", o)
		h.awaitReady()
		h.publish("axe.submit.Lead.T", "garbage")
		first, second := h.submit("leaf", "go"), h.submit("leaf", "go")
		h.expectCompleted(first, "done")
		h.expectCompleted(second, "done")
		cancelled := h.submit("leaf", "go")
		h.awaitRequests("leaf", 3)
		h.publish(cancelled.Cancel(), `{"kind":"cancelled","text":"cancelled"}`)
		h.expectFailed(cancelled, run.KindCancelled, "cancelled")
		raced := h.submit("leaf", "go")
		h.awaitRequests("leaf", 4)
		// The outcome of the run is fenced by its log.
		h.write(bus.Message{Subject: raced.Log(), Body: []byte(`{}`)})
		time.Sleep(time.Minute)
		h.expectSeries(m, map[string]float64{
			`axe_dead_letters_total`:                                      2, // and the run whose log is no log
			`axe_refused_writes_total{to="stream"}`:                       1,
			`axe_gate_wait_seconds_count{model="sim/leaf"}`:               4,
			`axe_runs_total{agent="leaf",outcome="completed"}`:            2,
			`axe_runs_total{agent="leaf",outcome="poisoned"}`:             1,
			`axe_runs_total{agent="leaf",outcome="cancelled"}`:            1,
			`axe_model_requests_total{model="sim/leaf",result="aborted"}`: 1,
		})
		if waited := h.series(m)[`axe_gate_wait_seconds_sum{model="sim/leaf"}`]; waited < 4.9 || waited > 6 {
			t.Errorf("the requests waited %v s for the rate limit, want 5", waited)
		}
	})
}

// TestMetricsOfTools: the outcome of a tool is not that of a run.
func TestMetricsOfTools(t *testing.T) {
	t.Parallel()
	m := metrics.NewWorker("test", price.Table{})
	m.Ended(run.Outcome{Status: run.StatusCompleted, Agent: "lead", Tool: "read_file", Path: "r-1-0"})
	m.Asked(metrics.Request{Agent: "lead", Model: "sim/lead", Err: errors.New("aborted")})
	h := &harness{tb: t}
	h.expectSeries(m, map[string]float64{
		`axe_tool_runs_total{agent="lead",outcome="completed"}`:     1,
		`axe_runs_total{agent="lead",outcome="completed"}`:          0,
		`axe_model_requests_total{model="sim/lead",result="error"}`: 1,
	})
}

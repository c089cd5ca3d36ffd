package metrics_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/metrics"
	"github.com/axebus/axe/price"
	"github.com/axebus/axe/provider"
)

// used returns metrics of which each has a value.
func used(agents, models []string) *metrics.Worker {
	prices := price.Table{Currency: "USD", Models: map[string]price.Model{}}
	for _, name := range models {
		prices.Models[name] = price.Model{Input: price.FromUnits(2)}
	}
	m := metrics.NewWorker("v1", prices)
	var load metrics.Load
	for _, agent := range agents {
		load.Queues = append(load.Queues, metrics.Queue{Agent: agent, Calls: 3, Taken: 2, Inbound: 1})
		m.Ended(run.Outcome{Status: run.StatusCompleted, Agent: agent, Path: "r"})
		m.Ended(run.Outcome{Status: run.StatusFailed, Kind: run.KindError, Agent: agent, Tool: "shell", Path: "r-1-0"})
		m.TakenUp(agent, 1)
		m.Delivered(agent, 1)
		m.Delivered(agent, 2)
		for _, name := range models {
			answer := &provider.Response{Usage: provider.Usage{InputTokens: 500_000}}
			m.Asked(metrics.Request{Agent: agent, Model: name, Answer: answer})
		}
	}
	for _, name := range models {
		m.Asked(metrics.Request{Model: name, Err: errors.New("no")})
		m.Gated(name, 1)
	}
	m.TookOver(metrics.CauseLost)
	m.DeadLetter()
	m.Exchanged(bus.Exchange{Op: bus.OpWrite, Subject: "$KV.AXE_LIMITS.x", Refused: true})
	m.Exchanged(bus.Exchange{Op: bus.OpWrite, Subject: "axe.run.x", Refused: true})
	m.Measure(func(context.Context) metrics.Load { return load })
	return m
}

// scrape reads the metrics as Prometheus does.
func scrape(t *testing.T, m *metrics.Worker) map[string]*dto.MetricFamily {
	t.Helper()
	server := httptest.NewServer(m.Handler(slog.New(slog.DiscardHandler)))
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, error %v: %s", resp.StatusCode, err, body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(body)))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, body)
	}
	return families
}

// TestText: the parser of Prometheus reads the text, and promtool check metrics
// has nothing to say about it.
func TestText(t *testing.T) {
	m := used([]string{"lead"}, []string{"openai/gpt-5"})
	problems, err := testutil.GatherAndLint(m.Gatherer())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "axe_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	checkWithPromtool(t, m)
	families := scrape(t, m)
	for _, name := range []string{"axe_runs_total", "go_goroutines", "process_cpu_seconds_total"} {
		if families[name] == nil {
			t.Errorf("%s is not in the text", name)
		}
	}
}

// checkWithPromtool runs promtool check metrics, if it is there.
func checkWithPromtool(t *testing.T, m *metrics.Worker) {
	t.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		return
	}
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = &text
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v: %s", err, out)
	}
}

// row is a line of the table of metrics in the documentation.
var row = regexp.MustCompile("(?m)^\\| `(axe_[a-z_]+)` \\| (\\w+) \\| ([a-z, -]+) \\| (.*) \\|$")

// TestTable: the documentation has every metric, with its type, its labels and
// its help.
func TestTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		documented[m[1]] = fmt.Sprintf("%s | %s | %s", m[2], m[3], m[4])
	}
	m := used([]string{"lead"}, []string{"openai/gpt-5"})
	actual := map[string]string{}
	for name, f := range scrape(t, m) {
		if !strings.HasPrefix(name, "axe_") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		list := strings.Join(labels, ", ")
		if list == "" {
			list = "-"
		}
		actual[name] = fmt.Sprintf("%s | %s | %s", strings.ToLower(f.GetType().String()), list, f.GetHelp())
	}
	if diff := cmp.Diff(actual, documented); diff != "" {
		t.Errorf("docs/metrics.md (+) has other metrics than the registry (-):\n%s", diff)
	}
	for _, name := range registered(m) {
		if strings.HasPrefix(name, "axe_") && actual[name] == "" {
			t.Errorf("%s has no value in this test", name)
		}
	}
}

// registered returns the names of all metrics.
func registered(m *metrics.Worker) (names []string) {
	descs := make(chan *prometheus.Desc)
	go func() {
		m.Gatherer().(prometheus.Collector).Describe(descs)
		close(descs)
	}()
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	for d := range descs {
		names = append(names, name.FindStringSubmatch(d.String())[1])
	}
	return names
}

// TestBounded: beyond a bound, agents and models share the series of "other".
// Their queues are added up.
func TestBounded(t *testing.T) {
	var agents, models []string
	for i := range 3 * metrics.MaxAgents {
		agents = append(agents, fmt.Sprintf("a%03d", i))
	}
	for i := range 3 * metrics.MaxModels {
		models = append(models, fmt.Sprintf("openai/m%03d", i))
	}
	families := scrape(t, used(agents, models))
	for name, bound := range map[string]int{
		"axe_runs_total": metrics.MaxAgents + 1, "axe_queue_calls": metrics.MaxAgents + 1,
		"axe_first_take_up_seconds": metrics.MaxAgents + 1, "axe_turns_total": metrics.MaxAgents + 1,
		"axe_gate_wait_seconds": metrics.MaxModels + 1,
		"axe_cost_total":        metrics.MaxModels + 1,
		// An agent that the test does not name asked of each model, too.
		"axe_tokens_total": 3 * (metrics.MaxModels + 1),
	} {
		if n := len(families[name].GetMetric()); n != bound {
			t.Errorf("%s has %d series, want %d", name, n, bound)
		}
	}
	for _, m := range families["axe_queue_calls"].GetMetric() {
		want := 3.0
		if m.GetLabel()[0].GetValue() == metrics.Other {
			want *= 2 * metrics.MaxAgents
		}
		if got := m.GetGauge().GetValue(); got != want {
			t.Errorf("the queue of %s has %v calls, want %v", m.GetLabel()[0].GetValue(), got, want)
		}
	}
}

// TestCost: the cost is that of the tokens, and there is none without a price.
func TestCost(t *testing.T) {
	m := metrics.NewWorker("v1", price.Table{Currency: "EUR", Models: map[string]price.Model{
		"openai/gpt-5": {Input: price.FromUnits(2), Output: price.FromUnits(8)},
	}})
	for range 3 {
		for _, model := range []string{"openai/gpt-5", "ollama/any"} {
			m.Asked(metrics.Request{Agent: "lead", Model: model, Answer: &provider.Response{
				Usage: provider.Usage{InputTokens: 1000, OutputTokens: 500},
			}})
		}
	}
	costs := scrape(t, m)["axe_cost_total"].GetMetric()
	if len(costs) != 1 || math.Abs(costs[0].GetCounter().GetValue()-3*.006) > 1e-9 ||
		costs[0].GetLabel()[0].GetValue() != "EUR" {
		t.Errorf("the costs are %v, want 0.018 EUR of one model", costs)
	}
}

// TestOff: without metrics nothing is counted, and nothing is allocated.
func TestOff(t *testing.T) {
	var off *metrics.Worker
	answer := &provider.Response{}
	if n := testing.AllocsPerRun(100, func() {
		off.Ended(run.Outcome{})
		off.Asked(metrics.Request{Answer: answer})
		off.TakenUp("lead", 1)
		off.Gated("openai/gpt-5", 1)
		off.Delivered("lead", 2)
		off.TookOver(metrics.CauseLost)
		off.DeadLetter()
		off.Exchanged(bus.Exchange{})
		off.Measure(nil)
	}); n != 0 {
		t.Errorf("without metrics there are %v allocations, want 0", n)
	}
}

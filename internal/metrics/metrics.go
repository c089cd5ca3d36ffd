// Package metrics counts the work of a worker, in the text format of
// Prometheus. It keeps one invariant: the number of time series is bounded,
// however many agents and models there are. The first MaxAgents agents and
// MaxModels models have series of their own. All others share those of "other".
//
// The methods of a nil *Worker do nothing, so that a worker without metrics
// pays for a comparison alone.
//
//	m := metrics.NewWorker("v1.2.0", price.Table{})
//	m.Ended(outcome)
//	http.Handle("GET /metrics", m.Handler(log))
package metrics

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/price"
	"github.com/axebus/axe/provider"
)

// Names of labels.
const (
	labelAgent    = "agent"
	labelCause    = "cause"
	labelCurrency = "currency"
	labelKind     = "kind"
	labelModel    = "model"
	labelOp       = "op"
	labelOutcome  = "outcome"
	labelResult   = "result"
	labelTo       = "to"
	labelVersion  = "version"
)

// Buckets of histograms, in seconds.
var (
	// waits are those of waits and of runs.
	waits = []float64{.01, .05, .25, 1, 5, 15, 60, 300, 1800}
	// requests are those of requests to models.
	requests = []float64{.25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}
	// roundTrips are those of requests to the bus.
	roundTrips = []float64{.00025, .0005, .001, .0025, .005, .01, .05, .25, 1, 5}
)

// Worker has the metrics of one worker, in a registry of its own.
type Worker struct {
	registry       *prometheus.Registry
	agents, models *names
	prices         price.Table

	runs, trees, tools    *series[prometheus.Counter]
	runTime, firstTakeUp  *series[prometheus.Observer]
	turns, tokens, asked  *series[prometheus.Counter]
	cost                  *series[prometheus.Counter]
	requestTime, gateWait *series[prometheus.Observer]
	redeliveries          *series[prometheus.Counter]
	takeovers             *series[prometheus.Counter]
	refused               *series[prometheus.Counter]
	deadLetters           prometheus.Counter
	roundTrip             *series[prometheus.Observer]
	load                  *loadCollector
}

// NewWorker makes the metrics of a worker of a version of the program. Without
// prices there is no metric of cost.
func NewWorker(version string, prices price.Table) *Worker {
	r := prometheus.NewRegistry()
	counters := func(name, help string, labels ...string) *series[prometheus.Counter] {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		r.MustRegister(c)
		return newSeries(c.WithLabelValues, len(labels))
	}
	histograms := func(name, help string, buckets []float64, label string) *series[prometheus.Observer] {
		h := prometheus.NewHistogramVec(
			prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{label})
		r.MustRegister(h)
		return newSeries(h.WithLabelValues, 1)
	}
	w := &Worker{
		registry: r, agents: newNames(MaxAgents), models: newNames(MaxModels), prices: prices,

		runs:  counters("axe_runs_total", "Runs that ended.", labelAgent, labelOutcome),
		trees: counters("axe_trees_total", "Trees that ended.", labelAgent, labelOutcome),
		tools: counters("axe_tool_runs_total", "Calls of tools that ended.", labelAgent, labelOutcome),
		runTime: histograms("axe_run_seconds", "Time from the call of a run to its outcome.", waits,
			labelAgent),
		firstTakeUp: histograms("axe_first_take_up_seconds",
			"Time from the call of a run to its first request to a model.", waits, labelAgent),
		turns: counters("axe_turns_total", "Answers of models.", labelAgent),
		asked: counters("axe_model_requests_total", "Requests to models that ended.", labelModel, labelResult),
		requestTime: histograms("axe_model_request_seconds", "Time of a request to a model.", requests,
			labelModel),
		cost: counters("axe_cost_total", "Cost of the tokens of answers, by the prices of the worker's config.toml.",
			labelModel, labelCurrency),
		tokens: counters("axe_tokens_total", "Tokens of answers. The cached ones are part of the input.",
			labelModel, labelKind),
		gateWait: histograms("axe_gate_wait_seconds",
			"Time for which a request waited for the rate limit of its model.", waits, labelModel),
		redeliveries: counters("axe_redeliveries_total", "Messages that were delivered before.", labelAgent),
		takeovers:    counters("axe_takeovers_total", "Turns of other workers that were continued.", labelCause),
		refused:      counters("axe_refused_writes_total", "Writes that their fence refused.", labelTo),
		deadLetters: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "axe_dead_letters_total", Help: "Dead letters that were stored.",
		}),
		roundTrip: histograms("axe_bus_request_seconds", "Time of a request to the bus.", roundTrips, labelOp),
		load:      newLoadCollector(),
	}
	w.load.agents = w.agents
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "axe_build_info", Help: "Always 1. The label has the version.",
		ConstLabels: prometheus.Labels{labelVersion: version},
	})
	build.Set(1)
	r.MustRegister(w.deadLetters, w.load, build, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return w
}

// scrapeTimeout bounds the time of a scrape. Prometheus waits 10 s.
const scrapeTimeout = 8 * time.Second

// Handler serves the metrics. Log gets the failures of scrapes.
func (w *Worker) Handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(w.registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: 4,
		Timeout:             scrapeTimeout,
	})
}

// Gatherer returns the metrics as values.
func (w *Worker) Gatherer() prometheus.Gatherer { return w.registry }

// Measure sets the function that measures the load of the worker for each
// scrape, at most once in loadAge. A worker that follows another one in the
// same process replaces it.
func (w *Worker) Measure(load func(context.Context) Load) {
	if w != nil {
		w.load.measured(load)
	}
}

// Ended counts the outcome of a run.
func (w *Worker) Ended(o run.Outcome) {
	if w == nil {
		return
	}
	agent := w.agents.label(o.Agent)
	outcome := string(o.Status)
	if o.Status != run.StatusCompleted {
		outcome = string(o.Kind)
	}
	if o.Tool != "" {
		w.tools.with(values{agent, outcome}).Inc()
		return
	}
	w.runs.with(values{agent, outcome}).Inc()
	w.runTime.with(values{agent}).Observe(float64(o.DurationMS) / 1000)
	if o.Path == rootPath {
		w.trees.with(values{agent, outcome}).Inc()
	}
}

// rootPath is the path of a root.
const rootPath = "r"

// TakenUp notes the time from the call of a run to the first request to its
// model.
func (w *Worker) TakenUp(agent string, after time.Duration) {
	if w != nil {
		w.firstTakeUp.with(values{w.agents.label(agent)}).Observe(max(0, after.Seconds()))
	}
}

// Request is a request to a model that has ended.
type Request struct {
	Agent string
	// Model is the "provider/model".
	Model string
	Took  time.Duration
	// Answer is nil if there is none.
	Answer *provider.Response
	Err    error
	// Aborted says that the worker did not wait for the answer.
	Aborted bool
}

// Results of requests to models that are no category of an error.
const (
	resultAborted  = "aborted"
	resultAnswered = "answered"
	resultError    = "error"
)

// Asked counts a request to a model.
func (w *Worker) Asked(r Request) {
	if w == nil {
		return
	}
	model := w.models.label(r.Model)
	w.requestTime.with(values{model}).Observe(r.Took.Seconds())
	if r.Err != nil {
		result := resultError
		if failed, ok := errors.AsType[*provider.Error](r.Err); ok {
			result = string(failed.Category)
		}
		if r.Aborted {
			result = resultAborted
		}
		w.asked.with(values{model, result}).Inc()
		return
	}
	w.asked.with(values{model, resultAnswered}).Inc()
	w.turns.with(values{w.agents.label(r.Agent)}).Inc()
	w.tokens.with(values{model, "input"}).Add(float64(max(0, r.Answer.InputTokens)))
	w.tokens.with(values{model, "output"}).Add(float64(max(0, r.Answer.OutputTokens)))
	w.tokens.with(values{model, "cached"}).Add(float64(max(0, r.Answer.CachedTokens)))
	if c := w.prices.Cost(map[string]provider.Usage{r.Model: r.Answer.Usage}); c.Priced {
		w.cost.with(values{model, c.Currency}).Add(c.Units())
	}
}

// Gated notes the time for which a request waited for the rate limit of its
// model.
func (w *Worker) Gated(model string, waited time.Duration) {
	if w != nil {
		w.gateWait.with(values{w.models.label(model)}).Observe(waited.Seconds())
	}
}

// Delivered counts a message to an agent, given the number of its deliveries.
func (w *Worker) Delivered(agent string, deliveries int) {
	if w != nil && deliveries > 1 {
		w.redeliveries.with(values{w.agents.label(agent)}).Inc()
	}
}

// CauseLost is the cause of a takeover from a worker that was lost. The other
// causes are those of returns.
const CauseLost = "lost"

// TookOver counts a turn of another worker that this one goes on with.
func (w *Worker) TookOver(cause string) {
	if w != nil {
		w.takeovers.with(values{cause}).Inc()
	}
}

// DeadLetter counts a dead letter.
func (w *Worker) DeadLetter() {
	if w != nil {
		w.deadLetters.Inc()
	}
}

// Exchanged counts a request to the bus. It is a bus.Config.Observe.
func (w *Worker) Exchanged(x bus.Exchange) {
	if w == nil {
		return
	}
	w.roundTrip.with(values{string(x.Op)}).Observe(x.Took.Seconds())
	if x.Refused {
		to := "stream"
		if strings.Contains(x.Subject, "$KV.") {
			to = "bucket"
		}
		w.refused.with(values{to}).Inc()
	}
}

package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Load is the load of a worker at one moment.
type Load struct {
	// Models and Tools are the slots for requests to models and for tools.
	Models, Tools Slots
	// Runs is the number of runs that the worker has in hand.
	Runs int
	// Queues are those of the agents that the worker serves. One that could
	// not be read is left out.
	Queues []Queue
}

// Slots are the slots of one kind.
type Slots struct{ All, Free int }

// Queue is the work of one agent on the whole bus.
type Queue struct {
	Agent string
	// Calls is the number of calls that wait for a worker. Taken is the
	// number of calls that workers have in hand.
	Calls, Taken uint64
	// Inbound is the number of messages to runs under way that wait for a
	// worker.
	Inbound uint64
}

// Add returns the sum of two queues. It has the agent of r.
func (q Queue) Add(r Queue) Queue {
	return Queue{Agent: r.Agent, Calls: q.Calls + r.Calls, Taken: q.Taken + r.Taken, Inbound: q.Inbound + r.Inbound}
}

const (
	// loadAge is the age up to which a load is served again.
	loadAge = time.Second
	// loadTimeout bounds the measuring of a load.
	loadTimeout = 5 * time.Second
)

// loadCollector makes metrics of the load of a worker.
type loadCollector struct {
	agents *names

	slots, free, runs     *prometheus.Desc
	calls, taken, inbound *prometheus.Desc

	mu sync.Mutex
	// measure is nil until the worker has been made.
	measure func(context.Context) Load
	last    Load
	at      time.Time
}

func newLoadCollector() *loadCollector {
	return &loadCollector{
		slots: prometheus.NewDesc("axe_slots", "Slots of the worker.", []string{labelKind}, nil),
		free:  prometheus.NewDesc("axe_slots_free", "Free slots of the worker.", []string{labelKind}, nil),
		runs:  prometheus.NewDesc("axe_runs_in_hand", "Runs that the worker has in hand.", nil, nil),
		calls: prometheus.NewDesc("axe_queue_calls", "Calls on the bus that wait for a worker.",
			[]string{labelAgent}, nil),
		taken: prometheus.NewDesc("axe_queue_calls_in_hand", "Calls on the bus that workers have in hand.",
			[]string{labelAgent}, nil),
		inbound: prometheus.NewDesc("axe_queue_inbound",
			"Messages on the bus to runs under way that wait for a worker.", []string{labelAgent}, nil),
	}
}

// measured sets the function that measures.
func (c *loadCollector) measured(measure func(context.Context) Load) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.measure, c.at = measure, time.Time{}
}

// Describe lists the metrics.
func (c *loadCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.slots, c.free, c.runs, c.calls, c.taken, c.inbound} {
		to <- d
	}
}

// Collect measures the load. Without a worker there is none.
func (c *loadCollector) Collect(to chan<- prometheus.Metric) {
	load, ok := c.current()
	if !ok {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for kind, s := range map[string]Slots{labelModel: load.Models, "tool": load.Tools} {
		gauge(c.slots, float64(s.All), kind)
		gauge(c.free, float64(s.Free), kind)
	}
	gauge(c.runs, float64(load.Runs))
	for agent, q := range c.bounded(load.Queues) {
		gauge(c.calls, float64(q.Calls), agent)
		gauge(c.taken, float64(q.Taken), agent)
		gauge(c.inbound, float64(q.Inbound), agent)
	}
}

// bounded returns queues by the label of their agent. Those of Other are one.
func (c *loadCollector) bounded(queues []Queue) map[string]Queue {
	all := map[string]Queue{}
	for _, q := range queues {
		label := c.agents.label(q.Agent)
		all[label] = all[label].Add(q)
	}
	return all
}

// current returns the load of this moment, or one that is not older than
// loadAge. It returns false without a worker.
func (c *loadCollector) current() (Load, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.measure == nil {
		return Load{}, false
	}
	if time.Since(c.at) >= loadAge {
		ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
		c.last = c.measure(ctx)
		cancel()
		c.at = time.Now()
	}
	return c.last, true
}

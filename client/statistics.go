package client

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// AgentStatistics counts the runs of one agent that have ended.
type AgentStatistics struct {
	Agent string `json:"agent"`
	// Runs is the number of runs, and Failed the number of those that have
	// failed.
	Runs   int `json:"runs"`
	Failed int `json:"failed"`
	// P50 and P95 are quantiles of the time from the call to the outcome.
	P50 time.Duration `json:"p50_ns"`
	P95 time.Duration `json:"p95_ns"`
	// ModelMS is the time of all requests to the model, in milliseconds.
	ModelMS int64          `json:"model_ms"`
	Usage   provider.Usage `json:"usage"`
	// Models divides Usage by model. A run without a model is under "".
	Models map[string]provider.Usage `json:"models,omitempty"`

	took []time.Duration
}

// maxOutcomes bounds the outcomes of each kind that ReadStatistics reads.
const maxOutcomes = 50_000

// Statistics count the runs that have ended since a time.
type Statistics struct {
	// Agents is sorted by name.
	Agents []AgentStatistics
	// All is false if there are more outcomes than were read.
	All bool
	// Until is the server's time of the newest outcome that was counted, or
	// the time since which runs were counted.
	Until time.Time
}

// ReadStatistics counts the runs that have ended since a time of the server. It
// reads the newest 50,000 outcomes of roots and as many of other runs at most.
func ReadStatistics(ctx context.Context, c *Client, since time.Time) (stats Statistics, _ error) {
	if err := c.conn.Provisioned(ctx); err != nil {
		return stats, err
	}
	stats.All, stats.Until = true, since
	space := c.conn.Space()
	byAgent := map[string]*AgentStatistics{}
	for _, filter := range []string{space.ResultsBy(subjects.Agent{}), space.RepliesOfAll()} {
		read := 0
		for m, err := range bus.Newest(ctx, c.conn, filter, time.Time{}) {
			if err != nil {
				return stats, err
			}
			if m.Time.Before(since) {
				break
			}
			if m.Time.After(stats.Until) {
				stats.Until = m.Time
			}
			if read++; read > maxOutcomes {
				stats.All = false
				break
			}
			at, err := space.Parse(m.Subject)
			if err != nil || at.Kind != subjects.Result && at.Kind != subjects.Reply || m.IsAnswer() {
				continue
			}
			body, err := c.runs.Load(ctx, m)
			if err != nil {
				return stats, err
			}
			o, err := run.DecodeOutcome(body)
			if err != nil || o.Tool != "" {
				continue
			}
			counts, err := c.counts(ctx, at, o, m)
			if err != nil {
				return stats, err
			}
			if counts {
				add(byAgent, o)
			}
		}
	}
	for _, s := range byAgent {
		s.finish()
		stats.Agents = append(stats.Agents, *s)
	}
	slices.SortFunc(stats.Agents, func(a, b AgentStatistics) int { return strings.Compare(a.Agent, b.Agent) })
	return stats, nil
}

// counts reports whether an outcome, which is read without the state of its
// caller, counts as that of the agent that it names.
func (c *Client) counts(ctx context.Context, at subjects.Address, o run.Outcome, m bus.Stored) (bool, error) {
	of := at.Run
	if at.Kind == subjects.Reply {
		var err error
		if of, err = of.At(o.Agent, of.Path.Child(at.Turn, at.Index)); err != nil {
			return !c.conn.Grants.Required(), nil //nolint:nilerr // there is no such run
		}
	}
	return c.runs.Counts(ctx, of, m)
}

// add counts an outcome.
func add(byAgent map[string]*AgentStatistics, o run.Outcome) {
	s := byAgent[o.Agent]
	if s == nil {
		s = &AgentStatistics{Agent: o.Agent, Models: map[string]provider.Usage{}}
		byAgent[o.Agent] = s
	}
	s.Runs++
	if o.Status != run.StatusCompleted && o.Reason != run.ReasonParentAnswered {
		s.Failed++
	}
	s.ModelMS += o.ModelMS
	s.Usage = s.Usage.Add(o.Usage)
	if o.Usage != (provider.Usage{}) {
		s.Models[o.Model] = s.Models[o.Model].Add(o.Usage)
	}
	s.took = append(s.took, time.Duration(o.DurationMS)*time.Millisecond)
}

// finish computes the quantiles.
func (s *AgentStatistics) finish() {
	slices.Sort(s.took)
	s.P50 = s.took[(len(s.took)-1)/2]
	s.P95 = s.took[(len(s.took)-1)*95/100]
}

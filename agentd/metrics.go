package agentd

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/axebus/axe/internal/metrics"
	"github.com/axebus/axe/subjects"
)

// Metrics counts the work of a worker, for Prometheus.
type Metrics = metrics.Worker

// loadOf measures the load of a worker. It asks the bus about the consumers
// from which the worker pulls, and about no other.
func loadOf(ctx context.Context, w *Worker) metrics.Load {
	l := metrics.Load{
		Models: metrics.Slots{All: w.cfg.Slots, Free: w.slots.spare()},
		Tools:  metrics.Slots{All: w.cfg.ToolSlots, Free: w.toolSlots.spare()},
	}
	w.mu.Lock()
	l.Runs = len(w.queues)
	w.mu.Unlock()
	all := activeAgents{w}
	agents := map[subjects.Agent]bool{}
	for _, name := range w.agents.names() {
		if agent, err := subjects.ParseAgent(name); err == nil {
			agents[agent] = true
		}
	}
	queues := map[subjects.Agent]metrics.Queue{}
	unread := map[subjects.Agent]bool{}
	sources := slices.Collect(maps.Keys(all.sourcesToServe(agents)))
	var mu sync.Mutex // of queues and unread
	_ = each(ctx, sources, func(ctx context.Context, from source) error {
		q, err := queueOf(ctx, all, from)
		if err != nil {
			w.log.DebugContext(ctx, "queue not read", slog.String(keyAgent, from.agent.String()),
				slog.Any(keyError, err))
		}
		mu.Lock()
		defer mu.Unlock()
		unread[from.agent] = unread[from.agent] || err != nil
		queues[from.agent] = queues[from.agent].Add(q)
		return nil // the queues of the other agents are read all the same
	})
	for agent, q := range queues {
		if !unread[agent] {
			l.Queues = append(l.Queues, q)
		}
	}
	return l
}

// queueOf reads the queue of a source.
func queueOf(ctx context.Context, w activeAgents, from source) (q metrics.Queue, _ error) {
	calls, _, err := w.consumers().Position(ctx, w.callsOf(from))
	if err != nil {
		return q, err
	}
	inbound, _, err := w.consumers().Position(ctx, w.inboundOf(from))
	return metrics.Queue{
		Agent: from.agent.String(), Calls: calls.Waiting, Taken: calls.InHand, Inbound: inbound.Waiting,
	}, err
}

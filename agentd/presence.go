package agentd

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/metrics"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/subjects"
)

// keepPresence keeps the worker's entry in the bucket of the workers until ctx
// ends, and answers the questions of other workers. It calls entered when it
// has tried to store the first entry, or has found a live worker of its name.
// If it cannot answer questions, it returns an error and does not call entered.
// It logs the other workers that it finds gone, the messages that it gives back
// for them, a worker of its name, and a worker that takes this one for gone.
func (w *Worker) keepPresence(ctx context.Context, entered func()) error {
	host, _ := os.Hostname() // without a name the entry has none
	began := w.conn.Clocks.Now().UTC()
	k := presence.Keeper{
		Registry: w.registry,
		Entry: func() presence.Entry {
			e := presence.Entry{
				Name: w.cfg.Name, Host: host, PID: os.Getpid(), Slots: w.cfg.Slots, Since: began,
				Agents: w.agents.names(), ClockSteps: w.conn.Clocks.Steps(),
			}
			if w.activity.isOn() {
				e.ActiveAgents = w.cfg.ActiveAgents
			}
			return e
		},
		Recall:        w.cfg.Answers.Recall,
		Work:          func(tree string) presence.Work { return workInHand(w, tree) },
		Changed:       w.entryChanged,
		Entered:       entered,
		WatchInterval: w.cfg.WatchInterval,
		GivenBack: func(of string, messages int) {
			w.log.InfoContext(ctx, "messages of a worker given back", slog.String(keyGone, of),
				slog.Int(keyMessages, messages))
		},
		Mistaken: func(by string) {
			w.log.WarnContext(ctx, "another worker has found this one gone", slog.String(keyBy, by))
		},
		Namesake: func(other presence.Worker) {
			w.log.WarnContext(ctx, "another worker has the same name", slog.String(keyHost, other.Host),
				slog.Int(keyPID, other.PID))
		},
		Found: func(gone presence.Worker, unserved []string) {
			w.log.WarnContext(ctx, "worker found gone", slog.String(keyGone, gone.Name))
			for _, agent := range unserved[:min(len(unserved), maxAgentLines)] {
				w.log.WarnContext(ctx, "no worker serves agent any more", slog.String(keyAgent, agent))
			}
			if len(unserved) > maxAgentLines {
				w.log.WarnContext(ctx, "many agents have no worker any more", slog.Int(keyAgents, len(unserved)))
			}
		},
	}
	return k.Run(ctx)
}

const (
	// servedInterval is the time from the begin of a check of an agent to
	// the next one, unless the check finds that the agent lost its workers.
	servedInterval = time.Second
	// unservedInterval is the time to the next check of an agent after one
	// that found that the agent lost its workers.
	unservedInterval = time.Minute
	// maxChecked bounds the agents that servedChecks remembers.
	maxChecked = 10_000
)

// servedChecks has the time of the next check for the workers of each agent.
type servedChecks struct {
	mu   sync.Mutex
	next map[subjects.Agent]time.Time
}

// due reports whether an agent is to be checked now.
func (c *servedChecks) due(a subjects.Agent, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.next[a]) {
		return false
	}
	if c.next == nil || len(c.next) > maxChecked {
		c.next = map[subjects.Agent]time.Time{}
	}
	c.next[a] = now.Add(servedInterval)
	return true
}

// unserved notes that an agent has lost its workers.
func (c *servedChecks) unserved(a subjects.Agent, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next[a] = now.Add(unservedInterval)
}

// warnUnserved logs that a run was called of an agent, if that agent has lost
// its last worker within a day. It checks that only when the next check is due.
// It does not wait for the answers of other workers.
func (w *Worker) warnUnserved(ctx context.Context, called subjects.Run) {
	if served, _, _ := w.agents.status(called.Agent); served || !w.checks.due(called.Agent, time.Now()) {
		return
	}
	w.handlers.Go(func() {
		s, err := w.registry.Serving(ctx, called.Agent.String())
		if err == nil && s.Unserved() {
			w.checks.unserved(called.Agent, time.Now())
			w.log.WarnContext(ctx, "no worker serves agent: its runs wait", runAttr(called),
				slog.String(keyFormer, strings.Join(s.Former, ",")),
				slog.Time(keySince, s.Since))
		}
	})
}

// logTakeover logs and counts that this worker goes on with a turn that a
// worker had begun under an earlier delivery. That worker, which may be this
// one, has handed it on, or it is taken for one that served the agent and was
// lost after the trigger was stored. Without such a worker, and after a worker
// that has given the turn back for a failure, it logs nothing. It does not wait
// for the answers of other workers.
func (x *execution) logTakeover(ctx context.Context) {
	w := x.w
	r := x.run
	turn := x.nextTurn()
	deliveries := x.t.Count
	before := x.state.Returns.Of(x.t.Seq)
	if last := before.Last; before.Returned(deliveries-1) && last.Turn == turn {
		if last.Cause == run.ReturnFailed {
			return
		}
		w.cfg.Metrics.TookOver(string(last.Cause))
		w.log.InfoContext(ctx, "run handed on", runAttr(r), slog.Int(keyTurn, turn),
			slog.String(keyFrom, last.Worker), slog.String(keyCause, string(last.Cause)),
			slog.Int64(keyMS, last.AskedMS), slog.Int(keyCount, deliveries))
		return
	}
	stored := x.t.Time.Add(x.clock().Shift(x.t.Stored))
	w.handlers.Go(func() {
		lost, err := w.registry.Lost(ctx, r.Agent.String(), stored)
		if err != nil || len(lost) == 0 {
			return
		}
		var names []string
		for _, loss := range lost {
			names = append(names, loss.Worker)
		}
		w.cfg.Metrics.TookOver(metrics.CauseLost)
		after := w.conn.Clocks.Now().Sub(lost[0].At).Round(time.Millisecond)
		w.log.InfoContext(ctx, "run taken over", runAttr(r), slog.Int(keyTurn, turn),
			slog.String(keyFrom, strings.Join(names, ",")), slog.Duration(keyAfter, after),
			slog.Int(keyCount, deliveries))
	})
}

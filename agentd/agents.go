package agentd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// Broken is an agent that cannot be served, because its file is wrong.
type Broken struct {
	Name subjects.Agent
	// Problem is one line for the callers of the agent.
	Problem string
}

// Serve sets the agents that the worker serves from now on, and the broken
// ones: their callers are told the problem. Runs under way keep the definition
// with which they were started. A call of an agent that is no longer served
// goes to a worker that has the agent; without one it is refused. Run takes no
// trigger before the first call of Serve.
func (w *Worker) Serve(agents []configs.Agent, broken ...Broken) error {
	set := make(map[subjects.Agent]configs.Agent, len(agents))
	for _, a := range agents {
		name, err := subjects.ParseAgent(a.Name)
		if err != nil {
			return err
		}
		if _, twice := set[name]; twice {
			return fmt.Errorf("agent %s is defined twice", name)
		}
		set[name] = a
	}
	w.agents.replace(set, broken)
	pause.Notify(w.agents.changed)
	return nil
}

// agentSet holds the definitions of a worker's agents.
type agentSet struct {
	// changed holds a token after a call of Serve, and after a change of
	// the directory that concerns this worker.
	changed chan struct{}

	mu     sync.Mutex
	served map[subjects.Agent]configs.Agent
	// broken has, for each agent with a wrong file, the problem.
	broken map[subjects.Agent]string
	// removed has the time at which a served or broken agent was removed.
	removed map[subjects.Agent]time.Time
	// departed are the agents that were removed, or became broken, and of
	// which the directory has not been told yet.
	departed map[subjects.Agent]bool
}

func newAgentSet() *agentSet {
	return &agentSet{
		changed: make(chan struct{}, 1), removed: map[subjects.Agent]time.Time{}, departed: map[subjects.Agent]bool{},
	}
}

// replace sets the served and the broken agents.
func (s *agentSet) replace(served map[subjects.Agent]configs.Agent, broken []Broken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldServed, oldBroken := s.served, s.broken
	s.served = served
	s.broken = map[subjects.Agent]string{}
	for _, b := range broken {
		if _, ok := served[b.Name]; !ok {
			s.broken[b.Name] = b.Problem
			s.departed[b.Name] = s.departed[b.Name] || oldBroken[b.Name] != b.Problem
		}
	}
	for name := range oldServed {
		s.remove(name)
	}
	for name := range oldBroken {
		s.remove(name)
	}
	for name := range served {
		delete(s.removed, name)
		delete(s.departed, name)
	}
	for name := range s.broken {
		delete(s.removed, name)
	}
}

// remove notes that an agent is no longer served. The caller holds the lock.
func (s *agentSet) remove(name subjects.Agent) {
	s.removed[name] = time.Now()
	if _, ok := s.broken[name]; !ok {
		s.departed[name] = true
	}
}

// definitions returns the definitions of the served agents.
func (s *agentSet) definitions() map[subjects.Agent]configs.Agent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.served)
}

// definition returns the definition of a served agent.
func (s *agentSet) definition(a subjects.Agent) (configs.Agent, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	def, ok := s.served[a]
	return def, ok
}

// names returns the names of the served agents, sorted.
func (s *agentSet) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.served))
	for name := range s.served {
		names = append(names, name.String())
	}
	slices.Sort(names)
	return names
}

// len returns the number of served agents.
func (s *agentSet) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.served)
}

// status reports whether an agent is served, broken, or removed.
func (s *agentSet) status(a subjects.Agent) (served, broken, removed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, served = s.served[a]
	_, broken = s.broken[a]
	_, removed = s.removed[a]
	return served, broken, removed
}

// removedAgents returns the removed agents, each with the time of its removal.
func (s *agentSet) removedAgents() map[subjects.Agent]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.removed)
}

// takeDeparted reports, once, whether the directory is to be told that an agent
// was removed or became broken.
func (s *agentSet) takeDeparted(a subjects.Agent) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	departed := s.departed[a]
	delete(s.departed, a)
	return departed
}

// cards returns the cards of a worker's agents, broken ones included.
func (s *agentSet) cards(cfg Config) map[subjects.Agent]Card {
	s.mu.Lock()
	defer s.mu.Unlock()
	cards := make(map[subjects.Agent]Card, len(s.served)+len(s.broken))
	for name, a := range s.served {
		cards[name] = Card{
			Name: a.Name, Description: a.Description, Model: cmp.Or(cfg.Model, a.Model),
			SubAgents: a.SubAgents, Style: a.Delegation.Names(), Digest: a.Digest, Worker: cfg.Name,
		}
	}
	for name, problem := range s.broken {
		cards[name] = Card{Name: name.String(), Problem: problem, Worker: cfg.Name}
	}
	return cards
}

// definition returns a run's agent as this worker has it, with the changes that
// the worker's configuration makes.
func (w *Worker) definition(r subjects.Run) (configs.Agent, bool) {
	def, ok := w.agents.definition(r.Agent)
	def.Model = cmp.Or(w.cfg.Model, def.Model)
	if ok && r.Path.IsRoot() && w.cfg.Root != nil {
		def = w.cfg.Root(def)
	}
	return def, ok
}

// serveAgents starts and stops the loops of agents as Serve and the directory
// change, until ctx ends. Then it waits for all loops.
func (w *Worker) serveAgents(ctx, work context.Context) {
	var loops sync.WaitGroup
	defer loops.Wait()
	stops := map[subjects.Agent]context.CancelFunc{}
	logged := map[subjects.Agent]configs.Agent{}
	for {
		select {
		case <-ctx.Done():
			for _, stop := range stops {
				stop()
			}
			return
		case <-w.agents.changed:
		}
		w.announceAll(ctx)
		pause.Notify(w.entryChanged)
		agents := w.agentsToServe(ctx)
		for name, stop := range stops {
			if !agents[name] {
				stop()
				delete(stops, name)
			}
		}
		for name := range agents {
			if stops[name] != nil {
				continue
			}
			loop, stop := context.WithCancel(ctx)
			stops[name] = stop
			for partition := range w.conn.Space().Partitions() {
				from := source{name, partition}
				loops.Go(func() { w.serveCalls(loop, work, from) })
				loops.Go(func() { w.serveInbound(loop, work, from) })
			}
		}
		logged = w.logChanges(ctx, logged)
	}
}

// logChanges logs which agents came, changed and went since the last call,
// which returned before. It returns the agents that are served now.
func (w *Worker) logChanges(
	ctx context.Context, before map[subjects.Agent]configs.Agent,
) map[subjects.Agent]configs.Agent {
	now := w.agents.definitions()
	for name := range before {
		if _, ok := now[name]; !ok {
			w.log.InfoContext(ctx, "agent removed", slog.String(keyAgent, name.String()))
		}
	}
	for name, def := range now {
		log := w.log.With(slog.String(keyAgent, name.String()), slog.String(keyFile, def.File))
		old, ok := before[name]
		if !ok {
			log.InfoContext(ctx, "serving agent")
		} else if keys := configs.ChangedKeys(old, def); len(keys) > 0 {
			log.InfoContext(ctx, "agent changed", slog.String(keyKeys, strings.Join(keys, ", ")))
		}
	}
	return now
}

// agentsToServe returns the worker's own agents, and the removed agents that no
// other worker serves: their runs under way go on, and new calls are refused
// instead of left waiting.
func (w *Worker) agentsToServe(ctx context.Context) map[subjects.Agent]bool {
	agents := map[subjects.Agent]bool{}
	for name := range w.agents.definitions() {
		agents[name] = true
	}
	for name := range w.agents.removedAgents() {
		if w.agents.takeDeparted(name) {
			w.retryAnnounce(ctx, func() error { return w.directory.withdraw(ctx, name) })
		}
		if !w.directory.announced(name) {
			agents[name] = true
		}
	}
	return agents
}

// announceAll puts the cards of the worker's agents into the directory.
func (w *Worker) announceAll(ctx context.Context) {
	for name, c := range w.agents.cards(w.cfg) {
		first := c.Problem != "" && w.agents.takeDeparted(name)
		w.retryAnnounce(ctx, func() error { return w.directory.announce(ctx, c, first) })
	}
}

// retryAnnounce changes the directory: it calls do until it succeeds or ctx
// ends.
func (w *Worker) retryAnnounce(ctx context.Context, do func() error) {
	pause.Retry(ctx, busRetryDelay, do, func(err error) {
		w.log.WarnContext(ctx, "directory not changed, trying again", slog.Any(keyError, err))
	})
}

// directoryChanged answers a change of the directory. If another worker has
// withdrawn an agent of this worker, or has announced it as broken, this worker
// announces it again. An agent that this worker removed may now be served by no
// worker; then this worker winds its runs up.
func (w *Worker) directoryChanged(name string, c Card, gone bool) {
	a, err := subjects.ParseAgent(name)
	if err != nil {
		return
	}
	served, broken, removed := w.agents.status(a)
	if removed || gone && (served || broken) || served && c.Problem != "" {
		pause.Notify(w.agents.changed)
	}
}

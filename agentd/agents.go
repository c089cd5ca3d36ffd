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

// Serve sets the agents and toolsets that the worker serves from now on, and
// the broken ones: their callers are told the problem. Runs under way keep the
// definition with which they were started. A call of an agent that is no longer
// served goes to a worker that has the agent; without one it is refused. Run
// takes no trigger before the first call of Serve. An agent or a toolset with
// commands counts as broken if the worker cannot hold them (Config.Sandbox). An
// invalid name, or one that is defined twice, is an error, and nothing changes
// then.
func (w *Worker) Serve(defs configs.Definitions, broken ...Broken) error {
	defs, refused := w.cfg.Sandbox.withoutCommands(defs, w.log)
	broken = append(broken, refused...)
	agents, err := byName(defs.Agents, func(a configs.Agent) string { return a.Name })
	if err != nil {
		return err
	}
	sets, err := byName(defs.Toolsets, func(t configs.Toolset) string { return t.Name })
	if err != nil {
		return err
	}
	for name := range sets {
		if _, twice := agents[name]; twice {
			return fmt.Errorf("%s is an agent and a toolset", name)
		}
	}
	w.toolsets.replace(keyed(defs))
	w.agents.replace(agents, sets, broken)
	pause.Notify(w.agents.changed)
	return nil
}

// byName returns definitions by their names.
func byName[T any](defs []T, nameOf func(T) string) (map[subjects.Agent]T, error) {
	all := make(map[subjects.Agent]T, len(defs))
	for _, d := range defs {
		name, err := subjects.ParseAgent(nameOf(d))
		if err != nil {
			return nil, err
		}
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("%s is defined twice", name)
		}
		all[name] = d
	}
	return all, nil
}

// agentSet holds the definitions of a worker's agents, and the names of its
// toolsets, which are served and announced in the same way.
type agentSet struct {
	// changed holds a token after a call of Serve, and after a change of
	// the directory that concerns this worker.
	changed chan struct{}

	mu     sync.Mutex
	served map[subjects.Agent]configs.Agent
	// toolsets has the names of the served toolsets.
	toolsets map[subjects.Agent]configs.Toolset
	// sorted has the names of the served agents and toolsets.
	sorted []string
	// broken has, for each agent with a wrong file, the problem.
	broken map[subjects.Agent]string
	// removed has the time at which a served or broken agent was removed.
	removed map[subjects.Agent]time.Time
	// departed are the agents that were removed, or are broken with a new
	// problem, and of which the directory has not been told yet.
	departed map[subjects.Agent]bool
}

func newAgentSet() *agentSet {
	return &agentSet{
		changed: make(chan struct{}, 1), removed: map[subjects.Agent]time.Time{}, departed: map[subjects.Agent]bool{},
	}
}

// replace sets the served agents and toolsets, and the broken ones.
func (s *agentSet) replace(
	served map[subjects.Agent]configs.Agent, sets map[subjects.Agent]configs.Toolset, broken []Broken,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.servedNames()
	oldBroken := s.broken
	s.served = served
	s.toolsets = sets
	now := s.servedNames()
	s.sorted = make([]string, len(now))
	for i, name := range now {
		s.sorted[i] = name.String()
	}
	slices.Sort(s.sorted)
	s.broken = map[subjects.Agent]string{}
	for _, b := range broken {
		if !s.serves(b.Name) {
			s.broken[b.Name] = b.Problem
			s.departed[b.Name] = s.departed[b.Name] || oldBroken[b.Name] != b.Problem
		}
	}
	for _, name := range before {
		s.remove(name)
	}
	for name := range oldBroken {
		s.remove(name)
	}
	for _, name := range now {
		delete(s.removed, name)
		delete(s.departed, name)
	}
	for name := range s.broken {
		delete(s.removed, name)
	}
}

// servedNames returns the names of the served agents and toolsets. The caller
// holds the lock.
func (s *agentSet) servedNames() []subjects.Agent {
	return slices.AppendSeq(slices.Collect(maps.Keys(s.served)), maps.Keys(s.toolsets))
}

// serves reports whether an agent or a toolset is served. The caller holds the
// lock.
func (s *agentSet) serves(name subjects.Agent) bool {
	_, agent := s.served[name]
	_, set := s.toolsets[name]
	return agent || set
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

// names returns the names of the served agents and toolsets, sorted. The caller
// must not change them.
func (s *agentSet) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sorted
}

// len returns the number of served agents and toolsets.
func (s *agentSet) len() int { return len(s.names()) }

// status reports whether an agent or a toolset is served, broken, or removed.
func (s *agentSet) status(a subjects.Agent) (served, broken, removed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	served = s.serves(a)
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
			SubAgents: a.SubAgents, Style: a.Delegation.Names(), Timeout: a.Timeout, Digest: a.Digest,
			Worker: cfg.Name, Tools: namedTools(a), Servers: serverNames(a),
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

// serveAgents starts and stops the loops of sources as Serve, the directory and
// the records of active sources change, until ctx ends. Then it waits for all
// loops.
func (w *Worker) serveAgents(ctx, work context.Context) {
	var loops sync.WaitGroup
	defer loops.Wait()
	stops := map[source]context.CancelFunc{}
	logged := map[subjects.Agent]configs.Agent{}
	var agents map[subjects.Agent]bool
	var activations context.CancelFunc
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.activity.changed:
		case <-w.agents.changed:
			w.announceAll(ctx)
			agents = w.agentsToServe(ctx)
			logged = w.logChanges(ctx, logged)
			activations = activeAgents{w}.turnActivity(ctx, work, &loops, activations)
			pause.Notify(w.entryChanged)
		}
		sources := activeAgents{w}.sourcesToServe(agents)
		w.pulled.Store(int64(len(sources)))
		for from, stop := range stops {
			if !sources[from] {
				stop()
				delete(stops, from)
			}
		}
		for from := range sources {
			if stops[from] != nil {
				continue
			}
			loop, stop := context.WithCancel(ctx)
			stops[from] = stop
			loops.Go(func() { w.serveCalls(loop, work, from) })
			loops.Go(func() { w.serveInbound(loop, work, from) })
		}
	}
}

// turnActivity makes the worker pull for active agents alone, or for all its
// agents, as their number demands. Stop ends the goroutines of the former. It
// is nil while the worker pulls for all. turnActivity returns the new stop.
func (w activeAgents) turnActivity(
	ctx, work context.Context, loops *sync.WaitGroup, stop context.CancelFunc,
) context.CancelFunc {
	switch many := w.agents.len() > w.cfg.ActiveAgents; {
	case !many && stop != nil:
		stop()
		w.activity.turn(false)
		return nil
	case !many || stop != nil:
		return stop
	}
	ctx, stop = context.WithCancel(ctx)
	w.activity.turn(true)
	loops.Go(func() {
		pause.Retry(ctx, busRetryDelay, func() error { return w.loadActivity(ctx) }, w.pullFailures.add)
		for partition := range w.conn.Space().Partitions() {
			loops.Go(func() { w.serveActivations(ctx, work, partition) })
		}
		loops.Go(func() { w.letAgentsGo(ctx) })
		w.activity.follow(ctx, w.loadActivity, w.pullFailures.add)
	})
	return stop
}

// sourcesToServe returns the sources of the agents to serve, of active ones
// alone if the agents are many.
func (w activeAgents) sourcesToServe(agents map[subjects.Agent]bool) map[source]bool {
	sources := map[source]bool{}
	if w.activity.isOn() {
		for _, s := range w.activity.activeSources() {
			if agents[s.agent] {
				sources[s] = true
			}
		}
		return sources
	}
	for name := range agents {
		for partition := range w.conn.Space().Partitions() {
			sources[source{name, partition}] = true
		}
	}
	return sources
}

// logChanges logs which agents came, changed and went since the last call,
// which returned before. It returns the agents that are served now.
func (w *Worker) logChanges(
	ctx context.Context, before map[subjects.Agent]configs.Agent,
) map[subjects.Agent]configs.Agent {
	now := w.agents.definitions()
	var added, removed int
	for name := range before {
		if _, ok := now[name]; !ok {
			if removed++; removed <= maxAgentLines {
				w.log.InfoContext(ctx, "agent removed", slog.String(keyAgent, name.String()))
			}
		}
	}
	for name, def := range now {
		log := w.log.With(slog.String(keyAgent, name.String()), slog.String(keyFile, def.File))
		old, ok := before[name]
		if !ok {
			if added++; added <= maxAgentLines {
				log.InfoContext(ctx, "serving agent", toolAttrs(def)...)
			}
		} else if keys := configs.ChangedKeys(old, def); len(keys) > 0 {
			log.InfoContext(ctx, "agent changed", slog.String(keyKeys, strings.Join(keys, ", ")))
		}
	}
	if added > maxAgentLines || removed > maxAgentLines {
		w.log.InfoContext(ctx, "serving many agents", slog.Int(keyAgents, len(now)), slog.Int(keyAdded, added),
			slog.Int(keyRemoved, removed))
	}
	return now
}

// maxAgentLines is the largest number of agents of one kind, for example added
// ones, for which a worker logs a line each at a time. If there are more, it
// also logs how many there are.
const maxAgentLines = 100

// agentsToServe returns the worker's own agents, and the removed agents that no
// other worker serves: their runs under way go on, and new calls are refused
// instead of left waiting. It first withdraws the cards of agents that were
// removed since the last call.
func (w *Worker) agentsToServe(ctx context.Context) map[subjects.Agent]bool {
	agents := map[subjects.Agent]bool{}
	for _, text := range w.agents.names() {
		if name, err := subjects.ParseAgent(text); err == nil {
			agents[name] = true
		}
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

// cardsTogether is the largest number of cards that a worker puts into the
// directory with one write. Workers that start together put the same cards:
// between two writes each hears what the others have put.
const cardsTogether = 500

// announceAll puts those cards of the worker's agents into the directory that
// the directory lacks. It tries until ctx ends. More than a few cards are
// written together. If that fails, each is written by itself, so that one bad
// card holds up no other.
func (w *Worker) announceAll(ctx context.Context) {
	var news []announcement
	cards := w.agents.cards(w.cfg)
	maps.Copy(cards, w.toolsets.cards(w.cfg.Name))
	for name, c := range cards {
		c = c.bounded()
		first := c.Problem != "" && w.agents.takeDeparted(name)
		if w.directory.lacks(c, first) {
			news = append(news, announcement{c, first})
		}
	}
	for some := range slices.Chunk(news, cardsTogether) {
		if len(some) > atOnce && w.directory.announce(ctx, some...) == nil {
			continue
		}
		_ = each(ctx, some, func(ctx context.Context, n announcement) error {
			w.retryAnnounce(ctx, func() error { return w.directory.announce(ctx, n) })
			return nil // it has succeeded, or ctx has ended
		})
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

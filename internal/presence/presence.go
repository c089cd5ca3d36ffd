// Package presence tells which workers are on the bus, and which agents they
// serve.
//
// A worker keeps an entry in a bucket, and answers requests on a subject of its
// own. The entry says which agents it serves. The answer says that its process
// is there. The server refuses a request to a process that is gone at once, so
// the death of a process is known at once. A process that is frozen or cut off
// counts as gone when its entry is 30 s old.
//
//	s, err := presence.New(conn).Serving(ctx, "reader")
//	if err == nil && s.Unserved() {
//		fmt.Println(s.Text(time.Now()))
//	}
package presence

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// Entry is a worker's entry in the bucket AXE_WORKERS.
type Entry struct {
	Name string `json:"name"`
	Host string `json:"host,omitzero"`
	PID  int    `json:"pid,omitzero"`
	// Slots is the number of model calls that the worker makes at a time.
	Slots  int      `json:"slots"`
	Agents []string `json:"agents"`
	// ActiveAgents is the number of agents beyond which the worker pulls
	// only for those that have work. It is 0 for a worker that pulls for
	// all its agents.
	ActiveAgents int `json:"active_agents,omitzero"`
	// AgentsIn names the list of agents that Agents has no room for. Agents
	// is empty then in the bucket. Readers of Workers find it filled in.
	AgentsIn string `json:"agents_in,omitzero"`
	// Since is the time at which the worker began.
	Since time.Time `json:"since"`
	// Ended is the time at which the worker ended, or at which its process
	// was first missed: another worker looks for it each second.
	Ended time.Time `json:"ended,omitzero"`
	// Predecessor is the time of the last sign of life of an earlier process
	// with this name that neither drained nor was found gone.
	Predecessor time.Time `json:"predecessor,omitzero"`
	// FoundBy is the name of the worker that found the process gone. It is
	// empty for a worker that is there, or has drained.
	FoundBy string `json:"found_by,omitzero"`
	// ClockSteps are the steps of the server's clock that the worker knows
	// of. Workers that start later learn them from here.
	ClockSteps []bus.Step `json:"clock_steps,omitzero"`
}

// Worker is a worker as the bus knows it.
type Worker struct {
	Entry
	// Seen is the time at which the server stored the entry.
	Seen time.Time
	rev  uint64
	// list is the list that AgentsIn names; nil if Agents is the list.
	list *agentList
}

// token is the worker's name in subjects.
func (w Worker) token() subjects.Worker { return subjects.WorkerOf(w.Name) }

// serves reports whether the worker serves an agent, or served it until it
// ended.
func (w Worker) serves(agent string) bool {
	if w.list != nil {
		return w.list.has[agent]
	}
	return slices.Contains(w.Agents, agent)
}

// lastSeen is the time of the last sign of life of a worker that is gone.
func (w Worker) lastSeen() time.Time {
	if w.Ended.IsZero() {
		return w.Seen
	}
	return w.Ended
}

// Registry reads the workers of a bus. Between requests it keeps only long
// lists of agents, which never change.
type Registry struct {
	workers *bus.Workers
	clocks  *bus.Clocks
	lists   *agentLists
	// space returns the subjects of the bus.
	space func() subjects.Space
}

// New makes the registry of an open connection, which stays the caller's to
// close.
func New(conn *bus.Conn) Registry {
	workers := conn.Workers()
	return Registry{workers, conn.Clocks, &agentLists{workers: workers}, conn.Space}
}

// Workers lists the workers on the bus and those of the last day, sorted by
// name.
func (r Registry) Workers(ctx context.Context) ([]Worker, error) { return r.list(ctx, time.Time{}) }

// recentTime is the age up to which Recent returns an entry. An older one is
// that of a worker that is gone, with all leases that it had.
const recentTime = staleAge + 5*time.Second

// Recent lists the workers that have stored their entries in the last 35 s.
// That are all workers that are there, and those that ended a moment ago. So
// its cost does not grow with the number of workers that ended in a day.
func (r Registry) Recent(ctx context.Context) ([]Worker, error) {
	return r.list(ctx, r.clocks.Now().Add(-recentTime))
}

func (r Registry) list(ctx context.Context, since time.Time) ([]Worker, error) {
	entries, err := r.workers.List(ctx, since)
	if err != nil {
		return nil, err
	}
	var all []Worker
	for _, m := range entries {
		w, err := r.decode(ctx, m)
		if err != nil {
			return nil, err
		}
		if w.Name != "" {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b Worker) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// decode decodes an entry, and reads the list of agents that it names. For an
// entry that is none, and after an error, it returns a Worker that has its
// revision alone.
func (r Registry) decode(ctx context.Context, m bus.Stored) (Worker, error) {
	w := Worker{Seen: m.Time, rev: m.Seq}
	if err := json.Unmarshal(m.Body, &w.Entry); err != nil {
		return Worker{rev: m.Seq}, nil //nolint:nilerr // another writer's value
	}
	var err error
	if w.AgentsIn != "" {
		if w.list, err = r.lists.read(ctx, w.AgentsIn); err != nil {
			return Worker{rev: m.Seq}, err
		}
		w.Agents = w.list.names
	}
	return w, nil
}

// LearnClockSteps tells a connection the steps of the server's clock that the
// workers of the last day have measured. A worker that is there knows them all.
func LearnClockSteps(ctx context.Context, conn *bus.Conn) error {
	r := New(conn)
	all, err := r.Recent(ctx)
	if err == nil && !slices.ContainsFunc(all, func(w Worker) bool { return w.Ended.IsZero() }) {
		all, err = r.Workers(ctx)
	}
	for _, w := range all {
		conn.Clocks.Learn(w.ClockSteps)
	}
	return err
}

// staleAge is the age of its entry at which a worker that does not answer
// counts as gone. Its process may be frozen, or cut off from the server.
const staleAge = 3 * refreshInterval

// Alive reports whether a worker is there. A worker that does not answer is
// there as long as the server knows its process and its entry is younger than
// 30 s.
func (r Registry) Alive(ctx context.Context, w Worker) bool {
	alive, _ := r.sign(ctx, w)
	return alive
}

// sign asks a worker for a sign of life. Trouble names the stream that keeps
// the worker from its work, and says why. It is "" without one.
func (r Registry) sign(ctx context.Context, w Worker) (alive bool, trouble string) {
	if !w.Ended.IsZero() {
		return false, ""
	}
	trouble, err := r.workers.Ask(ctx, w.token())
	return err == nil || !errors.Is(err, bus.ErrNoWorker) && r.clocks.Now().Sub(w.Seen) < staleAge, trouble
}

// Kept asks the live workers other than self whether one of them has the
// message of a delivery in hand. If one has, that worker keeps the message
// (bus.Workers.Keeps), and Kept returns true. It asks all at once, and waits
// for their answers for a second at most.
func (r Registry) Kept(ctx context.Context, self string, d *bus.Delivery) (bool, error) {
	return r.askOthers(ctx, self, func(ctx context.Context, w subjects.Worker) bool {
		return r.workers.Keeps(ctx, w, d)
	})
}

// Recall asks the live workers other than self for the answer of a model; nil
// if none knows it. It asks all at once, and waits for their answers for a
// second at most.
func (r Registry) Recall(ctx context.Context, self, key string) []byte {
	found := make(chan []byte, 1)
	_, _ = r.askOthers(ctx, self, func(ctx context.Context, w subjects.Worker) bool {
		answer := r.workers.Recall(ctx, w, key)
		if len(answer) == 0 {
			return false
		}
		select {
		case found <- answer:
		default: // another worker knew it as well
		}
		return true
	})
	select {
	case answer := <-found:
		return answer
	default:
		return nil
	}
}

// askOthers calls ask at once for each live worker other than self, and reports
// whether one of the calls has returned true. The context of the others then
// ends: their answers do not matter.
func (r Registry) askOthers(
	ctx context.Context, self string, ask func(context.Context, subjects.Worker) bool,
) (bool, error) {
	all, err := r.Recent(ctx)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var yes atomic.Bool
	var asked sync.WaitGroup
	for _, w := range all {
		if !w.Ended.IsZero() || w.Name == self || r.clocks.Now().Sub(w.Seen) >= staleAge {
			continue
		}
		asked.Go(func() {
			if ask(ctx, w.token()) {
				yes.Store(true)
				cancel()
			}
		})
	}
	asked.Wait()
	return yes.Load(), nil
}

// Service says which workers serve an agent.
type Service struct {
	// Agent is empty for a Service of all workers.
	Agent string
	// Live has the names of the workers that serve the agent.
	Live []string
	// Former has the names of the workers that served the agent in the last
	// day and are gone, the last one first.
	Former []string
	// Since is the time of the last sign of life of any worker in Former.
	Since time.Time
}

// Unserved reports whether no worker serves the agent any more. It is false for
// an agent that no worker has served in the last day: the agent may be a
// program of another kind.
func (s Service) Unserved() bool { return len(s.Live) == 0 && len(s.Former) > 0 }

// maxNamed is the number of former workers that Text names.
const maxNamed = 5

// Text describes an unserved agent or, without an agent, a bus without workers.
func (s Service) Text(now time.Time) string {
	names := strings.Join(s.Former[:min(len(s.Former), maxNamed)], ", ")
	if more := len(s.Former) - maxNamed; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	claim, did := "no worker serves "+s.Agent, "did"
	if s.Agent == "" {
		claim, did = "no worker is there", "were"
	}
	return fmt.Sprintf("%s since %s; workers that %s: %s", claim, Age(now.Sub(s.Since)), did, names)
}

// Age formats a time span in whole seconds, minutes or hours: 8 s, 3 min, 2 h.
func Age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h", int(d.Hours()))
}

// reconnectTime is the time that a worker gets to connect again to a server
// that was away.
const reconnectTime = 300 * time.Millisecond

// Serving finds the workers that serve an agent. An agent counts as unserved if
// two looks, reconnectTime apart, find no live worker.
func (r Registry) Serving(ctx context.Context, agent string) (s Service, err error) {
	for look := range 2 {
		if look > 0 {
			if err := pause.For(ctx, reconnectTime); err != nil {
				return Service{}, err
			}
		}
		survey, err := r.Survey(ctx)
		if err != nil {
			return Service{}, err
		}
		if s = survey.Serving(ctx, agent); !s.Unserved() {
			break
		}
	}
	return s, nil
}

// Survey is one look at all workers. It asks each worker at most once.
type Survey struct {
	registry Registry
	workers  []Worker
	alive    map[string]bool
	// trouble is the first trouble of a worker (sign).
	trouble string
}

// Survey begins a look at all workers.
func (r Registry) Survey(ctx context.Context) (*Survey, error) {
	all, err := r.Workers(ctx)
	return r.surveyOf(all), err
}

func (r Registry) surveyOf(all []Worker) *Survey {
	return &Survey{registry: r, workers: all, alive: map[string]bool{}}
}

// isAlive reports whether a worker is there.
func (s *Survey) isAlive(ctx context.Context, w Worker) bool {
	alive, asked := s.alive[w.Name]
	if !asked {
		var trouble string
		alive, trouble = s.registry.sign(ctx, w)
		s.alive[w.Name] = alive
		s.trouble = cmp.Or(s.trouble, trouble)
	}
	return alive
}

// Workers returns the workers that the survey began with: those on the bus, and
// the last ones that ended.
func (s *Survey) Workers() []Worker { return s.workers }

// Trouble names a stream that keeps a worker from its work, and says why. It is
// "" if no worker that was asked so far has said so.
func (s *Survey) Trouble() string { return s.trouble }

// Gone reports whether a worker has an entry and is not alive.
func (s *Survey) Gone(ctx context.Context, name string) bool {
	w := named(s.workers, name)
	return w.Name != "" && !s.isAlive(ctx, w)
}

// Serving sorts the workers of an agent into live and former ones. For the
// agent "" it sorts all workers.
func (s *Survey) Serving(ctx context.Context, agent string) Service {
	found := Service{Agent: agent}
	var former []Worker
	for _, w := range s.workers {
		switch {
		case agent != "" && !w.serves(agent):
		case s.isAlive(ctx, w):
			found.Live = append(found.Live, w.Name)
		default:
			former = append(former, w)
		}
	}
	slices.SortStableFunc(former, func(a, b Worker) int { return b.lastSeen().Compare(a.lastSeen()) })
	for _, w := range former {
		found.Former = append(found.Former, w.Name)
	}
	if len(former) > 0 {
		found.Since = former[0].lastSeen()
	}
	return found
}

// Loss is the loss of a worker's process.
type Loss struct {
	Worker string
	// At is the time of the last sign of life.
	At time.Time
}

// Lost returns the losses of processes that served an agent, the last one
// first. It leaves out the processes that were gone before since, a time of the
// server, and those that have been gone for longer than half a minute. A worker
// that has drained is not lost.
func (r Registry) Lost(ctx context.Context, agent string, since time.Time) ([]Loss, error) {
	all, err := r.Recent(ctx)
	if err != nil {
		return nil, err
	}
	var lost []Loss
	// A worker that was seen may have lived until it had to be seen again.
	add := func(w Worker, at time.Time, lived time.Duration) {
		if !at.Add(lived).Before(since) {
			lost = append(lost, Loss{w.Name, at})
		}
	}
	for _, w := range all {
		if !w.serves(agent) {
			continue
		}
		if !w.Predecessor.IsZero() {
			add(w, w.Predecessor, refreshInterval)
		}
		switch {
		case w.FoundBy != "":
			add(w, w.Ended, 0)
		case w.Ended.IsZero() && !r.Alive(ctx, w):
			add(w, w.Seen, staleAge)
		}
	}
	slices.SortStableFunc(lost, func(a, b Loss) int { return b.At.Compare(a.At) })
	return lost, nil
}

// AlwaysActive returns the agents of the workers that pull for all their
// agents, also for those without work. A worker without an end counts, though
// it may be gone.
func (r Registry) AlwaysActive(ctx context.Context) (map[string]bool, error) {
	all, err := r.Workers(ctx)
	if err != nil {
		return nil, err
	}
	active := map[string]bool{}
	for _, w := range all {
		if !w.Ended.IsZero() || w.ActiveAgents > 0 {
			continue
		}
		for _, agent := range w.Agents {
			active[agent] = true
		}
	}
	return active, nil
}

package agentd_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// sim is a server in a bubble of virtual time, with workers that come, go and
// die. Models take a second.
type sim struct {
	tb     failer
	ctx    context.Context //nolint:containedctx // a bubble's, for as long as it lasts
	server *bus.Server
	conn   *bus.Conn // of who submits and checks
	model  *treeModel
	agents []configs.Agent

	opened uint64 // connections
	// that were found in the trees that were checked
	letters int
}

// failer is what testing.T and rapid.T have in common here.
type failer interface {
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// partitions is over how many streams the trees of all bubbles are spread.
var partitions = flag.Int("partitions", 1, "streams that trees are spread over, where a test does not say it itself")

// bubble runs fn with a sim in a bubble of its own.
func bubble(t *testing.T, fn func(s *sim)) {
	t.Helper()
	bubbleOver(t, *partitions, fn)
}

// bubbleOver is the same with so many streams of runs.
func bubbleOver(t *testing.T, parts int, fn func(s *sim)) {
	t.Helper()
	ats.Register()
	defer ats.Unregister()
	defer watch(t.Name())()
	synctest.Test(t, func(t *testing.T) { inBubble(t, t.TempDir(), parts, fn) })
}

// endless is when a bubble is taken for one that never ends, in real time: in
// it virtual time runs on with somebody waiting for what never comes, or stands
// still because of a lock.
const endless = 5 * time.Minute

// watch is for outside of a bubble, until it has ended.
func watch(test string) (stop func() bool) {
	return time.AfterFunc(endless, func() { stuck(test) }).Stop
}

// stuck ends the process of a test that does not end, and says where those are
// who have a part in it: the goroutines of a bubble that run our code, and
// those that keep its time from going on. All of them, the server's above all,
// would be thousands of lines.
func stuck(test string) {
	all := make([]byte, 64<<20)
	all = all[:runtime.Stack(all, true)]
	for g := range strings.SplitSeq(string(all), "\n\n") {
		state, _, _ := strings.Cut(g, "\n")
		if strings.Contains(state, "synctest bubble") &&
			(strings.Contains(g, "axebus/axe/") || !strings.Contains(state, "durable")) {
			fmt.Fprintln(os.Stderr, g+"\n")
		}
	}
	fmt.Fprintf(os.Stderr, "%s has not ended for %v: above is where it stands\n", test, endless)
	os.Exit(2)
}

func inBubble(tb failer, dir string, parts int, fn func(s *sim)) {
	server, err := bus.Serve(bus.ServerConfig{StoreDir: dir})
	if err != nil {
		tb.Fatal(err)
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := &sim{tb: tb, ctx: ctx, server: server, model: newTreeModel()}
	s.conn = s.open(bus.Config{})
	defer s.conn.Close()
	if err := s.conn.Provision(ctx, bus.Provision{Partitions: parts}); err != nil {
		tb.Fatal(err)
	}
	fn(s)
}

// open opens a connection. To every other one all that is new is far.
func (s *sim) open(cfg bus.Config) *bus.Conn {
	cfg.Dial, cfg.ScanLimit = bus.Dial{Server: s.server}, s.opened%2
	s.opened++
	c, err := bus.Open(s.ctx, cfg)
	if err != nil {
		s.tb.Fatal(err)
	}
	return c
}

// errKilled is what a dead worker's operations return.
var errKilled = errors.New("killed")

// proc is a worker that can die like a process does: without a word to anybody.
type proc struct {
	name  string
	conn  *bus.Conn
	stop  context.CancelFunc
	ended chan error

	mu    sync.Mutex
	dead  bool
	cut   bool // it hears, and is not heard
	steps int
}

// start runs a worker. At each of its steps before is called, which may kill
// it.
func (s *sim) start(name string, cfg agentd.Config, before func(p *proc, step int, at bus.Point)) *proc {
	return s.startWith(name, cfg, nil, before)
}

// startZombie runs a worker, the victim, that gives no sign of life while it is
// frozen.
func (s *sim) startZombie(frozen *atomic.Bool, before func(p *proc, step int, at bus.Point)) *proc {
	return s.startWith("victim", agentd.Config{}, frozen, before)
}

func (s *sim) startWith(
	name string,
	cfg agentd.Config,
	frozen *atomic.Bool,
	before func(p *proc, step int, at bus.Point),
) *proc {
	ctx, stop := context.WithCancel(s.ctx)
	p := &proc{name: name, stop: stop, ended: make(chan error, 1)}
	p.conn = s.open(bus.Config{Intercept: func(at bus.Point) error {
		p.mu.Lock()
		if p.dead {
			p.mu.Unlock()
			return errKilled
		}
		if at.Op == "beat" {
			cut := p.cut
			p.mu.Unlock()
			if cut || frozen != nil && frozen.Load() {
				return errKilled
			}
			return nil
		}
		p.steps++
		step := p.steps
		p.mu.Unlock()
		if before != nil {
			before(p, step, at)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.dead || p.cut {
			return errKilled
		}
		return nil
	}})
	cfg.Name = name
	cfg.Open = func(string) (provider.Provider, string, error) { return asker{s.model, p}, "m", nil }
	if cfg.Grace == 0 {
		cfg.Grace = time.Minute
	}
	w, err := agentd.New(p.conn, cfg)
	if err != nil {
		s.tb.Fatal(err)
	}
	if err := w.Serve(s.agents); err != nil {
		s.tb.Fatal(err)
	}
	go func() { p.ended <- w.Run(ctx) }()
	return p
}

// kill ends a worker at once. It may be called from its own steps.
func (p *proc) kill() {
	p.mu.Lock()
	already := p.dead
	p.dead = true
	p.mu.Unlock()
	if !already {
		go func() { p.conn.Close(); p.stop() }()
	}
}

func (p *proc) died() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// lose lets nothing that a worker says through for a while.
func (p *proc) lose(d time.Duration) {
	set := func(cut bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cut = cut
	}
	set(true)
	time.AfterFunc(d, func() { set(false) })
}

// wait waits for the end of a worker's Run. A dead one's has nothing to say.
func (p *proc) wait() error { return <-p.ended }

// drain ends a worker in peace.
func (p *proc) drain() error {
	p.stop()
	err := <-p.ended
	p.conn.Close()
	return err
}

// submit publishes a task and returns its tree.
func (s *sim) submit(agent, text string) subjects.Run {
	a, err := subjects.ParseAgent(agent)
	if err != nil {
		s.tb.Fatal(err)
	}
	id, err := subjects.ParseTree(bus.NewID())
	if err != nil {
		s.tb.Fatal(err)
	}
	if _, err := s.conn.Write(s.ctx, bus.Message{Subject: s.conn.Space().Submit(a, id), Body: []byte(text)}); err != nil {
		s.tb.Fatal(err)
	}
	return s.conn.Space().Run(a, id, subjects.Root)
}

// lull is the pause before one looks again for what one has waited for since
// then: a look costs the same in the first second and in the third hour, and a
// thousandth of what it took is near enough.
func lull(since time.Time, least time.Duration) time.Duration {
	return max(least, time.Since(since)/1000)
}

// result waits for a tree's outcome, for as long as it takes in virtual time.
func (s *sim) result(r subjects.Run, within time.Duration) run.Outcome {
	for began := time.Now(); time.Since(began) < within; time.Sleep(lull(began, 100*time.Millisecond)) {
		m, ok, err := s.conn.First(s.ctx, s.conn.Space().Result(r.Agent, r.Tree))
		if err != nil {
			s.tb.Fatal(err)
		}
		if !ok {
			continue
		}
		body, err := s.conn.Load(s.ctx, m)
		if err != nil {
			s.tb.Fatal(err)
		}
		o, err := run.DecodeOutcome(body)
		if err != nil {
			s.tb.Fatal(err)
		}
		return o
	}
	s.tb.Fatalf("no outcome of %s within %v:\n%s", r, within, s.dump(r.Tree))
	return run.Outcome{}
}

// stored reads every message of a tree.
func (s *sim) stored(tree subjects.Tree) []bus.Stored {
	ms, err := s.conn.ReadByScan(s.ctx, s.conn.Space().TreeOf(tree), 0)
	if err != nil {
		s.tb.Fatal(err)
	}
	more, err := s.conn.ReadByScan(s.ctx, s.conn.Space().ResultOf(tree), 0)
	if err != nil {
		s.tb.Fatal(err)
	}
	return append(ms, more...)
}

func (s *sim) dump(tree subjects.Tree) string {
	var b strings.Builder
	for _, m := range s.stored(tree) {
		fmt.Fprintf(&b, "%6d %s %s\n", m.Seq, m.Subject, m.Body)
	}
	return b.String()
}

// check verifies what holds for every tree at its end, whatever happened on the
// way: one outcome for each call, a log without holes, and no turn asked again
// that was stored before its worker died. It returns who stored each turn, by
// its label.
func (s *sim) check(tree subjects.Tree) map[string]string {
	by := map[string]string{}
	labels := map[subjects.Run]string{}
	outcomes := map[string]int{}
	index := map[subjects.Run]int{}
	calls := map[string]bool{}
	for _, m := range s.stored(tree) {
		at, err := s.conn.Space().Parse(m.Subject)
		if err != nil {
			s.tb.Fatal(err)
		}
		switch at.Kind { //nolint:exhaustive // the rest has nothing to check
		case subjects.Call:
			labels[at.Run] = s.labelOf(labels, at.Run, m)
			calls[m.Header.Get(subjects.HeaderReply)] = true
		case subjects.Log:
			e, err := run.DecodeEntry(m.Body)
			if err != nil {
				s.tb.Fatal(err)
			}
			if index[at.Run]++; e.Index != index[at.Run] {
				s.tb.Errorf("log of %s: entry %d has index %d", at.Run, index[at.Run], e.Index)
			}
			by[fmt.Sprintf("%s#%d", labels[at.Run], e.Index)] = e.Worker
		case subjects.Reply, subjects.Result:
			if outcomes[m.Subject]++; outcomes[m.Subject] > 1 {
				continue
			}
			o, err := run.DecodeOutcome(m.Body)
			if err != nil {
				s.tb.Fatal(err)
			}
			child := s.byPath(labels, o.Agent, tree, o.Path)
			// else its log has it
			if key := fmt.Sprintf("%s#%d", child, o.Turns); by[key] == "" {
				by[key] = o.Worker
			}
		}
	}
	for reply := range calls {
		if outcomes[reply] == 0 {
			s.tb.Errorf("no outcome at %s", reply)
		}
	}
	s.letters += s.conserved(tree, labels)
	s.clean()
	return by
}

// labelOf is the label of a run that is called. A copy has its parent's, and
// its place in it.
func (s *sim) labelOf(labels map[subjects.Run]string, r subjects.Run, call bus.Stored) string {
	var in run.Input
	if err := json.Unmarshal(call.Body, &in); err != nil {
		s.tb.Fatal(err)
	}
	if review := reviewOf(in.Task); review != "" {
		return review
	}
	if in.Forked == nil || !in.Forked.Inherit {
		return label(in.Task)
	}
	path, turn, index, _ := r.Path.Parent()
	return fmt.Sprintf("%s~%d-%d", labels[r.Space.Run(r.Agent, r.Tree, path)], turn, index)
}

func (s *sim) byPath(labels map[subjects.Run]string, agent string, tree subjects.Tree, path string) string {
	a, err := subjects.ParseAgent(agent)
	if err != nil {
		s.tb.Fatal(err)
	}
	p, err := subjects.ParsePath(path)
	if err != nil {
		s.tb.Fatal(err)
	}
	return labels[s.conn.Space().Run(a, tree, p)]
}

// treeModel is the model of every agent in a sim. It calls the agent that the
// system prompt names, fan times, with tasks that extend its own; then it
// answers with its task and the results in order.
type treeModel struct {
	fan     int
	latency time.Duration
	// another answer; nil for the usual one
	whim  func(worker, key string) *provider.Response
	pause func(key string) time.Duration // instead of latency
	// of the n-th request for a turn
	fails func(key string, n int) error
	// answers at once though it could call somebody
	leaf  func(label string) bool
	judge func(key string) *provider.Response // of the supervisor
	// some runs have the style mail …
	forks bool
	// … and fork if there are so many dots in their labels
	forkAt int

	// seconds that a run waits for mail before it gives up
	patience int

	mu    sync.Mutex
	asked map[string][]string // label#turn to who asked, in order
	// label#turn to the end of the last request
	ended map[string]time.Time
	// label to the last turn that was asked
	shown map[string]shown
}

// shown is what a run was shown before a turn.
type shown struct {
	turn int
	said []provider.Message
}

func newTreeModel() *treeModel {
	return &treeModel{
		fan:      2,
		latency:  time.Second,
		patience: 300,
		asked:    map[string][]string{},
		ended:    map[string]time.Time{},
		shown:    map[string]shown{},
	}
}

// ends reports whether a run calls nobody although it could.
func (m *treeModel) ends(label string) bool { return m.leaf != nil && m.leaf(label) }

// at is the model as a worker sees it that does not die.
func (m *treeModel) at(worker string) provider.Provider { return asker{m, &proc{name: worker}} }

// asker is the model as a worker sees it.
type asker struct {
	m      *treeModel
	worker *proc
}

func (a asker) Send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	as := heardAsCalls(req)
	resp, err := a.send(ctx, as)
	if err != nil || as == req {
		return resp, err
	}
	return saidInCommands(resp), nil
}

func (a asker) send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	me, turn := whose(req)
	a.m.mu.Lock()
	if turn >= a.m.shown[me].turn {
		a.m.shown[me] = shown{turn, req.Messages}
	}
	key := fmt.Sprintf("%s#%d", me, turn)
	a.m.asked[key] = append(a.m.asked[key], a.worker.name)
	n := len(a.m.asked[key])
	a.m.mu.Unlock()
	defer func() {
		// its request ended then, whatever is left of it here
		if !a.worker.died() {
			a.m.end(key)
		}
	}()
	latency := a.m.latency
	if a.m.pause != nil {
		latency = a.m.pause(key)
	}
	select {
	case <-time.After(latency):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if a.m.fails != nil {
		if err := a.m.fails(key, n); err != nil {
			return nil, err
		}
	}
	if a.m.whim != nil {
		if resp := a.m.whim(a.worker.name, key); resp != nil {
			return resp, nil
		}
	}
	if reviewOf(req.Messages[0].Content) != "" {
		return a.m.judge(key), nil
	}
	if offers(req, "fork") {
		resp := a.m.mails(req)
		if len(resp.ToolCalls) > 0 {
			// what a supervisor sees of two turns is never the same
			resp.Content = fmt.Sprintf("acting %d", turn)
		}
		return resp, nil
	}
	usage := usual
	if !offers(req, "call_agent") && !offers(req, "spawn_agents") || turn > 1 || a.m.ends(me) {
		parts := []string{}
		for _, r := range req.Messages[len(req.Messages)-1].ToolResults {
			parts = append(parts, spawned(r.Content)...)
		}
		text := me
		if len(parts) > 0 {
			text += "(" + strings.Join(parts, " ") + ")"
		}
		if offers(req, "submit_result") && len(me)%2 == 0 {
			return &provider.Response{
				Usage:     usage,
				ToolCalls: []provider.ToolCall{toolCall("submit_result", map[string]string{"result": text})},
			}, nil
		}
		return &provider.Response{Content: text, Usage: usage}, nil
	}
	resp := &provider.Response{Content: "delegating", Usage: usage}
	if offers(req, "spawn_agents") {
		resp.ToolCalls = []provider.ToolCall{spawns(req.System, me, a.m.fan)}
		return resp, nil
	}
	for i := range a.m.fan {
		resp.ToolCalls = append(resp.ToolCalls, provider.NewToolCall(fmt.Sprintf("c%d", i), "call_agent",
			fmt.Appendf(nil, `{"agent":%q,"task":"%s.%d"}`, req.System, me, i)))
	}
	return resp, nil
}

// turnOf is the number of the turn that a request is for.
func turnOf(req *provider.Request) int {
	n := 1
	for _, m := range req.Messages {
		if m.Role == provider.Assistant {
			n++
		}
	}
	return n
}

func offers(req *provider.Request, tool string) bool {
	return slices.ContainsFunc(req.Tools, func(t provider.Tool) bool { return t.Name == tool })
}

// spawns is one tool call with n tasks that extend another one.
func spawns(agent, task string, n int) provider.ToolCall {
	var tasks []map[string]string
	for i := range n {
		tasks = append(tasks, map[string]string{"agent": agent, "task": fmt.Sprintf("%s.%d", task, i)})
	}
	raw, err := json.Marshal(map[string]any{"tasks": tasks})
	if err != nil {
		panic(err) // strings always marshal
	}
	return provider.NewToolCall("c0", "spawn_agents", raw)
}

// spawned are the results of a tool call, those of spawned runs in the words of
// call_agent.
func spawned(content string) (parts []string) {
	var all struct {
		Results []struct {
			Outcome struct {
				Success *struct{ Result string }
				Failure *struct{ Error string }
			}
		} `json:"sub_agent_results"`
	}
	if json.Unmarshal([]byte(content), &all) != nil {
		return []string{content}
	}
	for _, r := range all.Results {
		switch o := r.Outcome; {
		case o.Success != nil:
			parts = append(parts, o.Success.Result)
		case strings.HasPrefix(o.Failure.Error, "budget exceeded"):
			parts = append(parts, "call_agent error: "+o.Failure.Error)
		default:
			parts = append(parts, failedCall("a1", o.Failure.Error))
		}
	}
	return parts
}

func (m *treeModel) end(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended[key] = time.Now()
}

// repeated lists the turns that were asked more than once.
func (m *treeModel) repeated() map[string][]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := maps.Clone(m.asked)
	maps.DeleteFunc(out, func(_ string, who []string) bool { return len(who) < 2 })
	return out
}

// label finds a task in a user message or in the body of a call.
func label(text string) string {
	i := strings.Index(text, "L")
	if i < 0 {
		return text
	}
	end := strings.IndexFunc(text[i:], func(r rune) bool { return !strings.ContainsRune("L.0123456789", r) })
	if end < 0 {
		return text[i:]
	}
	return text[i : i+end]
}

// answer is what a tree of the given depth answers below a label.
func (m *treeModel) answer(label string, depth int) string {
	if depth == 0 {
		return label
	}
	if m.forks && strings.Count(label, ".") == m.forkAt {
		return m.mailed(label, func(label string) string { return m.answer(label, depth-1) })
	}
	var parts []string
	for i := range m.fan {
		parts = append(parts, m.answer(fmt.Sprintf("%s.%d", label, i), depth-1))
	}
	return label + "(" + strings.Join(parts, " ") + ")"
}

// levels makes a chain of agents a0, a1 … of which each calls the next.
func levels(n int, change ...func(*configs.Agent)) []configs.Agent {
	var out []configs.Agent
	for i := range n {
		a := configs.Agent{
			Name: fmt.Sprintf("a%d", i), Model: "sim/tree", Digest: "d",
			SubAgentsConf: configs.SubAgentsConfig{Parallel: true, MaxDepth: 5},
		}
		if i < n-1 {
			a.SubAgents = []string{fmt.Sprintf("a%d", i+1)}
			a.SystemPrompt = a.SubAgents[0]
		}
		for _, c := range change {
			c(&a)
		}
		out = append(out, a)
	}
	return out
}

// onlyInFlight checks the promise about spending: a turn that was asked again
// was not stored by who asked first. (It was in flight when that worker died or
// lost its lease.)
func (s *sim) onlyInFlight(by map[string]string, victim string) {
	for key, who := range s.model.repeated() {
		if by[key] == victim {
			s.tb.Errorf("turn %s was stored by %s and asked again: %v", key, victim, who)
		}
		if n := len(slices.DeleteFunc(slices.Clone(who), func(w string) bool { return w == victim })); n > 1 {
			s.tb.Errorf("turn %s was asked %d times by workers that lived: %v", key, n, who)
		}
	}
}

package top

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/internal/testbus"
	"github.com/axebus/axe/price"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// patience is the longest wait for an event that has to come.
const patience = 30 * time.Second

// answer is the model of all agents of a test.
type answer func(ctx context.Context, req *provider.Request) (*provider.Response, error)

// Send implements provider.Provider.
func (a answer) Send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	return a(ctx, req)
}

// calls answers with a call of an agent, and says done after its result.
func calls(agent string) answer {
	return func(_ context.Context, req *provider.Request) (*provider.Response, error) {
		resp := &provider.Response{Content: "done", Usage: provider.Usage{InputTokens: 700, OutputTokens: 300}}
		if len(req.Messages) == 1 {
			arguments := []byte(`{"agent":"` + agent + `","task":"do it\u001b[2J"}`)
			resp.ToolCalls = []provider.ToolCall{provider.NewToolCall("1", "call_agent", arguments)}
		}
		return resp, nil
	}
}

// models are those of the agents, by name.
var models = map[string]answer{
	"lead": calls("slow"), "guarded": calls("leaf"),
	"watcher": func(context.Context, *provider.Request) (*provider.Response, error) {
		return &provider.Response{
			Content: `{"decision": "pause", "reason": "who pays?"}`, Usage: provider.Usage{InputTokens: 100},
		}, nil
	},
	"slow": func(ctx context.Context, _ *provider.Request) (*provider.Response, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	},
	"leaf": func(context.Context, *provider.Request) (*provider.Response, error) {
		return &provider.Response{Content: strings.Repeat("a long line 世界 ", 50)}, nil
	},
}

// screen is a screen on a bus with a worker. Its commands run one after the
// other.
type screen struct {
	*client.Client
	t *testing.T
	m model
}

func newScreen(t *testing.T) *screen {
	t.Helper()
	conn := testbus.Open(t)
	startWorker(t, conn)
	return newScreenOn(t, conn)
}

// startWorker starts a worker, which ends with the test.
func startWorker(t *testing.T, conn *bus.Conn) {
	t.Helper()
	w, err := agentd.New(conn, agentd.Config{
		Name: "one", Slots: 3, Grace: time.Millisecond,
		Open: func(model string) (provider.Provider, string, error) {
			_, name, _ := strings.Cut(model, "/")
			return models[name], model, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var all configs.Definitions
	for name := range models {
		a := configs.Agent{
			Name: name, Model: "test/" + name, SubAgents: []string{"slow", "leaf"}, Digest: name,
			SubAgentsConf: configs.SubAgentsConfig{Parallel: true},
		}
		if name == "guarded" {
			a.Supervision = configs.Supervision{Mode: configs.SupervisedHuman, Agent: "watcher", Timeout: time.Hour}
		}
		all.Agents = append(all.Agents, a)
	}
	if err := w.Serve(all); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// newScreenOn makes a screen with a connection of its own.
func newScreenOn(t *testing.T, conn *bus.Conn) *screen {
	t.Helper()
	c := client.New(conn)
	prices := price.Table{Currency: "USD", Models: map[string]price.Model{
		"test/watcher": {Input: price.FromUnits(1000)},
	}}
	return &screen{c, t, newModel(t.Context(), Config{
		Session: &cli.Session{Client: c, Conn: conn}, Interval: time.Hour, By: "ann", Prices: prices,
	})}
}

// submit submits a task to an agent.
func (s *screen) submit(agent, id string) {
	s.t.Helper()
	name, err := subjects.ParseAgent(agent)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.Submit(s.t.Context(), client.Task{Agent: name, Text: "go", ID: client.TreeID(id)}); err != nil {
		s.t.Fatal(err)
	}
}

// send gives the screen a message, and carries out what follows from it.
func (s *screen) send(msg tea.Msg) {
	if batch, ok := msg.(tea.BatchMsg); ok {
		for _, cmd := range batch {
			if cmd != nil {
				s.send(cmd())
			}
		}
		return
	}
	next, cmd := s.m.Update(msg)
	s.m = next.(model)
	if cmd != nil {
		s.send(cmd())
	}
}

// press presses keys: names of keys, or runes.
func (s *screen) press(keys ...string) {
	named := map[string]tea.KeyType{
		"enter": tea.KeyEnter, "tab": tea.KeyTab, "esc": tea.KeyEsc, "down": tea.KeyDown, "backspace": tea.KeyBackspace,
	}
	for _, k := range keys {
		key := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(k)}
		if kind, ok := named[k]; ok {
			key = tea.KeyMsg{Type: kind}
		}
		s.send(key)
	}
}

// shows waits until the view has a text. It looks at the bus meanwhile.
func (s *screen) shows(text string) {
	s.t.Helper()
	s.matches(regexp.QuoteMeta(text))
}

// matches is shows for a regular expression.
func (s *screen) matches(pattern string) {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	for began := time.Now(); !re.MatchString(s.m.View()); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patience {
			s.t.Fatalf("the screen does not show %q:\n%s", pattern, s.m.View())
		}
		s.press("r")
	}
}

// lists waits until a turn of a tree is listed as held. Its worker stores that
// a moment after the turn.
func (s *screen) lists(tree string) {
	s.t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		turns, err := s.HeldTurns(s.t.Context(), client.TreeID(tree))
		if err != nil {
			s.t.Fatal(err)
		}
		if len(turns) > 0 {
			return
		}
		if time.Since(began) > patience {
			s.t.Fatalf("no held turn of %s is listed", tree)
		}
	}
}

// fits fails unless the view is as large as the terminal.
func (s *screen) fits() {
	s.t.Helper()
	lines := strings.Split(s.m.View(), "\n")
	if len(lines) != s.m.height {
		s.t.Errorf("%d lines in a terminal of %d:\n%s", len(lines), s.m.height, s.m.View())
	}
	for _, l := range lines {
		if w := ansi.StringWidth(l); w > s.m.width {
			s.t.Errorf("a line of %d columns in a terminal of %d: %q", w, s.m.width, l)
		}
		if strings.Contains(ansi.Strip(l), "\x1b") {
			s.t.Errorf("a control sequence of a model is in a line: %q", l)
		}
	}
}

// choose moves the cursor to a tree.
func (s *screen) choose(id string) {
	s.t.Helper()
	s.press("g")
	for range s.m.look.trees {
		if s.m.look.trees[s.m.cursor[paneTrees]].Root.Tree.String() == id {
			return
		}
		s.press("down")
	}
	s.t.Fatalf("tree %s is not listed", id)
}

// TestScreen: the lists, a tree and a run are shown, and fit into terminals of
// several sizes.
func TestScreen(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.submit("guarded", "held1")
	s.shows("is held for a person")
	for _, id := range []string{"t1", "t2", "t3"} {
		s.submit("lead", id)
	}
	for _, text := range []string{
		"trees 4", "held 1", "slots 3/3", "last min: 1 runs, 0 failed, 100 tok, 0.10 USD", "t2",
		"waits for r-1-0 (slow)", "watcher", " one ",
	} {
		s.shows(text)
	}
	for _, colour := range []bool{false, true} {
		s.m.cfg.Colour = colour
		for _, size := range [][2]int{{80, 24}, {120, 40}, {40, 10}, {200, 60}, {20, 5}} {
			s.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			s.fits()
			s.press("tab", "down")
			s.fits()
			s.press("tab", "tab", "?")
			s.fits()
			s.press("esc", "enter")
			s.fits()
			s.press("enter")
			s.fits()
			s.press("G", "a")
			s.fits()
			s.press("n", "esc", "esc")
		}
	}
	s.m.cfg.Colour = false
	s.send(tea.WindowSizeMsg{Width: 120, Height: 40})
	s.choose("t1")
	s.press("enter")
	s.shows("tree t1")
	s.shows("slow r-1-0")
	s.press("enter")
	s.shows("assistant, turn 1")
	s.shows("task: do it[2J")
	s.fits()
}

// TestQueue: the queue of an agent has the runs of which no worker has taken
// the call, and not those that a worker has in hand.
func TestQueue(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.send(tea.WindowSizeMsg{Width: 160, Height: 30})
	for _, id := range []string{"t1", "t2", "t3"} {
		s.submit("slow", id)
	}
	s.shows("slots 3/3")
	s.shows(fmt.Sprintf(" %-24s  %7d  %6d  %6d", "slow", 1, 0, 3))
	s.submit("slow", "t4")
	s.submit("leaf", "t5")
	s.shows("waits for a slot: 1 worker serves slow, all 3 slots taken")
	s.shows("waits for a slot: 1 worker serves leaf, all 3 slots taken")
	s.shows(fmt.Sprintf(" %-24s  %7d  %6d  %6d", "slow", 1, 1, 3))
	s.shows(fmt.Sprintf(" %-24s  %7d  %6d  %6d", "leaf", 1, 1, 0))
}

// TestCancel: c cancels the tree or the run under the cursor, if the person
// says yes.
func TestCancel(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.submit("lead", "t1")
	s.shows("waits for r-1-0 (slow)")
	s.press("c")
	s.shows("Cancel tree t1 (lead)")
	s.press("n")
	s.shows("nothing was changed")
	if root, err := s.RootState(t.Context(), client.TreeID("t1")); err != nil || root.Ended() {
		t.Fatalf("the tree has ended, or %v", err)
	}
	s.press("enter")
	s.shows("slow r-1-0")
	s.press("down", "c")
	s.shows("Cancel run r-1-0 of tree t1")
	s.press("y")
	o, err := s.Wait(t.Context(), client.TreeID("t1"))
	if err != nil || o.Status != run.StatusCompleted || o.Result != "done" {
		t.Errorf("outcome %+v, %v, want that of a lead whose call was cancelled", o, err)
	}
	s.submit("lead", "t2")
	s.press("esc")
	s.shows("t2")
	s.shows("waits for r-1-0 (slow)")
	s.press("c", "y")
	if o, err = s.Wait(t.Context(), client.TreeID("t2")); err != nil || o.Kind != run.KindCancelled {
		t.Errorf("outcome %+v, %v, want that of a cancelled tree", o, err)
	}
}

// TestDecide: a and d approve and deny a held turn, if the person says yes.
func TestDecide(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.submit("guarded", "h1")
	s.shows("is held for a person")
	s.lists("h1")
	s.press("a")
	s.shows("its supervisor: who pays?")
	s.press("x")
	s.shows("nothing was changed")
	s.press("d")
	s.shows("Deny it?")
	s.press("n", "o", "t", "!", "backspace")
	s.shows("> not_")
	s.press("esc")
	s.shows("nothing was changed")
	if turns, err := s.HeldTurns(t.Context(), subjects.Tree{}); err != nil || len(turns) != 1 {
		t.Fatalf("held turns %v, %v, want one", turns, err)
	}
	s.press("d", "n", "o", "enter")
	s.shows("turn 1 of r of tree h1 is denied")
	if _, err := s.Wait(t.Context(), client.TreeID("h1")); err != nil {
		t.Error(err)
	}
	snapshot, err := s.Snapshot(t.Context(), client.TreeID("h1"))
	if err != nil {
		t.Fatal(err)
	}
	denials := slices.DeleteFunc(snapshot.Conversation(subjects.Root), func(m client.Message) bool {
		return m.Decision != client.Denied
	})
	if len(denials) != 1 || denials[0].From != "ann" || !strings.Contains(denials[0].Text, "no") {
		t.Errorf("the record has %+v, want a denial by ann with the reason no", denials)
	}
	s.submit("guarded", "h2")
	s.matches("h2 +guarded +held") // and not h1, as an earlier look has it
	s.lists("h2")
	s.press("enter", "a", "y")
	s.shows("turn 1 of r of tree h2 is approved")
	if o, err := s.Wait(t.Context(), client.TreeID("h2")); err != nil || o.Result != "done" {
		t.Errorf("outcome %+v, %v, want that of an approved turn", o, err)
	}
	s.press("a")
	s.shows("no turn of it is held for a person")
}

// TestServerGone: without its server the screen says so, and keeps the last
// look.
func TestServerGone(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.submit("lead", "t1")
	s.shows("waits for r-1-0 (slow)")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.m = s.m.within(ctx)
	s.press("r")
	if v := s.m.View(); !strings.Contains(v, "context canceled") || !strings.Contains(v, "t1") {
		t.Errorf("want the error and the last look, got:\n%s", v)
	}
	s.m = s.m.within(t.Context())
	s.press("r")
	if v := s.m.View(); strings.Contains(v, "context canceled") {
		t.Errorf("the error stays:\n%s", v)
	}
}

// TestOneReadForAllViews: a look reads the workers once and each tree once,
// whatever view is shown. Only a tree that is not listed is read for its own
// view.
func TestOneReadForAllViews(t *testing.T) {
	t.Parallel()
	url := testbus.Listen(t)
	startWorker(t, testbus.Dial(t, url))
	const inbox = "_INBOX_screen"
	conn, err := bus.Open(t.Context(), bus.Config{Dial: bus.Dial{URL: url, InboxPrefix: inbox}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	s := newScreenOn(t, conn)
	s.submit("lead", "t1")
	s.shows("waits for r-1-0 (slow)")
	s.submit("guarded", "t2")
	s.shows("is held for a person")
	requests := watchRequests(t, url, inbox, "t1")
	look := func() map[string]int {
		s.press("r")
		return requests()
	}
	s.choose("t1")
	requests()
	list := look()
	if n := list["$JS.API.DIRECT.GET.KV_AXE_WORKERS"]; n != 1 {
		t.Errorf("a look has read the workers %d times, want once: %v", n, list)
	}
	s.press("enter")
	s.shows("slow r-1-0")
	if n := requests(); len(n) != 0 {
		t.Errorf("a tree of the look was read again: %v", n)
	}
	if diff := cmp.Diff(list, look()); diff != "" {
		t.Errorf("requests of a look with a tree (-list +tree):\n%s", diff)
	}
	s.press("enter")
	if diff := cmp.Diff(list, look()); diff != "" {
		t.Errorf("requests of a look with a run (-list +run):\n%s", diff)
	}
	s.press("esc", "c", "y")
	s.shows("cancelled")
	if _, err := s.Wait(t.Context(), client.TreeID("t1")); err != nil {
		t.Fatal(err)
	}
	s.press("r")
	if v := s.m.View(); s.m.failed != nil || !strings.Contains(v, "⊘ lead t1") {
		t.Errorf("the tree that has ended is not shown: %v\n%s", s.m.failed, v)
	}
}

// watchRequests counts the requests about workers and about a tree by subject,
// of the connection that takes answers at subjects below inbox. The returned
// function returns the requests since its last call.
func watchRequests(t *testing.T, url, inbox, tree string) func() map[string]int {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	sub, err := nc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	return func() map[string]int {
		t.Helper()
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		counts := map[string]int{}
		for {
			m, err := sub.NextMsg(time.Nanosecond)
			if err != nil {
				return counts
			}
			about := strings.Contains(string(m.Data), "."+tree+".") ||
				strings.Contains(strings.ToLower(m.Subject), "worker")
			if about && strings.HasPrefix(m.Reply, inbox+".") {
				counts[m.Subject]++
			}
		}
	}
}

// TestHelp: a small terminal cuts the help, and one that grows has all of it
// again.
func TestHelp(t *testing.T) {
	t.Parallel()
	help := func(width, height int) string {
		m := newModel(t.Context(), Config{Session: &cli.Session{}})
		m.view, m.width, m.height = viewHelp, width, height
		return m.View()
	}
	whole := help(80, 40)
	for _, size := range [][2]int{{80, 6}, {10, 40}} {
		help(size[0], size[1])
		if again := help(80, 40); again != whole || !strings.Contains(again, "cancel the tree or the run") {
			t.Errorf("the help after a terminal of %v:\n%s\nbefore it:\n%s", size, again, whole)
		}
	}
}

// gate lets the data of connections through while no writer holds it.
type gate struct{ sync.RWMutex }

// gated is a connection that the server answers only while its gate is open.
type gated struct {
	net.Conn
	gate *gate
}

// Read implements net.Conn.
func (g gated) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	g.gate.RLock()
	defer g.gate.RUnlock()
	return n, err
}

// newGatedScreen makes a screen with a connection through a gate.
func newGatedScreen(t *testing.T) (*screen, *gate) {
	t.Helper()
	server, err := bus.Serve(bus.ServerConfig{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	through := &gate{}
	wrap := func(c net.Conn) net.Conn { return gated{c, through} }
	conns := [2]*bus.Conn{}
	for i, d := range []bus.Dial{{Server: server}, {Server: server, Wrap: wrap}} {
		if conns[i], err = bus.Open(t.Context(), bus.Config{Dial: d}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conns[i].Close)
		if err := conns[i].Provision(t.Context(), bus.Provision{}); err != nil {
			t.Fatal(err)
		}
	}
	startWorker(t, conns[0])
	return newScreenOn(t, conns[1]), through
}

// TestSilentServer: a server that does not answer a look leaves old lists on
// the screen. After three seconds the screen says so, until an answer comes. A
// look that takes long is not the silence of the server.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	s, gate := newGatedScreen(t)
	s.submit("lead", "t1")
	s.shows("waits for r-1-0 (slow)")
	s.shows("  up ")
	now := time.Now()
	at := func(d time.Duration) string {
		next, _ := s.m.Update(second(now.Add(d)))
		s.m = next.(model)
		return s.m.View()
	}
	const silent, old = "no answer from the server since ", "the lists are "
	if v := at(time.Hour); strings.Contains(v, silent) || strings.Contains(v, old) {
		t.Errorf("between two looks the server is called silent:\n%s", v)
	}
	now = now.Add(time.Hour)
	gate.Lock()
	next, look := s.m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("r")})
	s.m = next.(model)
	s.m.asked, s.m.look.at = now, now
	answers := make(chan tea.Msg, 1)
	go func() { answers <- look() }()
	if v := at(2 * time.Second); strings.Contains(v, silent) {
		t.Errorf("after two seconds the server is called silent:\n%s", v)
	}
	for _, after := range []time.Duration{3 * time.Second, 4 * time.Second, 2 * time.Minute} {
		want := silent + presence.Age(after)
		v := at(after)
		if !strings.Contains(v, want) || !strings.Contains(v, ">t1 ") || !strings.Contains(v, "up 1 h") {
			t.Errorf("want %q and the last look, got:\n%s", want, v)
		}
	}
	s.fits()
	gate.Unlock()
	answer := <-answers
	if v := at(3 * time.Minute); strings.Contains(v, silent) || !strings.Contains(v, old+"3 min old") {
		t.Errorf("the server has answered, and the look has not ended, but the screen shows:\n%s", v)
	}
	s.send(answer)
	if v := at(4 * time.Minute); strings.Contains(v, silent) || strings.Contains(v, old) {
		t.Errorf("the look has ended, but the screen shows:\n%s", v)
	}
}

// TestFirstLookOfASilentServer: a server that takes the connection and then
// sends nothing ends the first look, with an error that says so.
func TestFirstLookOfASilentServer(t *testing.T) {
	t.Parallel()
	s, gate := newGatedScreen(t)
	gate.Lock()
	defer gate.Unlock()
	cfg := s.m.cfg
	cfg.Patience = 1100 * time.Millisecond
	// The end of this context is the failure of the test.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const want = "no answer from the server since "
	if err := Print(ctx, io.Discard, cfg); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("print: error %v, want %q", err, want)
	}
	if err := Run(ctx, cfg); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("screen: error %v, want %q", err, want)
	}
}

// TestPrint: without a terminal the lists are printed once, as wide as needed.
func TestPrint(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.submit("lead", "t1")
	s.shows("which asks")
	var out bytes.Buffer
	if err := Print(t.Context(), &out, s.m.cfg); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"trees 1", " t1 ", "waits for r-1-0 (slow), which asks the model", " slow ", " one ",
	} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("the print lacks %q:\n%s", text, out.String())
		}
	}
}

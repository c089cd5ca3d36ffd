package top

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/subjects"
)

// view is one of the views of the screen.
type view int

const (
	viewList view = iota
	// viewTree is the drawing of a tree, and viewRun the conversation of a
	// run.
	viewTree
	viewRun
	viewHelp
)

// pane is one of the lists of viewList.
type pane int

const (
	paneTrees pane = iota
	paneAgents
	paneWorkers
	panes
)

// model is the screen. It is a value: each message makes a new one.
type model struct {
	ctx    context.Context //nolint:containedctx // commands of the library take none
	cfg    Config
	reader *reader

	width, height int
	view          view
	// before is the view that the help covers.
	before view
	pane   pane
	// cursor is the chosen row of each pane.
	cursor [panes]int

	look look
	// failed is the error of the last look, nil if there was none.
	failed error
	// asked is the time of the first look since the last one that the
	// server has answered. It is zero if the server has answered the last
	// one.
	asked time.Time
	// received is the number of messages that the server had sent at the
	// time heard. It had sent fewer a second before.
	received uint64
	heard    time.Time
	// now is the time of the last second.
	now time.Time
	// reading says that a look is being made, and due that another one has
	// to follow it: something has changed since it began.
	reading, due bool
	// note is a line about the last key.
	note string

	tree treeView
	run  runView
	ask  question
}

// treeView is the drawing of a tree. Draw makes the drawing, once for each look
// and each size of the terminal.
type treeView struct {
	id       subjects.Tree
	snapshot *client.Snapshot
	rows     []cli.Row
	// sums is the line about the tree.
	sums string
	// at is the run under the cursor.
	at subjects.Path
}

// runView is the conversation of a run of the tree view. Draw prints it.
type runView struct {
	path   subjects.Path
	lines  []string
	scroll int
	// follow keeps the end of the text in view.
	follow bool
}

// question asks the person before something is changed.
type question struct {
	// lines say what is asked. There is no question without lines.
	lines []string
	// typed is the text so far, if takesText is set. Else the answer is y.
	takesText bool
	typed     string
	act       func(text string) tea.Cmd
}

func newModel(ctx context.Context, cfg Config) model {
	m := model{cfg: cfg, reader: &reader{ses: cfg.Session, prices: cfg.Prices}, width: 80, height: 24}
	return m.within(ctx)
}

// within bounds all reads and changes by ctx.
func (m model) within(ctx context.Context) model {
	m.ctx = ctx
	return m
}

// The messages of the screen.
type (
	// tick asks for the next look.
	tick time.Time
	// second is the time, once a second.
	second time.Time
	// looked has a look, or its error.
	looked struct {
		look look
		err  error
		// asked says that the person has asked for it, out of turn.
		asked bool
	}
	// acted says what a change of the person has led to.
	acted struct {
		note string
		err  error
	}
	// asked has a question that had to be read first.
	asked struct {
		question question
		err      error
	}
)

// Init begins to look at the bus.
func (m model) Init() tea.Cmd { return tea.Batch(m.later(), nextSecond()) }

// nextSecond waits for a second.
func nextSecond() tea.Cmd {
	return tea.Tick(time.Second, func(t time.Time) tea.Msg { return second(t) })
}

// later waits for the time of the next look.
func (m model) later() tea.Cmd {
	return tea.Tick(m.cfg.Interval, func(t time.Time) tea.Msg { return tick(t) })
}

// again looks at the bus, and at the tree that is shown. Asked says that the
// person has asked for it.
func (m model) again(asked bool) (tea.Model, tea.Cmd) {
	if m.reading {
		if asked {
			m.due = true
			return m, nil
		}
		return m, m.later()
	}
	m.reading, m.due = true, false
	if m.asked.IsZero() {
		m.asked = time.Now()
	}
	reader, ctx := m.reader, m.ctx
	var shown subjects.Tree
	if m.showsTree() {
		shown = m.tree.id
	}
	return m, func() tea.Msg {
		l, err := reader.read(ctx, shown)
		return looked{l, err, asked}
	}
}

// showsTree reports whether a view of a tree is shown, or is below the help.
func (m model) showsTree() bool {
	v := m.view
	if v == viewHelp {
		v = m.before
	}
	return v == viewTree || v == viewRun
}

// Update implements tea.Model.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		return m.draw(), nil
	case tick:
		return m.again(false)
	case second:
		return m.listen(time.Time(msg)), nextSecond()
	case looked:
		return m.take(msg)
	case acted:
		m.note = msg.note
		if msg.err != nil {
			m.note = msg.err.Error()
		}
		return m.again(true)
	case asked:
		m.ask = msg.question
		if msg.err != nil {
			m.note = msg.err.Error()
		}
	case tea.KeyMsg:
		return m.key(msg)
	}
	return m, nil
}

// take takes a look, and draws it.
func (m model) take(l looked) (tea.Model, tea.Cmd) {
	m.reading, m.failed = false, l.err
	if !bus.Lost(l.err) {
		m.asked = time.Time{}
	}
	if l.err == nil {
		m.look, m.failed = l.look, l.look.notOpen
		m = m.kept().draw()
	}
	var next tea.Cmd
	if !l.asked {
		next = m.later()
	}
	if !m.due {
		return m, next
	}
	following, read := m.again(true)
	return following, tea.Batch(next, read)
}

// listen notes whether the server has sent anything since the last second.
func (m model) listen(now time.Time) model {
	m.now = now
	if n := m.cfg.Session.Conn.Stats().Received; n != m.received {
		m.received, m.heard = n, now
	}
	return m
}

// silence is the time after which a server without an answer is called silent.
const silence = 3 * time.Second

// noAnswer begins the text about a silent server.
const noAnswer = "no answer from the server since "

// stale says that the lists are old and why. It is empty while the server
// answers.
func (m model) stale() string {
	if m.asked.IsZero() || m.now.Sub(m.asked) < silence {
		return ""
	}
	last := m.asked
	if m.heard.After(last) {
		last = m.heard
	}
	if none := m.now.Sub(last); none >= silence {
		return noAnswer + presence.Age(none)
	}
	return fmt.Sprintf("the lists are %s old: the server has not answered everything yet",
		presence.Age(m.now.Sub(m.look.at)))
}

// kept moves cursors that are beyond the end of their lists.
func (m model) kept() model {
	for p := range panes {
		m.cursor[p] = max(0, min(m.cursor[p], m.rows(p)-1))
	}
	return m
}

// rows is the number of rows of a pane.
func (m model) rows(p pane) int {
	return [panes]int{len(m.look.trees), len(m.look.agents), len(m.look.workers)}[p]
}

// key handles a key of the person.
func (m model) key(k tea.KeyMsg) (tea.Model, tea.Cmd) {
	m.note = ""
	if len(m.ask.lines) > 0 {
		return m.answer(k)
	}
	switch k.String() {
	case "ctrl+c":
		return m, tea.Quit
	case "q", "esc":
		return m.back()
	case "?":
		if m.view != viewHelp {
			m.before, m.view = m.view, viewHelp
		}
		return m, nil
	case "r":
		return m.again(true)
	}
	switch m.view {
	case viewList:
		return m.keyOfList(k)
	case viewTree:
		return m.keyOfTree(k)
	case viewRun:
		return m.keyOfRun(k)
	case viewHelp:
	}
	return m, nil
}

// back leaves a view.
func (m model) back() (tea.Model, tea.Cmd) {
	switch m.view {
	case viewList:
		return m, tea.Quit
	case viewTree:
		m.view = viewList
	case viewRun:
		m.view, m.run = viewTree, runView{}
	case viewHelp:
		m.view = m.before
	}
	return m, nil
}

// moved returns a place in a list of n rows after a key, of which a page has
// some.
func moved(k tea.KeyMsg, at, n, page int) int {
	switch k.String() {
	case "down", "j":
		at++
	case "up", "k":
		at--
	case "pgdown", " ":
		at += page
	case "pgup", "b":
		at -= page
	case "home", "g":
		at = 0
	case "end", "G":
		at = n - 1
	}
	return max(0, min(at, n-1))
}

func (m model) keyOfList(k tea.KeyMsg) (tea.Model, tea.Cmd) {
	switch k.String() {
	case "tab":
		m.pane = (m.pane + 1) % panes
		return m, nil
	case "shift+tab":
		m.pane = (m.pane + panes - 1) % panes
		return m, nil
	}
	m.cursor[m.pane] = moved(k, m.cursor[m.pane], m.rows(m.pane), max(1, m.height/2))
	if m.pane != paneTrees || len(m.look.trees) == 0 {
		return m, nil
	}
	t := m.look.trees[m.cursor[paneTrees]]
	switch k.String() {
	case "enter":
		m.view, m.tree = viewTree, treeView{id: t.Root.Tree, at: subjects.Root}
		return m.draw(), nil
	case "c":
		m.ask = m.cancels(t.Root.Tree, subjects.Root, t.Root.Agent.String())
	case "a", "d":
		return m, m.decides(t.Root.Tree, subjects.Path{}, k.String() == "a")
	}
	return m, nil
}

func (m model) keyOfTree(k tea.KeyMsg) (tea.Model, tea.Cmd) {
	paths := m.paths()
	if len(paths) == 0 {
		return m, nil
	}
	at := max(0, slices.Index(paths, m.tree.at))
	m.tree.at = paths[moved(k, at, len(paths), max(1, m.height-4))]
	switch k.String() {
	case "enter":
		m.view, m.run = viewRun, runView{path: m.tree.at}
		return m.draw(), nil
	case "c":
		m.ask = m.cancels(m.tree.id, m.tree.at, m.tree.snapshot.Root.Agent.String())
	case "a", "d":
		return m, m.decides(m.tree.id, m.tree.at, k.String() == "a")
	}
	return m, nil
}

func (m model) keyOfRun(k tea.KeyMsg) (tea.Model, tea.Cmd) {
	n := len(m.run.lines)
	page := max(1, m.height-3)
	last := max(0, n-page)
	m.run.scroll = min(moved(k, m.run.scroll, n, page), last)
	m.run.follow = n > page && m.run.scroll == last
	switch k.String() {
	case "c":
		m.ask = m.cancels(m.tree.id, m.run.path, m.run.path.String())
	case "a", "d":
		return m, m.decides(m.tree.id, m.run.path, k.String() == "a")
	}
	return m, nil
}

// draw draws the tree that is shown, and prints the conversation of the run
// that is shown, as the look has them. The views only cut the drawing to the
// terminal.
func (m model) draw() model {
	if !m.showsTree() {
		return m
	}
	if s := m.look.snapshot(m.tree.id); s != nil {
		m.tree.snapshot = s
	}
	s := m.tree.snapshot
	if s == nil || s.Queued {
		return m
	}
	m.tree.rows = cli.TreeOf(s).Rows(cli.Frame{
		Now: m.look.at, Width: max(1, m.width-1), Colour: m.cfg.Colour, Details: m.width >= wideScreen,
	})
	m.tree.sums = m.treeSums()
	if m.run.path.IsZero() {
		return m
	}
	var text bytes.Buffer
	printer := cli.MessagePrinter{W: &text, Colour: m.cfg.Colour, Full: true, Prices: m.cfg.Prices}
	for _, message := range s.Conversation(m.run.path) {
		_ = printer.Print(message) // a buffer takes all
	}
	whole := cmp.Or(strings.TrimRight(text.String(), "\n"), "nothing was said yet")
	m.run.lines = strings.Split(ansi.Hardwrap(whole, max(1, m.width), true), "\n")
	if m.run.follow {
		m.run.scroll = max(0, len(m.run.lines)-max(1, m.height-3))
	}
	return m
}

// answer handles a key while a question is asked.
func (m model) answer(k tea.KeyMsg) (tea.Model, tea.Cmd) {
	ask := m.ask
	if !ask.takesText {
		m.ask = question{}
		if k.String() == "y" || k.String() == "Y" {
			return m, ask.act("")
		}
		m.note = "nothing was changed"
		return m, nil
	}
	switch k.Type { //nolint:exhaustive // the other keys have no text
	case tea.KeyEnter:
		m.ask = question{}
		return m, ask.act(strings.TrimSpace(ask.typed))
	case tea.KeyEsc, tea.KeyCtrlC:
		m.ask = question{}
		m.note = "nothing was changed"
	case tea.KeyBackspace:
		if typed := []rune(ask.typed); len(typed) > 0 {
			m.ask.typed = string(typed[:len(typed)-1])
		}
	case tea.KeyRunes, tea.KeySpace:
		m.ask.typed += string(k.Runes)
	}
	return m, nil
}

// cancels asks whether a run is to be cancelled.
func (m model) cancels(tree subjects.Tree, path subjects.Path, name string) question {
	what := fmt.Sprintf("run %s of tree %s", path, tree)
	if path.IsRoot() {
		what = fmt.Sprintf("tree %s (%s)", tree, name)
	}
	return question{
		lines: []string{"Cancel " + cli.Printable(what) + ", with all below? y cancels, any other key does not."},
		act: func(string) tea.Cmd {
			return func() tea.Msg {
				err := m.cfg.Session.Cancel(m.ctx, tree, path, "")
				return acted{what + " is cancelled", err}
			}
		},
	}
}

// decides asks about a held turn of a tree: that of a run or, for the zero
// Path, the first one.
func (m model) decides(tree subjects.Tree, path subjects.Path, approve bool) tea.Cmd {
	return func() tea.Msg {
		turns, err := m.cfg.Session.HeldTurns(m.ctx, tree)
		if err != nil {
			return asked{err: err}
		}
		for _, t := range turns {
			if path.IsZero() || t.Run.Path == path {
				return asked{question: m.decision(t, approve)}
			}
		}
		calls, err := m.cfg.Session.HeldCalls(m.ctx, tree)
		if err != nil {
			return asked{err: err}
		}
		for _, c := range calls {
			if path.IsZero() || c.Run.Path == path {
				return acted{note: fmt.Sprintf("a call of a tool waits: axe pending %s lists it, axe settle and "+
					"axe answer decide it", tree)}
			}
		}
		return acted{note: "no turn of it is held for a person"}
	}
}

// decision is the question about a held turn.
func (m model) decision(t client.HeldTurn, approve bool) question {
	var text bytes.Buffer
	cli.PrintHeldTurn(&text, t)
	lines := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	decide := func(approval run.Approval) tea.Cmd {
		return func() tea.Msg {
			approval.Turn, approval.By = t.Turn, m.cfg.By
			err := m.cfg.Session.Decide(m.ctx, t.Run.Tree, t.Run.Path, approval)
			note := "denied"
			if approval.Approve {
				note = "approved"
			}
			return acted{fmt.Sprintf("turn %d of %s of tree %s is %s", t.Turn, t.Run.Path, t.Run.Tree, note), err}
		}
	}
	if approve {
		return question{
			lines: append(lines, "Approve it? y carries the turn out, any other key does not."),
			act:   func(string) tea.Cmd { return decide(run.Approval{Approve: true}) },
		}
	}
	return question{
		lines:     append(lines, "Deny it? The run reads the reason. Enter denies, Esc does not."),
		takesText: true,
		act:       func(reason string) tea.Cmd { return decide(run.Approval{Reason: reason}) },
	}
}

package cli

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/cockroachdb/datadriven"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// TestMain makes the local time UTC, for the times of day in the scripts. The
// package of the NATS server reads time.Local in a goroutine of its own, from
// its start on. So the process begins anew with another time zone.
func TestMain(m *testing.M) {
	if os.Getenv("TZ") == "UTC" {
		os.Exit(m.Run())
	}
	program, err := os.Executable()
	if err == nil {
		err = os.Setenv("TZ", "UTC")
	}
	if err == nil {
		err = syscall.Exec(program, os.Args, os.Environ())
	}
	panic(err)
}

// TestTree folds messages and draws the tree after them. In the scripts
//
//	tell
//	SECONDS PATH AGENT KIND [turn=N] [calls=CALL,...] [review=AGENT[!]]
//		[status=S] [kind=K] [reason=R] [took=D] [worker=W] [attempt=N]
//		[next=D] [fork] [from=PATH[!]] [by=NAME] [tools=NAME,...]
//		[tokens=N] [text=...]
//
// each line is a message, SECONDS after the start. The output holds each event
// of the messages as --progress plain prints it, without the time. The messages
// asking, retrying, waiting and stalled are live events. All others are stored.
//
// KIND is called, asking, retrying, waiting, stalled, answered, idle, mail,
// timed_out, approved, denied, interrupted, returned, cancelled, replied or
// concluded. "kind=K" is the kind of a failed outcome. N of turn and attempt is
// one digit. "text" is the last property: it goes on to the end of the line.
//
// CALL is a call of the turn:
//
//	AGENT            calls an agent
//	AGENT!           is refused, with text as the reason
//	:fork            starts a fork
//	:check_mail      takes the mail
//	:wait            waits for mail
//	:wait@PATH+PATH  waits for mail of these runs
//	:send@PATH       writes to a run
//	:kill@PATH       kills a run
//
// "fork" makes the call that of a fork. Without text the fork inherits its
// parent's conversation. "review=AGENT!" is a review that is refused.
// "from=PATH!" is mail in which a fork says that it is idle. "tools" are the
// tools that the run was started with. The text of a supervisor's reply is its
// verdict.
//
// "draw [now=SECONDS] [width=N] [height=N] [tick=N] [colour] [details]" draws
// the tree. Tick is the position of the spinner. "why PATH now=SECONDS" says
// why a run is where it is. go test -rewrite writes the output into the
// scripts.
func TestTree(t *testing.T) {
	datadriven.Walk(t, "testdata/tree", func(t *testing.T, path string) {
		t.Helper()
		tree := &Tree{}
		s := &scriptedTree{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			switch d.Cmd {
			case "tell":
				var out strings.Builder
				for line := range strings.Lines(d.Input) {
					for _, e := range s.apply(t, line) {
						tree.Apply(e)
						// The local time depends on the
						// machine.
						_, text, _ := strings.Cut(Line(e), " ")
						out.WriteString(text + "\n")
					}
				}
				return out.String()
			case "draw":
				f := Frame{Colour: d.HasArg("colour"), Details: d.HasArg("details")}
				now := 0
				numbers := map[string]*int{"now": &now, "width": &f.Width, "height": &f.Height, "tick": &f.Tick}
				for name, value := range numbers {
					if d.HasArg(name) {
						d.ScanArgs(t, name, value)
					}
				}
				f.Now = time.Unix(int64(now), 0)
				return strings.ReplaceAll(strings.Join(tree.Lines(f), "\n")+"\n", "\x1b", "ESC")
			}
			if d.Cmd == "why" {
				now := 0
				d.ScanArgs(t, "now", &now)
				path, err := subjects.ParsePath(d.CmdArgs[0].Key)
				if err != nil {
					t.Fatal(err)
				}
				return cmp.Or(tree.Why(path, time.Unix(int64(now), 0)), "nothing") + "\n"
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

// scriptedTree turns the lines of a script into events.
type scriptedTree struct {
	fold client.Fold
	// seq is the sequence of the last stored message.
	seq uint64
	// asked holds, for each run with a request to its model, the value of
	// seq at the start of the request.
	asked map[subjects.Path]uint64
	// agents holds the agent of each called run.
	agents map[subjects.Path]subjects.Agent
}

// message is one line of a script. The kind says which fields are used.
type message struct {
	at   subjects.Address
	kind string
	text string
	time time.Time
	// by is the name of the person that approves or denies.
	by       string
	input    run.Input
	entry    run.Entry
	outcome  run.Outcome
	mail     run.Mail
	progress run.Progress
}

// apply folds the message of a line, and returns the events that follow from
// it. It returns a live event without folding it.
func (s *scriptedTree) apply(t *testing.T, line string) []client.Event {
	t.Helper()
	m := parseMessage(t, line)
	path := m.at.Run.Path
	if s.asked == nil {
		s.asked = map[subjects.Path]uint64{}
		s.agents = map[subjects.Path]subjects.Agent{}
	}
	kind := client.EventKind(m.kind)
	if kind == client.Stalled {
		return []client.Event{{
			Kind: kind, Run: m.at.Run, Time: m.time, State: s.fold.State(path), Reason: m.text,
		}}
	}
	if kind == client.Asking || kind == client.Retrying || kind == client.RateLimited {
		s.asked[path] = s.seq
		return []client.Event{{
			Kind: kind, Run: m.at.Run, Time: m.time, Worker: m.progress.Worker, Turn: m.progress.Turn,
			State: s.fold.State(path), Progress: m.progress,
		}}
	}
	s.seq++
	meta := run.Meta{Seq: s.seq, Time: m.time}
	m.entry.Trigger, m.entry.Seen = s.seq-1, s.seq-1
	if asked, ok := s.asked[path]; ok {
		m.entry.Seen = asked
	}
	m.mail.Seen = s.seq
	message := m.event(t, meta)
	switch m.at.Kind { //nolint:exhaustive // only these change s
	case subjects.Call:
		s.agents[path] = m.at.Run.Agent
	case subjects.Log:
		delete(s.asked, path)
	case subjects.Reply:
		m.at.Run.Agent = s.agents[m.at.Run.Path]
	}
	return s.fold.Apply(m.at, meta, message)
}

// event returns the decoded message and completes its address.
func (m *message) event(t *testing.T, meta run.Meta) run.Event {
	t.Helper()
	switch m.kind {
	case "called":
		m.at.Kind = subjects.Call
		return run.Called{Meta: meta, Input: m.input}
	case "answered":
		m.at.Kind = subjects.Log
		return m.entry.Event(meta)
	case "idle":
		m.at.Kind = subjects.Log
		m.entry.Kind = run.EntryIdle
		m.entry.Answer = &provider.Response{Content: m.text, StopReason: "end_turn"}
		if m.outcome.Status == run.StatusFailed {
			m.entry.End = new(m.outcome.End())
		}
		return m.entry.Event(meta)
	case "replied":
		m.at.Kind = subjects.Reply
		parent, turn, index, _ := m.at.Run.Path.Parent()
		m.at.Run.Path = parent
		m.at.Turn = turn
		m.at.Index = index
		return run.Replied{Meta: meta, Turn: turn, Index: index, Outcome: m.outcome}
	case "concluded":
		m.at.Kind = subjects.Result
		return run.OutcomeStored{Meta: meta, Outcome: m.outcome}
	case "mail":
		m.at.Kind = subjects.Mail
		return run.Mailed{Meta: meta, Mail: m.mail}
	case "timed_out":
		m.at.Kind = subjects.Timer
		return run.TimedOut{Meta: meta, Turn: m.entry.Index}
	case "approved", "denied":
		m.at.Kind = subjects.Approve
		return run.Approved{Meta: meta, Approval: run.Approval{Approve: m.kind == "approved", By: m.by, Reason: m.text}}
	case "interrupted":
		m.at.Kind = subjects.Interrupt
		return run.Interrupted{Meta: meta}
	case "returned":
		m.at.Kind = subjects.Returned
		ret := run.Return{Cause: run.ReturnCause(m.text), Turn: m.entry.Index, Worker: m.entry.Worker}
		return run.Returned{Meta: meta, Trigger: meta.Seq - 1, Delivery: 1, Return: ret}
	case "cancelled":
		m.at.Kind = subjects.Cancel
		return run.Cancelled{Meta: meta, End: run.End{Kind: run.KindCancelled, Reason: m.outcome.Reason, Text: m.text}}
	}
	t.Fatalf("unknown kind %q: TestTree lists the kinds", m.kind)
	return nil
}

// parseMessage parses a line of a script, which TestTree describes.
func parseMessage(t *testing.T, line string) *message {
	t.Helper()
	line, text, _ := strings.Cut(strings.TrimSpace(line), " text=")
	words := strings.Fields(line)
	path, err := subjects.ParsePath(words[1])
	if err != nil {
		t.Fatal(err)
	}
	agent, err := subjects.ParseAgent(words[2])
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.ParseDuration(words[0] + "s")
	if err != nil {
		t.Fatal(err)
	}
	m := &message{
		at:    subjects.Address{Run: subjects.Space{}.Run(agent, client.TreeID("tree"), path)},
		kind:  words[3],
		text:  text,
		time:  time.Unix(0, 0).Add(at),
		input: run.Input{Task: text},
		entry: run.Entry{
			Kind: run.EntryTurn, Answer: &provider.Response{StopReason: "tool_use"}, Timeout: 5 * time.Second,
		},
		outcome: run.Outcome{Status: run.StatusCompleted, Agent: agent.String(), StopReason: "end_turn"},
		mail:    run.Mail{Text: text},
	}
	m.progress = run.Progress{Event: m.kind, Reason: text}
	for _, word := range words[4:] {
		name, value, _ := strings.Cut(word, "=")
		m.set(t, name, value)
	}
	if m.outcome.Status == run.StatusCompleted {
		m.outcome.Result = text
	} else {
		m.outcome.Error = text
	}
	if m.entry.Index == 1 && m.entry.Start == nil {
		m.entry.Start = &run.Start{}
	}
	if m.entry.Start != nil {
		m.entry.Start.Supervision = run.Supervision{
			Mode: run.Human, Agent: "watcher", Timeout: 5 * time.Second, OnTimeout: true,
		}
	}
	return m
}

// set sets one property of a message.
func (m *message) set(t *testing.T, name, value string) {
	t.Helper()
	switch name {
	case "turn":
		turn := int(value[0] - '0')
		m.entry.Index = turn
		m.progress.Turn = turn
		m.outcome.Turns = turn
	case "calls":
		for call := range strings.SplitSeq(value, ",") {
			child := m.at.Run.Path.Child(m.entry.Index, len(m.entry.Calls))
			m.entry.Calls = append(m.entry.Calls, parseCall(t, call, m.text, child))
		}
	case "fork":
		m.input.Forked = &run.Forked{Inherit: m.text == ""}
	case "review":
		agent := strings.TrimSuffix(value, "!")
		m.entry.Review = &run.Call{Op: run.OpReview, Agent: agent}
		if agent != value {
			m.entry.Review.Error = m.text
		}
	case "by":
		m.by = value
	case "tools":
		m.entry.Start = &run.Start{}
		for tool := range strings.SplitSeq(value, ",") {
			m.entry.Start.Tools = append(m.entry.Start.Tools, provider.Tool{Name: tool})
		}
	case "from":
		m.mail.From = strings.TrimSuffix(value, "!")
		m.mail.Idle = value != m.mail.From
		m.mail.Key = m.mail.From + "-idle1"
	case "status":
		m.outcome.Status = run.Status(value)
	case "kind":
		m.outcome.Kind = run.Kind(value)
	case "reason":
		m.outcome.Reason = run.Reason(value)
	case "took":
		m.outcome.DurationMS = parseDuration(t, value).Milliseconds()
	case "worker":
		m.entry.Worker = value
		m.progress.Worker = value
		m.outcome.Worker = value
	case "attempt":
		m.progress.Attempt, m.progress.Attempts = int(value[0]-'0'), 3
	case "tokens":
		used, err := strconv.Atoi(value)
		if err != nil {
			t.Fatal(err)
		}
		m.outcome.Usage = provider.Usage{InputTokens: used - 1, OutputTokens: 1}
		m.entry.Answer.Usage = m.outcome.Usage
	case "next":
		m.progress.Next = m.time.Add(parseDuration(t, value))
	default:
		t.Fatalf("unknown property %s", name)
	}
}

func parseDuration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func parsePath(t *testing.T, text string) subjects.Path {
	t.Helper()
	p, err := subjects.ParsePath(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// parseCall parses a CALL. Refusal is the reason of a refused call. Child is
// the path of a forked run.
func parseCall(t *testing.T, text, refusal string, child subjects.Path) run.Call {
	t.Helper()
	op, isOp := strings.CutPrefix(text, ":")
	if !isOp {
		c := run.Call{Agent: strings.TrimSuffix(text, "!")}
		if c.Agent != text {
			c.Error = "refused: " + refusal
		}
		return c
	}
	op, target, hasTarget := strings.Cut(op, "@")
	c := run.Call{Op: run.Op(op)}
	switch {
	case c.Op == run.OpFork:
		c.To, c.Agent = child, "lead"
	case c.Op == run.OpWait && hasTarget:
		for path := range strings.SplitSeq(target, "+") {
			c.From = append(c.From, parsePath(t, path))
		}
	case hasTarget:
		c.To = parsePath(t, target)
	}
	return c
}

// TestTreeDrawsAnything: a drawing fits into its frame after each of many
// events, in orders that no worker writes, and with wide characters in a task.
func TestTreeDrawsAnything(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	calls := "b!,b,:fork,:wait@r-1-0+r,:wait,:kill@r-1-0,:check_mail"
	paths := []string{"r-3-1-2-0", "r-1-0", "r", "r-2-11", "r-2-9", "r-1-0-1-0"}
	kinds := []string{
		"asking", "retrying", "waiting", "timed_out", "cancelled", "answered", "called", "idle",
		"mail", "approved", "denied", "interrupted", "answered review=watcher", "replied", "concluded",
		"returned text=drained",
	}
	for first := range kinds {
		tree := &Tree{}
		s := &scriptedTree{}
		for i := range len(kinds) * len(paths) {
			kind, path := kinds[(first+i)%len(kinds)], paths[i%len(paths)]
			if kind == "replied" && path == "r" || kind == "concluded" && path != "r" {
				continue
			}
			words := strings.Join(strings.Split(calls, ",")[:1+i%7], ",")
			line := fmt.Sprintf("%d %s a %s turn=%d calls=%s from=%s", i, path, kind, 1+i%3, words, paths[i%5])
			if kind == "called" {
				line += " text=世界 e\u0301\x1b[2J 界界 👩‍👧 ✅"
			}
			for _, e := range s.apply(t, line) {
				tree.Apply(e)
			}
			for width := range 50 {
				checkFrame(t, tree, Frame{Width: width, Height: i % 5})
			}
		}
	}
}

// TestWidthOfCharacters: a line is cut by the columns that its characters take
// on a terminal. An emoji takes two, and an accent that is combined takes none.
func TestWidthOfCharacters(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"✅✅✅", "✅✅✅"},
		{"✅✅✅✅", "✅✅…"},
		{"日本語", "日本語"},
		{"日本語日", "日本…"},
		{"éééééé", "éééééé"},
		{"abcdefg", "abcde…"},
	} {
		l := &line{room: 6}
		l.add("", "", tt.text)
		if got := l.String(); got != tt.want {
			t.Errorf("%q in 6 columns: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

// checkFrame draws a tree and checks that the drawing fits into the frame.
func checkFrame(t *testing.T, tree *Tree, f Frame) {
	t.Helper()
	lines := tree.Lines(f)
	for _, l := range lines {
		if f.Width > 0 && ansi.StringWidth(l) > f.Width {
			t.Fatalf("line %q: got %d columns, want at most %d", l, ansi.StringWidth(l), f.Width)
		}
	}
	if f.Height > 0 && len(lines) > f.Height {
		t.Fatalf("drawing: got %d lines, want at most %d", len(lines), f.Height)
	}
}

// TestStatusOfATask: a tool run that waits for a task of its server is drawn as
// one that waits.
func TestStatusOfATask(t *testing.T) {
	n := &node{state: run.State{Phase: run.Polling}}
	if m, text := n.withoutRequest(); m != markWaiting || text != "its server goes on with the call" {
		t.Errorf("drawn as %v %q, want as waiting for its server", m, text)
	}
}

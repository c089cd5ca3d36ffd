package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
)

// conversation returns the messages of a tree's conversations, a line each.
func (h *harness) conversation(tree string) (lines []string) {
	h.t.Helper()
	s, err := h.Snapshot(h.t.Context(), client.TreeID(tree))
	if err != nil {
		h.t.Fatal(err)
	}
	var cs client.Conversations
	for _, e := range s.Events {
		for _, m := range cs.Messages(e) {
			words := []string{m.Run.Path.String(), m.Run.Agent.String(), string(m.Role), m.From, m.Text}
			for _, c := range m.Calls {
				words = append(words, fmt.Sprint(c.Tool, c.Paths, c.Error))
			}
			lines = append(lines, strings.Join(strings.Fields(strings.Join(words, " ")), " "))
		}
	}
	return lines
}

// TestConversations: each run has its own conversation, and an outcome is a
// result in that of its caller.
func TestConversations(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.startWorker()
		h.submit("lead", "words", "one")
		h.answers(client.TreeID("one"), "together: echo: words 1")
		got := h.conversation("one")
		if len(got) != 9 {
			h.t.Fatalf("got %d messages, want 9:\n%s", len(got), strings.Join(got, "\n"))
		}
		if !strings.HasPrefix(got[1], "r lead assistant call_agent[r-1-0] call_agent[]") ||
			!strings.Contains(got[1], "nobody") {
			h.t.Errorf("the answer is %q, want a call of nobody that is refused", got[1])
		}
		got = append(got[:1], got[2:]...)
		want := []string{
			"r lead task words",
			"r-1-0 echo task words 1",
			"r-1-2 bad task x",
			"r-1-2 bad end server: broken",
			"r lead result r-1-2 server: broken",
			"r-1-0 echo assistant echo: words 1",
			"r lead result r-1-0 echo: words 1",
			"r lead assistant together: echo: words 1",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			h.t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// partings compares two trees, a line for each place.
func (h *harness) partings(a, b string) (lines []string) {
	h.t.Helper()
	var trees []*client.Snapshot
	for _, id := range []string{a, b} {
		s, err := h.Snapshot(h.t.Context(), client.TreeID(id))
		if err != nil {
			h.t.Fatal(err)
		}
		trees = append(trees, s)
	}
	text := func(m *client.Message) string {
		if m == nil {
			return "nothing"
		}
		return string(m.Role) + " " + m.Text
	}
	for _, p := range client.Compare(trees[0], trees[1]) {
		lines = append(lines, fmt.Sprint(p.Path, ": ", text(p.A), " / ", text(p.B)))
	}
	return lines
}

// TestCompare: two trees part where their conversations differ first. Where
// only the answer of a run below differs, that is the place. The order in which
// results have come does not count.
func TestCompare(t *testing.T) {
	withHarness(t, func(h *harness) {
		expect := func(a, b string, want ...string) {
			h.t.Helper()
			if diff := cmp.Diff(want, h.partings(a, b)); diff != "" {
				h.t.Errorf("%s and %s (-want +got):\n%s", a, b, diff)
			}
		}
		h.startWorker()
		for id, text := range map[string]string{"one": "words", "two": "words", "three": "other"} {
			h.submit("lead", text, id)
			h.answers(client.TreeID(id), "together: echo: "+text+" 1")
		}
		expect("one", "two")
		expect("one", "three", "r: task words / task other")

		// Two trees of which the child of a child answers otherwise.
		for tree, end := range map[string]string{"x": "yes", "y": "no"} {
			subject := func(rest string) string { return "axe.run.echo." + tree + "." + rest }
			turn := func(call string) string { return turnOf(`{"agent":"echo","task":"` + call + `"}`) }
			outcome := `{"status":"completed","agent":"echo","result":"` + end + `"}`
			h.write(subject("r.call"), `{"task":"go"}`)
			h.write(subject("r.log"), turn("deeper"))
			h.write(subject("r-1-0.call"), `{"task":"deeper"}`)
			h.write(subject("r-1-0.log"), turn("deepest"))
			h.write(subject("r-1-0-1-0.call"), `{"task":"deepest"}`)
			h.write(subject("r-1-0.in.1.0"), outcome)
			h.write(subject("r.in.1.0"), outcome)
			h.write("axe.result.echo."+tree, outcome)
		}
		expect("x", "y", "r-1-0-1-0: assistant yes / assistant no")
	})
}

// TestCompareOrder: two trees have the same messages. In one of them mail has
// come between two results.
func TestCompareOrder(t *testing.T) {
	withHarness(t, func(h *harness) {
		const (
			result0 = "in.1.0"
			result1 = "in.1.1"
			mail    = "in.mail.k1"
		)
		trees := map[string][]string{
			"between": {result1, mail, result0},
			"swapped": {result0, mail, result1},
			"after":   {result0, result1, mail},
			"before":  {mail, result1, result0},
		}
		for tree, order := range trees {
			h.write("axe.run.echo."+tree+".r.call", `{"task":"go"}`)
			h.write("axe.run.echo."+tree+".r.log", turnOf(`{}`, `{}`))
			for _, at := range order {
				body := `{"from":"r-1-2","text":"hello"}`
				if at != mail {
					body = `{"status":"completed","agent":"echo","result":"of ` + at + `"}`
				}
				h.write("axe.run.echo."+tree+".r."+at, body)
			}
			if n := len(h.conversation(tree)); n != 7 {
				h.t.Fatalf("%s: %d messages, want task, answer, two ends, two results and mail:\n%s",
					tree, n, strings.Join(h.conversation(tree), "\n"))
			}
		}
		for tree := range trees {
			if got := h.partings("between", tree); len(got) > 0 {
				h.t.Errorf("between and %s part at %q, want no parting", tree, got)
			}
		}
	})
}

// turnOf returns the log entry of a first turn with a call of the agent echo
// for each of the arguments, which are JSON.
func turnOf(arguments ...string) string {
	var toolCalls, calls []string
	for i, a := range arguments {
		toolCalls = append(toolCalls, fmt.Sprintf(`{"id":"%d","name":"call_agent","arguments":%q}`, i, a))
		calls = append(calls, `{"agent":"echo"}`)
	}
	return `{"index":1,"kind":"turn","trigger":1,"seen":1,"worker":"w","start":{"model":"m","user":"go"},` +
		`"answer":{"tool_calls":[` + strings.Join(toolCalls, ",") + `]},"calls":[` + strings.Join(calls, ",") + `]}`
}

// TestCompareNumbers: the arguments of two calls are the same if their keys
// have another order, and differ if a digit of a large number differs.
func TestCompareNumbers(t *testing.T) {
	withHarness(t, func(h *harness) {
		for tree, arguments := range map[string]string{
			"base": `{"order":9007199254740993,"x":1.5}`, "same": `{"x":1.5,"order":9007199254740993}`,
			"other": `{"order":9007199254740992,"x":1.5}`,
		} {
			h.write("axe.run.echo."+tree+".r.call", `{"task":"go"}`)
			h.write("axe.run.echo."+tree+".r.log", turnOf(arguments))
		}
		if got := h.partings("base", "same"); len(got) > 0 {
			h.t.Errorf("arguments in another order: %q, want no parting", got)
		}
		if got := h.partings("base", "other"); len(got) != 1 {
			h.t.Errorf("another number: %q, want one parting", got)
		}
	})
}

// TestResolve: the beginning of an id names its tree where no other id begins
// so. A command that changes something takes only ids that Submit has made.
func TestResolve(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.submit("echo", "x", "order12")
		made := h.submit("echo", "x", "")
		h.startWorker()
		h.answers(client.TreeID("order12"), "echo: x")
		h.submit("echo", "x", "nightly1")
		h.submit("echo", "x", "nightly2")
		h.answers(client.TreeID("nightly2"), "echo: x")
		for _, tt := range []struct {
			id     string
			looks  string
			change string
		}{
			{"order12", "order12", "order12"},
			{"order1", "order12", "order1"},
			{"nightly", "several", "nightly"},
			{made.String()[:12], made.String(), made.String()},
			{"unknown", "unknown", "unknown"},
			{"o", "o", "o"},
		} {
			for onlyMade, want := range map[bool]string{false: tt.looks, true: tt.change} {
				tree, err := h.Resolve(h.t.Context(), client.TreeID(tt.id), onlyMade)
				got := tree.String()
				if e, ok := errors.AsType[*client.AmbiguousError](err); ok {
					got = "several"
					if len(e.Trees) != 2 {
						h.t.Errorf("%s: %d candidates, want 2: %v", tt.id, len(e.Trees), e)
					}
				} else if err != nil {
					h.t.Fatal(err)
				}
				if got != want {
					h.t.Errorf("%s, made %t: got %s, want %s", tt.id, onlyMade, got, want)
				}
			}
		}
		if n := len(bus.NewID()); n != 22 || len(made.String()) != n {
			h.t.Errorf("an id that is made has %d characters, want 22", n)
		}
	})
}

// TestStatistics: the runs of all levels are counted by agent, failed ones too.
func TestStatistics(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.startWorker()
		for i := range 3 {
			id := fmt.Sprint("t", i)
			h.submit("lead", "words", id)
			h.answers(client.TreeID(id), "together: echo: words 1")
		}
		stats, err := client.ReadStatistics(h.t.Context(), h.Client, h.conn.Clocks.Now().Add(-1e12))
		if err != nil {
			h.t.Fatal(err)
		}
		var got []string
		for _, s := range stats.Agents {
			got = append(got, fmt.Sprint(s.Agent, " ", s.Runs, " ", s.Failed, " ", s.P50.Round(1e9)))
		}
		if diff := cmp.Diff([]string{"bad 3 3 1s", "echo 3 0 2s", "lead 3 0 4s"}, got); diff != "" || !stats.All {
			h.t.Errorf("all %t (-want +got):\n%s", stats.All, diff)
		}
	})
}

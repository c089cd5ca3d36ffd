package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// TestTree folds events and draws what is known then. In the scripts
//
//	tell
//	SECONDS PATH AGENT KIND [turn=N] [calls=a,b!,c] [review=AGENT] [status=S] [kind=K] [reason=R] [took=D] [worker=W] [attempt=N] [next=D] [fork] [from=PATH] [by=NAME] [tools=a,b] [text=…]
//
// (tools are those that the run was started with; a call is an agent's name,
// with ! if it is refused, or :fork, :check_mail, :wait, :wait@PATH+PATH,
// :send@PATH, :kill@PATH) prints each event as --progress plain does, and "draw
// [now=SECONDS] [width=N] [height=N] [colour]" the tree. go test -rewrite
// writes what is drawn into the scripts.
func TestTree(t *testing.T) {
	datadriven.Walk(t, "testdata/tree", func(t *testing.T, path string) {
		t.Helper()
		tree := &Tree{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			switch d.Cmd {
			case "tell":
				var out strings.Builder
				for line := range strings.Lines(d.Input) {
					e := parseEvent(t, line)
					tree.Apply(e)
					// without the local time
					_, text, _ := strings.Cut(Line(e), " ")
					out.WriteString(text + "\n")
				}
				return out.String()
			case "draw":
				f := Frame{Colour: d.HasArg("colour")}
				now := 0
				for name, value := range map[string]*int{"now": &now, "width": &f.Width, "height": &f.Height, "tick": &f.Tick} {
					if d.HasArg(name) {
						d.ScanArgs(t, name, value)
					}
				}
				f.Now = time.Unix(int64(now), 0)
				return strings.ReplaceAll(strings.Join(tree.Lines(f), "\n")+"\n", "\x1b", "ESC")
			}
			t.Fatalf("what is %s?", d.Cmd)
			return ""
		})
	})
}

func parseEvent(t *testing.T, line string) client.Event {
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
	e := client.Event{
		Kind: client.EventKind(strings.ReplaceAll(words[3], "_", " ")), Time: time.Unix(0, 0).Add(at), Reason: text,
		Run:     subjects.Space{}.Run(agent, client.TreeID("tree"), path),
		Outcome: run.Outcome{Status: run.StatusCompleted, Error: text},
	}
	for _, word := range words[4:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "turn":
			e.Turn = int(value[0] - '0')
			e.Outcome.Turns = e.Turn
		case "calls":
			for call := range strings.SplitSeq(value, ",") {
				e.Calls = append(e.Calls, parseCall(call, text, path.Child(e.Turn, len(e.Calls))))
			}
		case "fork":
			e.Input.Forked = &run.Forked{Inherit: text == ""}
		case "review":
			e.Review = &run.Call{Op: run.OpReview, Agent: value}
		case "by":
			e.By = value
		case "tools":
			e.Start = &run.Start{}
			for name := range strings.SplitSeq(value, ",") {
				e.Start.Tools = append(e.Start.Tools, provider.Tool{Name: name})
			}
		case "from":
			e.Mail.From = strings.TrimSuffix(value, "!")
			e.Mail.Idle = value != e.Mail.From
			e.Mail.Text = text
		case "status":
			e.Outcome.Status = run.Status(value)
		case "kind":
			e.Outcome.Kind = run.Kind(value)
		case "reason":
			e.Outcome.Reason = run.Reason(value)
		case "took":
			took, err := time.ParseDuration(value)
			if err != nil {
				t.Fatal(err)
			}
			e.Outcome.DurationMS = took.Milliseconds()
		case "worker":
			e.Worker = value
		case "attempt":
			e.Attempt, e.Attempts = int(value[0]-'0'), 3
		case "next":
			in, err := time.ParseDuration(value)
			if err != nil {
				t.Fatal(err)
			}
			e.Next = e.Time.Add(in)
		default:
			t.Fatalf("what is %s?", word)
		}
	}
	return e
}

func parseCall(text, why string, child subjects.Path) run.Call {
	op, own := strings.CutPrefix(text, ":")
	if !own {
		c := run.Call{Agent: strings.TrimSuffix(text, "!")}
		if c.Agent != text {
			c.Error = "refused: " + why
		}
		return c
	}
	op, whom, named := strings.Cut(op, "@")
	c := run.Call{Op: run.Op(op), To: whom}
	switch {
	case c.Op == run.OpFork:
		c.To, c.Agent = child.String(), "lead"
	case c.Op == run.OpWait && named:
		c.To, c.From = "", strings.Split(whom, "+")
	}
	return c
}

// TestTreeTakesAnything: events in any order, for runs in any order, never
// break a drawing.
func TestTreeTakesAnything(t *testing.T) {
	paths := []string{"r-3-1-2-0", "r-1-0", "r", "r-2-11", "r-2-9", "r-1-0-1-0"}
	kinds := []client.EventKind{
		client.ChildEnded,
		client.Asking,
		client.Retrying,
		client.RateLimited,
		client.TimedOut,
		client.Cancelled,
		client.Answered,
		client.Called,
		client.TreeEnded,
		client.BecameIdle,
		client.MailReceived,
		client.Held,
		client.Approved,
		client.Denied,
		client.Interrupted,
		"new",
	}
	calls := []run.Call{
		{},
		{},
		{Op: run.OpFork},
		{Op: run.OpWait, From: paths},
		{Op: run.OpWait},
		{Op: run.OpKill, To: "r-1-0"},
		{Op: run.OpMail},
	}
	for first := range kinds {
		tree := &Tree{}
		for i := range len(kinds) * len(paths) {
			path, err := subjects.ParsePath(paths[i%len(paths)])
			if err != nil {
				t.Fatal(err)
			}
			tree.Apply(
				client.Event{
					Kind:  kinds[(first+i)%len(kinds)],
					Run:   subjects.Run{Path: path},
					Turn:  i % 4,
					Calls: calls[:i%len(calls)],
					Mail:  run.Mail{From: paths[i%5]},
				},
			)
			for width := range 50 {
				lines := tree.Lines(Frame{Width: width, Height: i % 5})
				for _, l := range lines {
					if width > 0 && cells(l) > width {
						t.Fatalf("%q is wider than %d", l, width)
					}
				}
				if h := i % 5; h > 0 && len(lines) > h {
					t.Fatalf("%d lines, want %d at most", len(lines), h)
				}
			}
		}
	}
}

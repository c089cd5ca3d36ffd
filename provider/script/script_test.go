package script_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/providertest"
	"github.com/axebus/axe/provider/script"
)

// load loads a text as the script with the name test.
func load(t *testing.T, text string) *script.Script {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "test.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := script.Load(dir, "test")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// system is a system text with two files.
const system = "You read.\n\n---\n\n## Context Files\n\n" +
	"### a/x.go\n```go\npackage x\n\nfunc X() {}\n```\n\n### README\n````\n```\n````"

// firstTurn returns the request of a run's first turn.
func firstTurn(user string) *provider.Request {
	return &provider.Request{
		Model:    "test",
		System:   system,
		Messages: []provider.Message{{Role: provider.User, Content: user}},
	}
}

// secondTurn returns the request of the second turn, after the first one has
// made calls.
func secondTurn(user string, calls []provider.ToolCall, results ...provider.ToolResult) *provider.Request {
	req := firstTurn(user)
	req.Messages = append(req.Messages,
		provider.Message{Role: provider.Assistant, Content: "asking", ToolCalls: calls},
		provider.Message{Role: provider.ToolRole, ToolResults: results})
	return req
}

// format returns a response as text: the stop reason, the content, and a line
// for each call.
func format(resp *provider.Response, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	var s strings.Builder
	s.WriteString(resp.StopReason + ": " + resp.Content)
	for _, c := range resp.ToolCalls {
		fmt.Fprintf(&s, "\n%s %s %s", c.ID, c.Name, c.RawArguments())
	}
	return s.String()
}

// TestSend: each script gives the wanted answer, and the same one to the same
// request again.
func TestSend(t *testing.T) {
	first := firstTurn("Task: count\n\nContext:\none\n\ntwo\n")
	call := provider.NewToolCall("1", "call_agent", []byte(`{"agent":"reader","task":"read"}`))
	second := secondTurn(
		"go",
		[]provider.ToolCall{call},
		provider.ToolResult{CallID: "1", Content: "done"},
		provider.ToolResult{CallID: "2", Content: "broken", IsError: true},
	)
	third := *second
	third.Messages = append(
		slices.Clone(second.Messages),
		provider.Message{Role: provider.Assistant, Content: "hm"},
		provider.Message{Role: provider.User, Content: "mail"},
	)
	secondWithMail := *second
	secondWithMail.Messages = append(
		slices.Clone(second.Messages),
		provider.Message{Role: provider.User, Content: "answer now"},
	)
	const badEntry = "error: bad_request: script test: [[turn]] at line 1: "
	const threeEntries = "turn=2\ntext='two'\n" +
		"[[turn]]\nwhen='{{contains \"cou\" .Task}}'\ntext='counting'\n[[turn]]\ntext='any'"
	for _, tt := range []struct {
		name, script string
		req          *provider.Request
		want         string
	}{
		{
			"text", `text="{{.Model}} {{.Turn}} {{.Task}}|{{.Context}}|"`, first,
			"end_turn: test 1 count|one\n\ntwo\n|",
		},
		{"root", `text="{{.User}}|{{.Task}}|{{.Context}}"`, second, "end_turn: go|go|"},
		{
			"system",
			`text="{{len .System}} {{len .Files}}{{range .Files}} {{.}} {{.Lang}} {{len .Lines}}{{end}}"`, first,
			"end_turn: 103 2 a/x.go go 3 README  1",
		},
		{
			"results",
			`text="{{.Turn}}{{range .Results}} {{.Index}}{{.Agent}}{{.Task}}={{.}}{{.IsError}}{{end}}"`, second,
			"end_turn: 2 0readerread=donefalse 1=brokentrue",
		},
		{
			"results before a user's message", `text="{{range .Results}}{{.Content}} {{end}}"`, &secondWithMail,
			"end_turn: done broken ",
		},
		{"old results", `text="{{.Turn}} {{len .Results}} {{len .AllResults}}"`, &third, "end_turn: 3 0 2"},
		{"empty", `text=""`, first, "end_turn: "},
		{
			"call", "text='I ask.'\n[[turn.call]]\nagent='reader'\ntask='{{.Task}} \"it\"'\ncontext=''", first,
			"tool_use: I ask.\n" + `script_1_0 call_agent {"agent":"reader","task":"count \"it\""}`,
		},
		{
			"each file",
			"[[turn.call]]\neach='files'\nagent='r'\n" +
				"task='{{.Index}} {{.Item.Path}}'\ncontext='{{.Item.Content}}'", first,
			"tool_use: \n" +
				`script_1_0 call_agent {"agent":"r","context":"package x\n\nfunc X() {}\n","task":"0 a/x.go"}` +
				"\n" + "script_1_1 call_agent {\"agent\":\"r\",\"context\":\"```\\n\",\"task\":\"1 README\"}",
		},
		{
			"each result", "[[turn.call]]\neach='results'\ntask='{{.Item}}'\n[[turn.call]]\nagent='z'", second,
			"tool_use: \n" + `script_2_0 call_agent {"task":"done"}` + "\n" +
				`script_2_1 call_agent {"task":"broken"}` + "\n" +
				`script_2_2 call_agent {"agent":"z"}`,
		},
		{
			"each line", "[[turn.call]]\neach='lines'\ntask='{{.Item}}'", first,
			"tool_use: \n" + `script_1_0 call_agent {"task":"one"}` + "\n" +
				`script_1_1 call_agent {"task":"two"}`,
		},
		{"each of none", "[[turn.call]]\neach='results'\ntask='{{.Item}}'", first, "end_turn: "},
		{
			"repeat", "[[turn.call]]\nrepeat='{{add .Turn 1}}'\ntask='{{.Index}}'", first,
			"tool_use: \n" + `script_1_0 call_agent {"task":"0"}` + "\n" + `script_1_1 call_agent {"task":"1"}`,
		},
		{"raw", "[[turn.call]]\nraw='{\"agent\": '", first, "tool_use: \nscript_1_0 call_agent {}"},
		{
			"arguments",
			"[[turn.call]]\ntool='search'\n[turn.call.arguments]\n" +
				"q='{{.Task}}'\nn=3\ndeep={a=['{{.Turn}}',true]}\nrows=[{k='{{.Turn}}'}]", first,
			"tool_use: \n" + `script_1_0 search {"deep":{"a":["1",true]},"n":3,"q":"count","rows":[{"k":"1"}]}`,
		},
		{"no arguments", "[[turn.call]]\ntool='now'", first, "tool_use: \nscript_1_0 now {}"},
		{"second entry", threeEntries, first, "end_turn: counting"},
		{"turn entry", threeEntries, second, "end_turn: two"},
		{"last entry", threeEntries, &third, "end_turn: any"},
		{"no entry", "turn=2\ntext='two'", first, "error: bad_request: script test: no entry matches turn 1"},
		{
			"fail", "[turn.fail]\ncategory='rate_limit'\nmessage='slow down, turn {{.Turn}}'\nstatus=429", first,
			"error: rate_limit (HTTP 429): slow down, turn 1",
		},
		{
			"full window", "[turn.fail]\ncategory='context_window'\nmessage='too long'\nstatus=400", first,
			"error: context_window (HTTP 400): too long",
		},
		{
			"no such field in a failure", "[turn.fail]\ncategory='auth'\nmessage='{{.Nope}}'", first,
			badEntry + "template: fail.message:1:2: executing \"fail.message\" at <.Nope>: " +
				"can't evaluate field Nope in type script.templateData",
		},
		{
			"no such field", "\ntext='{{.Nope}}'", first,
			badEntry + "template: text:1:2: executing \"text\" at <.Nope>: " +
				"can't evaluate field Nope in type script.templateData",
		},
		{
			"bad when", "when='{{index .Results 5}}'\ntext='x'", first,
			badEntry + "template: when:1:2: executing \"when\" at <index .Results 5>: " +
				"error calling index: index out of range: 5",
		},
		{
			"bad repeat", "[[turn.call]]\nrepeat='many'", first,
			badEntry + `repeat must be an integer from 0 to 10000, got "many"`,
		},
		{
			"too many", "[[turn.call]]\nrepeat='9999'\n[[turn.call]]\nrepeat='2'", first,
			badEntry + "more than 10000 calls in one turn",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := load(t, "[[turn]]\n"+tt.script)
			got := format(s.Send(t.Context(), tt.req))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if again := format(s.Send(t.Context(), tt.req)); again != got {
				t.Errorf("the same request again: got %s, want %s", again, got)
			}
		})
	}
}

// TestSendCountsTokens: four bytes of text count as a token, rounded up.
func TestSendCountsTokens(t *testing.T) {
	s := load(t, "[[turn]]\ntext='12345'")
	messages := []provider.Message{{Role: provider.User, Content: "1"}}
	resp, err := s.Send(t.Context(), &provider.Request{Model: "m", System: "1234", Messages: messages})
	if err != nil {
		t.Fatal(err)
	}
	if want := (provider.Usage{InputTokens: 2, OutputTokens: 2}); resp.Usage != want || resp.Model != "m" {
		t.Errorf("got %+v, want usage %+v of model m", resp, want)
	}
}

// TestSendConcurrently: goroutines that send the same request get the same
// answer.
func TestSendConcurrently(t *testing.T) {
	s := load(t, "[[turn]]\ntext='{{range .Files}}{{count `.` .Content}} {{end}}'\n"+
		"[[turn.call]]\neach='files'\ntask='{{.Item}}'")
	want := format(s.Send(t.Context(), firstTurn("go")))
	if !strings.HasPrefix(want, "tool_use: ") {
		t.Fatalf("got %s, want calls", want)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got := format(s.Send(t.Context(), firstTurn("go"))); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	wg.Wait()
}

// TestLatency: a script answers after its latency. The end of the context ends
// the wait at once.
func TestLatency(t *testing.T) {
	s := load(t, "[[turn]]\nlatency='200ms'\ntext='late'")
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if got := format(s.Send(t.Context(), firstTurn("go"))); got != "end_turn: late" ||
			time.Since(began) != 200*time.Millisecond {
			t.Errorf("got %s after %v, want the answer after 200ms", got, time.Since(began))
		}

		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(stop) })
		began = time.Now()
		_, err := s.Send(ctx, firstTurn("go"))
		if _, ok := errors.AsType[*provider.Error](err); ok || !errors.Is(err, stop) ||
			!errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: got %v, want context.Canceled and the cause", err)
		}
		if took := time.Since(began); took != 50*time.Millisecond {
			t.Errorf("cancelled after %v, want 50ms", took)
		}

		late, cancelLate := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancelLate()
		_, err = s.Send(late, firstTurn("go"))
		if e, ok := errors.AsType[*provider.Error](err); !ok || e.Category != provider.Timeout ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the deadline: got %v, want a timeout", err)
		}
	})
}

// TestSlowDown: SlowDown multiplies the latency of each answer.
func TestSlowDown(t *testing.T) {
	s := load(t, "[[turn]]\nlatency='200ms'\ntext='late'")
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if got := format(s.SlowDown(15).Send(t.Context(), firstTurn("go"))); got != "end_turn: late" {
			t.Errorf("got %s, want the answer", got)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("took %v, want 3s", took)
		}
	})
}

// TestContextEnds: the end of the context ends every kind of answer, as with
// other providers.
func TestContextEnds(t *testing.T) {
	for name, text := range map[string]string{
		"text":         "[[turn]]\nlatency='9h'\ntext='late'",
		"failure":      "[[turn]]\nlatency='9h'\n[turn.fail]\ncategory='auth'\nmessage='no'",
		"broken entry": "[[turn]]\nlatency='9h'\ntext='{{.Nope}}'",
	} {
		s := load(t, text)
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				providertest.CheckDeadline(t, s)
				providertest.CheckCancel(t, s)
			})
		})
	}
	t.Run("no entry", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := load(t, "[[turn]]\nturn=2\ntext='two'").Send(ctx, firstTurn("go"))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
}

// TestFailAfterLatency: a failure comes after its latency, with its category
// and the time to wait.
func TestFailAfterLatency(t *testing.T) {
	s := load(t, "[[turn]]\nlatency='1s'\n[turn.fail]\ncategory='overloaded'\nmessage='busy'\nretry_after='3s'")
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := s.Send(t.Context(), firstTurn("go"))
		e, ok := errors.AsType[*provider.Error](err)
		if !ok || e.Category != provider.Overloaded || e.RetryAfter != 3*time.Second ||
			time.Since(began) != time.Second {
			t.Errorf("got %v after %v, want overloaded with a pause of 3s, after 1s", err, time.Since(began))
		}
	})
}

// TestIDs: the system text of a run with mail tools has its id, and its
// parent's id if it is not the root. A script finds them there.
func TestIDs(t *testing.T) {
	s := load(t, "[[turn]]\ntext='{{.ID}}|{{.Parent}}'")
	for about, want := range map[string]string{
		"Be brief.": "|",
		"## Sub-agents\n\nYour id is r.\n\nYou can fork children.":                      "r|",
		"## Sub-agents\n\nYour id is r-2-1-1-0. Your parent's id is r-2-1.\n\nIf you …": "r-2-1-1-0|r-2-1",
	} {
		req := firstTurn("go")
		req.System += "\n\n" + about
		if got := format(s.Send(t.Context(), req)); got != "end_turn: "+want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestFuncs: each function of templates gives the wanted result. A wrong
// argument is a bad_request.
func TestFuncs(t *testing.T) {
	render := func(template string) string {
		t.Helper()
		req := firstTurn("Task: a\n\nContext:\nx1\ny\nx2\n")
		return format(load(t, "[[turn]]\ntext='''"+template+"'''").Send(t.Context(), req))
	}
	for _, tt := range []struct{ template, want string }{
		{`{{join ", " (lines .Context)}}`, "x1, y, x2"},
		{`{{join ", " .Files}}`, "a/x.go, README"},
		{`{{join "; " (grep "^x" .Context)}}`, "1: x1; 3: x2"},
		{`{{range grep "1|y" .Context}}{{.N}}{{.Text}} {{end}}`, "1x1 2y "},
		{`{{join "; " (grep "x\\d\n(y)" .Context)}}`, "2: y"},
		{`{{join "; " (grep "(x|y)(.|\n)*2" .Context)}}`, "1: x1; 2: y; 3: x2"},
		{`{{count "^x" .Context}} {{count "^" ""}} {{count "$" "a\nb"}}`, "2 1 2"},
		{`{{join "," (first 2 (lines .Context))}} {{len (first 9 .Files)}} {{len (first -1 .Results)}}`, "x1,y 2 0"},
		{`{{join "," (first 1 (grep "x" .Context))}}`, "1: x1"},
		{`{{contains "y" .Context}} {{trim "  a "}} {{upper "a"}} {{lower "A"}}`, "true a A a"},
		{`{{index (words " a\nb ") 1}}`, "b"},
		{`{{indent 2 "a\nb"}}`, "  a\n  b"},
		{`{{default "none" .Results}} {{"" | default "none"}} {{default "none" .Task}}`, "none none a"},
		{`{{add 1 2 3}} {{sub 1 2}}{{range seq 3}} {{.}}{{end}}`, "6 -1 1 2 3"},
		{`{{range (fromJSON "[{\"a\":1},{\"a\":2}]")}}{{.a}}{{end}}`, "12"},
		{`{{json .Task}} {{json (lines .Context)}}`, `"a" ["x1","y","x2"]`},
	} {
		if got, ok := strings.CutPrefix(render(tt.template), "end_turn: "); !ok || got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.template, got, tt.want)
		}
	}
	for _, template := range []string{`{{grep "(" ""}}`, `{{first 1 3}}`, `{{join "" 3}}`, `{{seq 100000}}`} {
		if got := render(template); !strings.HasPrefix(got, "error: bad_request: ") {
			t.Errorf("%s: got %s, want a bad_request", template, got)
		}
	}
}

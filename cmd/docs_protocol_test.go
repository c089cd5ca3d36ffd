package cmd_test

import (
	"bytes"
	"encoding/json"
	"net/textproto"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/budget"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/subjects"
)

// bodies maps the kind of a JSON block of docs/protocol.md to a value of the
// type that decodes it. The info string of the block is "json" and the kind.
var bodies = map[string]any{
	"call":       run.Input{},
	"entry":      run.Entry{},
	"outcome":    run.Outcome{},
	"mail":       run.Mail{},
	"approval":   run.Approval{},
	"settlement": run.Settlement{},
	"end":        run.End{},
	"return":     run.Return{},
	"held":       run.HeldTurn{},
	"tally":      budget.Tally{},
	"progress":   run.Progress{},
	"card":       agentd.Card{},
	"worker":     presence.Entry{},
	"held-list":  bus.HeldList{},
	"work":       presence.Work{},
	"start":      run.Start{},
	"decision":   run.Call{},
}

// tables maps a section of docs/protocol.md to the body with the fields of its
// table.
var tables = map[string]string{
	"Outcome": "outcome", "Call": "call", "Log entry": "entry", "Mail": "mail", "Approval": "approval",
	"Settlement":     "settlement",
	"Cancel message": "end", "Start": "start", "Decision": "decision", "Tally": "tally", "Progress": "progress",
	"Card": "card", "Worker": "worker", "Work in hand": "work", "Return": "return",
}

// TestProtocolPage: each body of docs/protocol.md is decoded and has no unknown
// field. The workers' parsers accept each message. The page names every header,
// and each table has the fields of its body.
func TestProtocolPage(t *testing.T) {
	p := readPage(t, "docs/protocol.md")
	fenced, prose := p.blocks()
	seen := map[string]bool{}
	messages := 0
	for _, b := range fenced {
		kind, ok := strings.CutPrefix(b.info, "json ")
		switch {
		case ok:
			seen[kind] = true
			checkBody(t, b, kind)
		case b.info == "text message":
			messages++
			checkMessage(t, b)
		}
	}
	if messages == 0 {
		t.Error("found no message: are they in blocks with the info string text message?")
	}
	for kind := range bodies {
		// Start and decision are parts of an entry.
		if !seen[kind] && kind != "start" && kind != "decision" {
			t.Errorf("the page has no example of a body of kind %s", kind)
		}
	}
	for _, h := range []string{
		subjects.HeaderTree, subjects.HeaderPath, subjects.HeaderParent, subjects.HeaderDepth, subjects.HeaderMaxDepth,
		subjects.HeaderDeadline, subjects.HeaderReply, subjects.HeaderLimits, subjects.HeaderSchema,
		subjects.HeaderTraceparent,
	} {
		if !strings.Contains(p.text, "`"+h+"`") {
			t.Errorf("the page does not name the header %s", h)
		}
	}
	section, fields := "", map[string][]string{}
	for _, line := range prose {
		if m := heading.FindStringSubmatch(line); m != nil {
			section = m[1]
		} else if cell, ok := strings.CutPrefix(line, "| `"); ok {
			cell, _, _ = strings.Cut(cell, "` |")
			fields[section] = append(fields[section], strings.Split(cell, "`, `")...)
		}
	}
	for section, kind := range tables {
		want := jsonFields(reflect.TypeOf(bodies[kind]))
		slices.Sort(want)
		slices.Sort(fields[section])
		if !slices.Equal(want, fields[section]) {
			t.Errorf("%s: the table has the fields\n%v, want\n%v", section, fields[section], want)
		}
	}
}

// jsonFields lists the names of a struct's fields in JSON.
func jsonFields(s reflect.Type) []string {
	var names []string
	for f := range s.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, jsonFields(f.Type)...)
		case name != "" && name != "-":
			names = append(names, name)
		}
	}
	return names
}

// checkBody decodes a JSON block into the type of its kind. If the workers have
// a decoder of that kind, checkBody calls it too.
func checkBody(t *testing.T, b block, kind string) {
	t.Helper()
	body, known := bodies[kind]
	if !known {
		t.Errorf("line %d: the kind %s is not in bodies", b.line, kind)
		return
	}
	d := json.NewDecoder(strings.NewReader(b.body))
	d.DisallowUnknownFields()
	if err := d.Decode(reflect.New(reflect.TypeOf(body)).Interface()); err != nil {
		t.Errorf("line %d: %s: %v", b.line, kind, err)
	}
	var err error
	switch kind {
	case "entry":
		_, err = run.DecodeEntry([]byte(b.body))
	case "outcome":
		_, err = run.DecodeOutcome([]byte(b.body))
	case "mail":
		_, err = run.DecodeMail([]byte(b.body))
	case "approval":
		_, err = run.DecodeApproval([]byte(b.body))
	}
	if err != nil {
		t.Errorf("line %d: a worker refuses this %s: %v", b.line, kind, err)
	}
}

// checkMessage parses the subject of a message, and the headers of a call or a
// submission.
func checkMessage(t *testing.T, b block) {
	t.Helper()
	var space subjects.Space
	subject, rest, _ := strings.Cut(b.body, "\n")
	head := textproto.MIMEHeader{}
	for line := range strings.Lines(rest) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			head.Add(name, value)
		}
	}
	at, err := space.Parse(subject)
	switch {
	case strings.HasPrefix(subject, "axe.timer."):
		_, _, err = space.ParseTimer(subject)
	case strings.HasPrefix(subject, "axe.dead."):
		_, err = space.ParseDead(subject)
	case err == nil && at.Kind == subjects.Call:
		_, err = subjects.ParseCall(at.Run, head.Get)
	case err == nil && at.Kind == subjects.Submission:
		if _, err = subjects.ParseTimeout(head.Get(subjects.HeaderTimeout)); err == nil {
			_, err = subjects.ParseScopes(head.Get(subjects.HeaderLimits), subjects.Root)
		}
	}
	if err != nil {
		t.Errorf("line %d: a worker refuses this message: %v", b.line, err)
	}
}

// TestJSONOfPages: each JSON block of a page is valid. A block may hold several
// values.
func TestJSONOfPages(t *testing.T) {
	for _, p := range pages(t) {
		fenced, _ := p.blocks()
		for _, b := range fenced {
			if !strings.HasPrefix(b.info, "json") {
				continue
			}
			for d := json.NewDecoder(bytes.NewReader([]byte(b.body))); d.More(); {
				var v any
				if err := d.Decode(&v); err != nil {
					t.Errorf("%s:%d: %v", p.name, b.line, err)
					break
				}
			}
		}
	}
}

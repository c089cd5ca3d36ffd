package script_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/script"
)

// TestLoadRefuses: the error of an invalid script names the file, the line and
// the mistake. Its category is bad_request.
func TestLoadRefuses(t *testing.T) {
	const ok = "[[turn]]\ntext = 'x'\n"
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "1: turn: the file must have at least one [[turn]]"},
		{"no table", "turn = 3", "1: turn: must be tables [[turn]]"},
		{"syntax", ok + "text = ", "3: unexpected EOF; expected value"},
		{"no answer", ok + "[[turn]]\nwhen = 'true'", "3: [[turn]] 2: must have text, fail or call"},
		{"unknown", ok + "texte = 'x'", "3: turn.texte: unknown key"},
		{
			"unknown in call", ok + "[[turn.call]]\nagent='a'\n[[turn.call]]\nagnt = 'x'",
			"6: turn.call.agnt: unknown key",
		},
		{
			"unknown in an inline table", "[[turn]]\ncall = [\n{agent = 'a'},\n{agnt = 'x'},\n]",
			"4: turn.call.agnt: unknown key",
		},
		{"fail and text", ok + "fail = { category = 'auth' }", "1: [[turn]] 1: fail excludes text and call"},
		{"unknown table", ok + "\n[turn.fial]\ncategory = 'auth'", "4: turn.fial: unknown key"},
		{"unknown at top", "title = 'x'\n" + ok, "1: title: unknown key"},
		{
			"type", ok + "[[turn]]\ntext = 3",
			`3: [[turn]] 2: "turn.text": incompatible types: TOML value has type int64; destination has type string`,
		},
		{"turn zero", "[[turn]]\nturn = 0\ntext = 'x'", "1: [[turn]] 1: turn must be at least 1, got 0"},
		{
			"latency", ok + "latency = 'soon'",
			`1: [[turn]] 1: latency must be a duration such as 200ms, got "soon"`,
		},
		{"template", "\n[[turn]]\ntext = '{{'", "2: [[turn]] 1: template: text:1: unclosed action"},
		{"when", ok + "when = '{{nope}}'", `1: [[turn]] 1: template: when:1: function "nope" not defined`},
		{
			"argument", "[[turn]]\n[[turn.call]]\n[turn.call.arguments]\nq = [{k = '{{'}]",
			"1: [[turn]] 1: template: q.k:1: unclosed action",
		},
		{
			"category", "[[turn]]\nfail = {category = 'bad'}",
			"1: [[turn]] 1: fail.category must be one of auth, rate_limit, timeout, overloaded, bad_request, " +
				`context_window, server, got "bad"`,
		},
		{
			"retry_after", "[[turn]]\nfail = {category = 'auth', retry_after = '-1s'}",
			`1: [[turn]] 1: fail.retry_after must be a duration such as 200ms, got "-1s"`,
		},
		{
			"each", "[[turn]]\n[[turn.call]]\neach = 'file'",
			`1: [[turn]] 1: call.each must be one of files, results, lines, got "file"`,
		},
		{
			"each and repeat", "[[turn]]\n[[turn.call]]\neach = 'files'\nrepeat = '2'",
			"1: [[turn]] 1: call.each excludes call.repeat",
		},
		{
			"raw and task", "[[turn]]\n[[turn.call]]\nraw = '{'\ntask = '2'",
			"1: [[turn]] 1: call.raw excludes all other arguments",
		},
		{
			"other tool", "[[turn]]\n[[turn.call]]\ntool = 'now'\ntask = '2'",
			"1: [[turn]] 1: agent, task and context are arguments of call_agent: " +
				"write those of another tool into [turn.call.arguments]",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "x.toml")
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := script.Load(dir, "x")
			e, ok := errors.AsType[*provider.Error](err)
			if !ok || e.Category != provider.BadRequest {
				t.Fatalf("got %T: %v, want a *provider.Error of category bad_request", err, err)
			}
			if got := strings.TrimPrefix(e.Message, "script x: "+file+":"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestLoadNames: Load refuses malformed names, missing files and a pipe. It
// does not wait for a writer of the pipe.
func TestLoadNames(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.toml"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ dir, name, want string }{
		{dir, "", `script : the name "" is malformed`},
		{dir, "../x", `the name "../x" is malformed: it must have only a-z, 0-9, _ and -`},
		{"", "x", "script x: no scripts directory is set"},
		{dir, "pipe", "is not a regular file"},
		{dir, "none", "no such file or directory"},
	} {
		if _, err := script.Load(tt.dir, tt.name); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want %s", tt.name, err, tt.want)
		}
	}
	if _, err := script.Load(dir, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: got %v, want fs.ErrNotExist", err)
	}
}

package script

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParseFiles: parseFiles finds the files in a system text by their headings
// and fences, and no others.
func TestParseFiles(t *testing.T) {
	const head = "## Context Files\n\n"
	for _, tt := range []struct {
		name, system string
		want         []file
	}{
		{"none", "Be brief.", nil},
		{"alone", head + "### a\n```go\nx\n```", []file{{"a", "go", "x\n"}}},
		{"after a prompt", "Be brief.\n\n---\n\n" + head + "### a\n```\nx\n```", []file{{"a", "", "x\n"}}},
		{"two", head + "### a\n```\n```\n\n### b c\n````md\n```\n````", []file{{"a", "", ""}, {"b c", "md", "```\n"}}},
		{"heading in a block", head + "### a\n```\n### b\n~~~\n```\n", []file{{"a", "", "### b\n~~~\n"}}},
		{"fence in a line", head + "### a\n````\n x```` \n````", []file{{"a", "", " x```` \n"}}},
		{
			"before memory", head + "### a\n```\nx\n```\n\n---\n\n## Memory\n\n### b\n```\ny\n```",
			[]file{{"a", "", "x\n"}},
		},
		{"never closed", head + "### a\n```\nx\n", nil},
		{"no fence", head + "### a\nx\n### b\n```\ny\n```", []file{{"b", "", "y\n"}}},
		{"in the prompt only", "### a\n```\nx\n```", nil},
	} {
		if diff := cmp.Diff(tt.want, parseFiles(tt.system)); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", tt.name, diff)
		}
	}
}

// block returns a file as a system text has it. The package comment describes
// that form.
func block(name, content string) string {
	fence := "```"
	for strings.Contains(content, fence) {
		fence += "`"
	}
	if content != "" && !strings.HasSuffix(content, "\n") {
		content += "\n"
	}
	return "### " + name + "\n" + fence + "go\n" + content + fence
}

// FuzzParseFiles: parseFiles returns the two files of a system text, whatever
// they contain.
func FuzzParseFiles(f *testing.F) {
	f.Add("x", "package x\n", "### a\n```\n", "")
	f.Add("x", "```", "## Context Files\n\n### y\n````", "Be brief.")
	f.Fuzz(func(t *testing.T, name, one, two, prompt string) {
		if strings.Contains(name, "\n") || strings.Contains(prompt, "## Context Files") {
			t.Skip()
		}
		// No system text makes it panic.
		parseFiles(one)
		got := parseFiles(prompt + "\n\n---\n\n## Context Files\n\n" + block(name, one) + "\n\n" + block("two", two))
		if len(got) != 2 || got[0].Path != name || got[1].Path != "two" || got[0].Lang != "go" {
			t.Fatalf("got %q, want the files %q and two in Go", got, name)
		}
		if strings.TrimSuffix(got[0].Content, "\n") != strings.TrimSuffix(one, "\n") ||
			strings.TrimSuffix(got[1].Content, "\n") != strings.TrimSuffix(two, "\n") {
			t.Fatalf("got %q, want the contents %q and %q", got, one, two)
		}
	})
}

// FuzzParse: parse returns entries, or an error that begins with a line number.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "[[turn]]\ntext='{{.Task}}'", "turn=[]", "[[turn]]\n[turn.fail]\ncategory='auth'",
		"[[turn]]\n[[turn.call]]\neach='files'\n[turn.call.arguments]\na.b=[{c='{{1}}'}]", "[[turn]]\ntexte=1",
		"\"\\",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := parse(text)
		if (err == nil) == (len(entries) == 0) {
			t.Fatalf("%d entries and error %v, want one of them", len(entries), err)
		}
		if err != nil && !strings.ContainsAny(err.Error()[:1], "123456789") {
			t.Fatalf("error %v, want a line number first", err)
		}
	})
}

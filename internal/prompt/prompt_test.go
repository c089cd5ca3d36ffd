package prompt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/prompt"
)

// write makes files below a new directory and returns the directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// system returns an agent's system text.
func system(a configs.Agent) (string, error) {
	c, err := prompt.Resolve(a)
	return c.Text(), err
}

// TestSystem: the system text has the prompt, the skill and the files, in this
// order. A file is a fenced block. Binary files are left out.
func TestSystem(t *testing.T) {
	dir := write(t, map[string]string{
		"skills/s/SKILL.md": "# Skill\n\nDo it well.\n",
		"a.go":              "package a\n",
		"b.md":              "Use ```` in here",
		"empty.txt":         "",
		"latin.txt":         "caf\xe9\n",
		"z.bin":             "x\x00y",
	})
	const skill = "## Skill\n\n# Skill\n\nDo it well."
	const file = "## Context Files\n\n### a.go\n```go\npackage a\n```"
	for _, tt := range []struct {
		name string
		a    configs.Agent
		want string
	}{
		{"nothing", configs.Agent{}, ""},
		{"blank", configs.Agent{SystemPrompt: " \n"}, ""},
		{"prompt", configs.Agent{SystemPrompt: "\nBe brief.\n"}, "Be brief."},
		{"skill", configs.Agent{Skill: "skills/s/SKILL.md"}, skill},
		{"skill's directory", configs.Agent{Skill: "skills/s"}, skill},
		{"file", configs.Agent{Files: []string{"a.go"}}, file},
		{
			"all",
			configs.Agent{SystemPrompt: "Be brief.", Skill: "skills/s", Files: []string{"*.go"}},
			"Be brief.\n\n---\n\n" + skill + "\n\n---\n\n" + file,
		},
		{"no file", configs.Agent{SystemPrompt: "Be brief.", Files: []string{"*.rs"}}, "Be brief."},
		{
			"fence",
			configs.Agent{Files: []string{"b.md"}},
			"## Context Files\n\n### b.md\n`````markdown\nUse ```` in here\n`````",
		},
		{"empty file", configs.Agent{Files: []string{"empty.txt"}}, "## Context Files\n\n### empty.txt\n```\n```"},
		{
			"not UTF-8",
			configs.Agent{Files: []string{"latin.txt"}},
			"## Context Files\n\n### latin.txt\n```\ncaf\uFFFD\n```",
		},
		{"binary", configs.Agent{Files: []string{"z.bin"}}, ""},
		{"order", configs.Agent{Files: []string{"empty*", "a.*", "*.go"}}, file + "\n\n### empty.txt\n```\n```"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.a.Workdir = dir
			if tt.a.Skill != "" {
				tt.a.Skill = filepath.Join(dir, tt.a.Skill)
			}
			got, err := system(tt.a)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("system text (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSystemUsesCurrentDirectory: without a workdir, files are those of the
// current directory.
func TestSystemUsesCurrentDirectory(t *testing.T) {
	t.Chdir(write(t, map[string]string{"a.go": "package a\n"}))
	got, err := system(configs.Agent{Files: []string{"a.go"}})
	if err != nil || !strings.Contains(got, "### a.go\n") {
		t.Errorf("got the system text %q, error %v, want a.go in it", got, err)
	}
}

// TestSystemErrors: an error names the agent and the part that is missing.
func TestSystemErrors(t *testing.T) {
	dir := write(t, map[string]string{"skills/s/README.md": "x"})
	for _, tt := range []struct {
		name string
		a    configs.Agent
		want string
	}{
		{
			"no skill",
			configs.Agent{Skill: filepath.Join(dir, "none")},
			`agent "x": skill: ` + dir + `/none: no such file or directory`,
		},
		{
			"no SKILL.md",
			configs.Agent{Skill: filepath.Join(dir, "skills/s")},
			`agent "x": skill: ` + dir + `/skills/s/SKILL.md: no such file or directory`,
		},
		{
			"no workdir",
			configs.Agent{Workdir: filepath.Join(dir, "none"), Files: []string{"*"}},
			`agent "x": files: workdir ` + dir + `/none: no such file or directory`,
		},
		{
			"no file",
			configs.Agent{Workdir: dir, Files: []string{"a.go"}},
			`agent "x": files: "a.go" in ` + dir + `: no such file or directory`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.a.Name = "x"
			_, err := system(tt.a)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

// TestMemory: the memory is the last part of the system text.
func TestMemory(t *testing.T) {
	const entry = "## 2026-02-28T15:04:05Z\n**Task:** t\n**Result:** r\n\n"
	c := prompt.Context{
		System: "Be brief.",
		Files:  []prompt.File{{Path: "a.go", Content: "package a\n"}},
		Memory: entry,
	}
	want := "Be brief.\n\n---\n\n## Context Files\n\n### a.go\n```go\npackage a\n```\n\n---\n\n## Memory\n\n" +
		strings.TrimSpace(entry)
	if diff := cmp.Diff(want, c.Text()); diff != "" {
		t.Errorf("system text (-want +got):\n%s", diff)
	}
}

// TestUser: the first user message of a child has a heading for each part. That
// of a root is its task as it is, or a default text.
func TestUser(t *testing.T) {
	for _, tt := range [][3]string{
		{"Look.", "", "Task: Look."},
		{"Look.", "At this.\n", "Task: Look.\n\nContext:\nAt this.\n"},
	} {
		if got := prompt.User(tt[0], tt[1]); got != tt[2] {
			t.Errorf("User(%q, %q) = %q, want %q", tt[0], tt[1], got, tt[2])
		}
	}
	if got := prompt.RootUser(" as it is\n"); got != " as it is\n" {
		t.Errorf("got %q for a root's task, want it as it is", got)
	}
	if got := prompt.RootUser(" \n"); got != "Execute the task described in your instructions." {
		t.Errorf("got %q for a blank task of a root, want the default", got)
	}
}

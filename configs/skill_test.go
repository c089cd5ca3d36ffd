package configs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axebus/axe/configs"
)

// tree makes files below a new directory and returns the directory. A path that
// ends with a slash becomes a directory.
func tree(t *testing.T, paths ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, path := range paths {
		file := filepath.Join(root, path)
		dir := filepath.Dir(file)
		if strings.HasSuffix(path, "/") {
			dir = file
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if dir != file {
			write(t, dir, filepath.Base(file), "")
		}
	}
	return root
}

// TestFindSkill: a skill is found in the directory agents or in the directory
// above it. Load finds the same one for the file agents/x.toml.
func TestFindSkill(t *testing.T) {
	for _, tt := range []struct {
		name, path, want string
		exist            []string
	}{
		{"beside the file", "skills/a", "agents/skills/a", []string{"agents/skills/a/SKILL.md", "skills/a/SKILL.md"}},
		{"in the directory above", "skills/a", "skills/a", []string{"skills/a/SKILL.md"}},
		{"a file", "a.md", "a.md", []string{"a.md"}},
		{
			"a bare name beside the file", "a", "agents/skills/a",
			[]string{"agents/skills/a/SKILL.md", "skills/a/SKILL.md"},
		},
		{"a bare name in the directory above", "a", "skills/a", []string{"skills/a/SKILL.md"}},
		{"a path goes before skills/", "a", "a", []string{"a/SKILL.md", "agents/skills/a/SKILL.md"}},
		{
			"a path is not searched in skills/", "b/a", "agents/b/a",
			[]string{"agents/skills/b/a/SKILL.md", "skills/b/a/SKILL.md"},
		},
		{"a directory without a skill", "a", "skills/a", []string{"agents/a/", "a/notes.md", "skills/a/SKILL.md"}},
		{"only a directory without a skill", "a", "agents/a", []string{"a/"}},
		{"nothing", "skills/a", "agents/skills/a", nil},
		{"nothing of that name", "a", "agents/a", nil},
		{"none", "", "", []string{"SKILL.md", "skills/SKILL.md"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t, append(tt.exist, "agents/")...)
			rel := func(path string) string { return strings.TrimPrefix(path, root+"/") }
			if got := rel(configs.FindSkill(tt.path, filepath.Join(root, "agents"), root)); got != tt.want {
				t.Errorf("FindSkill: %q, want %q", got, tt.want)
			}
			file := write(t, filepath.Join(root, "agents"), "x.toml", agent("x")+"skill = \""+tt.path+"\"\n")
			a, err := configs.Load(file)
			if got := rel(a.Skill); err != nil || got != tt.want {
				t.Errorf("Load: %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// TestFindSkillElsewhere: FindSkill expands ~ and keeps absolute paths. The
// directories that it searches may be relative.
func TestFindSkillElsewhere(t *testing.T) {
	root := tree(t, "home/skills/a/SKILL.md", "here/skills/a/SKILL.md")
	t.Setenv("HOME", filepath.Join(root, "home"))
	t.Chdir(filepath.Join(root, "here"))
	for path, want := range map[string]string{
		"/nowhere/a": "/nowhere/a",
		"~/skills/a": filepath.Join(root, "home/skills/a"),
		"~":          filepath.Join(root, "home"),
		"a":          "skills/a", // the current directory comes first
		"~a":         "~a",
	} {
		if got := configs.FindSkill(path, ".", filepath.Join(root, "home")); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got := configs.FindSkill("a"); got != "a" {
		t.Errorf("in no directory: %q, want a", got)
	}
}

// TestLoadFindsSkillAbove: Load finds a skill in the directory above the file's
// own, also if the path of the file has no directory.
func TestLoadFindsSkillAbove(t *testing.T) {
	root := tree(t, "skills/a/SKILL.md", "agents/")
	write(t, root, "agents/x.toml", agent("x")+"skill = 'a'\n")
	t.Chdir(filepath.Join(root, "agents"))
	if a, err := configs.Load("x.toml"); err != nil || a.Skill != "../skills/a" {
		t.Errorf("x.toml: skill %q, %v; want ../skills/a", a.Skill, err)
	}
	t.Chdir(root)
	if a, err := configs.Load("agents/x.toml"); err != nil || a.Skill != "skills/a" {
		t.Errorf("agents/x.toml: skill %q, %v; want skills/a", a.Skill, err)
	}
}

// TestLoadWithoutHome: without a home directory, a path that begins with ~ is
// an error of its key.
func TestLoadWithoutHome(t *testing.T) {
	t.Setenv("HOME", "")
	for _, key := range []string{"skill", "workdir"} {
		_, err := configs.Load(write(t, t.TempDir(), "x.toml", agent("x")+key+" = '~/a'\n"))
		if err == nil || !strings.Contains(err.Error(), "x.toml:3: "+key+": ") {
			t.Errorf("got %v, want an error about %s in line 3", err, key)
		}
	}
}

package configs_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axebus/axe/configs"
)

// TestWatch: Watch reports the agents and toolsets at once, and again after
// each change of them or of the error. A skill that is found elsewhere is such
// a change. It reports nothing if files change and the definitions do not.
func TestWatch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "agents")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "a.toml", agent("a"))
	file := filepath.Join(dir, "a.toml")
	away := dir + ".away"
	tools := configs.ToolsetDir(dir)
	skills := filepath.Join(dir, "..", "skills")
	const web = `kind = "http"
[tool.get]
url = "https://example.com/{name}"
`
	synctest.Test(t, func(t *testing.T) {
		reports := make(chan string, 10)
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() {
			done <- configs.Watch(ctx, dir, 0, func(defs configs.Definitions, err error) {
				var report strings.Builder
				report.WriteString(strings.Join(names(defs.Agents), " "))
				for _, a := range defs.Agents {
					if skill, err := filepath.Rel(dir, a.Skill); err == nil && a.Skill != "" {
						report.WriteString(" " + skill)
					}
				}
				for _, t := range defs.Toolsets {
					report.WriteString(" " + t.Name + "/")
				}
				if err != nil {
					report.WriteString("!")
				}
				reports <- report.String()
			})
		}()
		synctest.Wait()
		if got := drain(reports); got != "a" {
			t.Errorf("reports at once: %q, want a", got)
		}
		for _, step := range []struct {
			name string
			do   func() error
			// want has the names in the new report, and ! for an
			// error. It is "" for no report.
			want string
		}{
			{"nothing", func() error { return nil }, ""},
			{"another", func() error { write(t, dir, "b.toml", agent("b")); return nil }, "a b"},
			{"touched", func() error { return os.Chtimes(file, time.Time{}, time.Unix(1, 0)) }, ""},
			{"no agent", func() error { write(t, dir, "notes.txt", "x"); return nil }, ""},
			{"broken", func() error { write(t, dir, "b.toml", "="); return nil }, "a!"},
			{"mended", func() error { write(t, dir, "b.toml", agent("b")); return nil }, "a b"},
			{"a directory of toolsets", func() error { return os.Mkdir(tools, 0o700) }, ""},
			{"a toolset", func() error { write(t, tools, "web.toml", web); return nil }, "a b web/"},
			{
				"a toolset with the name of an agent",
				func() error { write(t, tools, "b.toml", web); return nil },
				"a b web/!",
			},
			{"renamed", func() error { return os.Rename(tools+"/b.toml", tools+"/c.toml") }, "a b c/ web/"},
			{"no toolsets", func() error { return os.RemoveAll(tools) }, "a b"},
			{
				"a skill that is missing",
				func() error { write(t, dir, "b.toml", agent("b")+"skill = \"review\"\n"); return nil },
				"a b review",
			},
			{"a directory of skills", func() error { return os.Mkdir(skills, 0o700) }, ""},
			{"the skill", func() error { write(t, skills, "review", "x"); return nil }, "a b ../skills/review"},
			{"a nearer skill", func() error { write(t, dir, "review", "x"); return nil }, "a b review"},
			{"no nearer skill", func() error { return os.Remove(dir + "/review") }, "a b ../skills/review"},
			{"no skill", func() error { write(t, dir, "b.toml", agent("b")); return nil }, "a b"},
			{"removed", func() error { return os.Remove(file) }, "b"},
			{"gone", func() error { return os.Rename(dir, away) }, "!"},
			{"still gone", func() error { return nil }, ""},
			{"back", func() error { return os.Rename(away, dir) }, "b"},
		} {
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(1100 * time.Millisecond) // Watch polls each second
			synctest.Wait()
			if got := drain(reports); got != step.want {
				t.Errorf("%s: reports %q, want %q", step.name, got, step.want)
			}
		}
		stop := errors.New("enough")
		cancel(stop)
		if err := <-done; !errors.Is(err, stop) {
			t.Errorf("got %v, want the cause of the context", err)
		}
	})
}

// drain returns the reports so far, separated by commas.
func drain(reports <-chan string) string {
	var all []string
	for len(reports) > 0 {
		all = append(all, <-reports)
	}
	return strings.Join(all, ",")
}

// TestWatchMissing: Watch returns the error of a directory that is missing at
// first.
func TestWatchMissing(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	err := configs.Watch(t.Context(), none, 0, func(configs.Definitions, error) { t.Error("changed was called") })
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

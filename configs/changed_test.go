package configs_test

import (
	"strings"
	"testing"

	"github.com/axebus/axe/configs"
)

// TestChangedKeys: ChangedKeys compares strings, lists, numbers and styles, and
// returns the keys that differ. It ignores comments and the order of keys.
func TestChangedKeys(t *testing.T) {
	dir := t.TempDir()
	load := func(lines string) configs.Agent {
		a, err := configs.Load(write(t, dir, "a.toml", "name = \"a\"\nmodel = \"openai/x\"\n"+lines))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	const before = `description = "one"
files = ["a.md", "b.md"]
[params]
temperature = 0.2
max_tokens = 10
[delegation]
style = "spawn"
`
	for lines, want := range map[string]string{
		before:                            "",
		"# a comment\n" + before + "\n\n": "",
		"workdir = \".\"\n" + before:      "workdir",
		"files = [\"a.md\", \"b.md\"]\ndescription = \"two\"\n[params]\nmax_tokens = 10\ntemperature = 0.3\n" +
			"[delegation]\nstyle = \"spawn\"\n": "description params.temperature",
		"": "delegation.style description files params.max_tokens params.temperature",
	} {
		if got := strings.Join(configs.ChangedKeys(load(before), load(lines)), " "); got != want {
			t.Errorf("%s\nchanged %q, want %q", lines, got, want)
		}
	}
}

package check_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/check"
	"github.com/axebus/axe/provider/catalog"
)

// agent returns a definition with a description. The lack of one is a finding.
func agent(name string, subAgents ...string) configs.Agent {
	return configs.Agent{
		Name: name, File: name + ".toml", Description: "Does " + name, Model: "ollama/x", SubAgents: subAgents,
	}
}

// with returns a changed copy of a definition.
func with(a configs.Agent, change func(*configs.Agent)) configs.Agent {
	change(&a)
	return a
}

// wantFindings compares findings, each as a line with its severity.
func wantFindings(t *testing.T, got []check.Finding, want ...string) {
	t.Helper()
	var lines []string
	for _, f := range got {
		lines = append(lines, string(f.Severity)+": "+f.String())
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// TestReferences: a sub-agent or a supervisor that does not exist is an error,
// and an agent of a policy that does not exist is a warning. If other workers
// may serve agents, each is a warning, unless a worker announces the agent.
func TestReferences(t *testing.T) {
	supervised := with(agent("supervised"), func(a *configs.Agent) {
		a.Supervision = configs.Supervision{Mode: configs.Supervised, Agent: "supervisor"}
		a.Policy.Agents = []string{"reader", "reserchr"}
	})
	agents := []configs.Agent{supervised, agent("lead", "reserchr", "reader", "reserchr"), agent("researcher")}
	wantFindings(t, check.Agents(agents, check.Config{Known: []string{"reader"}}),
		`error: lead.toml: sub_agents: no agent "reserchr"; did you mean "researcher"?`,
		`error: supervised.toml: supervision.agent: no agent "supervisor": the turns of supervised are withheld`,
		`warning: supervised.toml: policy.agents: no agent "reserchr"; did you mean "researcher"?`,
	)
	elsewhere := func(name string) (check.Kind, bool) { return check.Agent, name == "supervisor" }
	wantFindings(t, check.Agents(agents, check.Config{Known: []string{"reader"}, Elsewhere: elsewhere}),
		`warning: lead.toml: sub_agents: no agent "reserchr" here, and no worker announces it; `+
			`did you mean "researcher"?`,
		`warning: supervised.toml: policy.agents: no agent "reserchr" here, and no worker announces it; `+
			`did you mean "researcher"?`,
	)
}

// TestDescriptions: an agent without a description is a warning if another
// agent may call it.
func TestDescriptions(t *testing.T) {
	undescribed := func(name string, subAgents ...string) configs.Agent {
		return with(agent(name, subAgents...), func(a *configs.Agent) { a.Description = " " })
	}
	agents := []configs.Agent{undescribed("root", "a", "b"), agent("a", "b"), undescribed("b")}
	wantFindings(t, check.Agents(agents, check.Config{}),
		"warning: b.toml: description: is empty: the models of its callers (a, root) read it to choose an agent")
}

// TestCycles: agents that may call each other in a cycle, without a budget of
// runs, are a warning. Each agent is in one warning at most.
func TestCycles(t *testing.T) {
	deep := func(a configs.Agent, levels int) configs.Agent {
		return with(a, func(a *configs.Agent) { a.SubAgentsConf.MaxDepth = levels })
	}
	bounded := func(a configs.Agent) configs.Agent {
		return with(a, func(a *configs.Agent) { a.Budget.Agents = 100 })
	}
	warning := func(file, cycle, levels, runs string) string {
		return "warning: " + file + ".toml: sub_agents: cycle " + cycle + ": max_depth ends it after " + levels +
			" levels; with 10 calls of each run these are " + runs + " runs: set max_agents in [limits]"
	}
	for name, test := range map[string]struct {
		agents []configs.Agent
		want   []string
	}{
		"none":        {[]configs.Agent{agent("a", "b", "c"), agent("b", "c"), agent("c")}, nil},
		"a self-call": {[]configs.Agent{agent("a", "a")}, []string{warning("a", "a → a", "3", "1110")}},
		"two agents, the least depth": {
			[]configs.Agent{deep(agent("b", "a"), 2), deep(agent("a", "b"), 5)},
			[]string{warning("a", "a → b → a", "2", "110")},
		},
		"the shortest way, and no agent twice": {
			[]configs.Agent{agent("a", "b", "c"), agent("b", "c"), agent("c", "a")},
			[]string{warning("a", "a → c → a", "3", "1110")},
		},
		"two cycles": {
			[]configs.Agent{agent("a", "a", "b"), agent("b", "c"), agent("c", "b")},
			[]string{warning("a", "a → a", "3", "1110"), warning("b", "b → c → b", "3", "1110")},
		},
		"a bounded cycle and another one": {
			[]configs.Agent{agent("a", "b", "c"), bounded(agent("b", "a")), agent("c", "a")},
			[]string{warning("c", "c → a → c", "3", "1110")},
		},
		"an agent above a cycle": {
			[]configs.Agent{agent("a", "b"), agent("b", "b")},
			[]string{warning("b", "b → b", "3", "1110")},
		},
		"max_depth ends the calls first": {[]configs.Agent{deep(agent("a", "b"), 1), agent("b", "a")}, nil},
		"a budget of runs":               {[]configs.Agent{agent("a", "b"), bounded(agent("b", "a"))}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			wantFindings(t, check.Agents(test.agents, check.Config{}), test.want...)
		})
	}
}

// TestModels: a model without a key is a warning, and a malformed one an error.
// A model that replaces those of all agents is checked in their place.
func TestModels(t *testing.T) {
	key := ""
	models := catalog.New(catalog.Config{Getenv: func(name string) string {
		return map[string]string{"OPENAI_API_KEY": key}[name]
	}})
	agents := []configs.Agent{
		with(agent("a"), func(a *configs.Agent) { a.Model = "openai/gpt-5" }),
		with(agent("b"), func(a *configs.Agent) { a.Model = "gpt-5" }),
	}
	noKey := "warning: a.toml: model: openai/gpt-5 has no API key: set OPENAI_API_KEY, or api_key in config.toml"
	noFormat := `error: b.toml: model: invalid model format "gpt-5": expected provider/model-name`
	wantFindings(t, check.Agents(agents, check.Config{Models: models}), noKey, noFormat)
	wantFindings(t, check.Agents(agents, check.Config{Models: models, Model: "ollama/x"}))
	key = "sk-1"
	wantFindings(t, check.Agents(agents, check.Config{Models: models}), noFormat)
}

// TestFiles: a file that does not exist, and files that are too large together,
// are an error. A pattern that matches no file is a warning.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"a.md": 1, "b.md": 0, "large.txt": 9 << 20} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := []byte(strings.Repeat("text\n", 5<<20/5))
	for _, name := range []string{"1.log", "2.log", "3.log", "4.log", "5.log", "6.log", "7.log"} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		files []string
		want  []string
	}{
		{[]string{"b.md"}, nil},
		{[]string{"*.go", "**/b.md"}, []string{`warning: a.toml: files: "*.go" matches no file in ` + dir}},
		{[]string{"c.md"}, []string{`error: a.toml: files: "c.md" in ` + dir + ": no such file or directory"}},
		{
			[]string{"[123].log", "[4567].log"},
			[]string{"error: a.toml: files: 7.log: files are larger than 32 MiB together: match fewer files"},
		},
	} {
		a := with(agent("a"), func(a *configs.Agent) { a.Workdir, a.Files = dir, test.files })
		wantFindings(t, check.Agents([]configs.Agent{a}, check.Config{}), test.want...)
	}
}

// TestSkill: a directory without a skill is an error. With a skill it gives no
// finding.
func TestSkill(t *testing.T) {
	dir := t.TempDir()
	a := with(agent("a"), func(a *configs.Agent) { a.Skill = dir })
	missing := "error: a.toml: skill: " + filepath.Join(dir, "SKILL.md") + ": no such file or directory"
	wantFindings(t, check.Agents([]configs.Agent{a}, check.Config{}), missing)
	if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte("Read."), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFindings(t, check.Agents([]configs.Agent{a}, check.Config{}))
}

// TestInert: each key without effect is a warning.
func TestInert(t *testing.T) {
	a := with(agent("a"), func(a *configs.Agent) { a.Inert = []string{"stream", "params.response_format"} })
	wantFindings(t, check.Agents([]configs.Agent{a}, check.Config{}),
		"warning: a.toml: stream: has no effect in this version: the answer is printed when it is complete",
		"warning: a.toml: params.response_format: has no effect in this version: describe the format in system_prompt",
	)
}

// TestBelow: Below returns a root and each agent that may work in its tree,
// once.
func TestBelow(t *testing.T) {
	root := with(agent("root", "a", "missing"), func(a *configs.Agent) { a.Supervision.Agent = "supervisor" })
	all := []configs.Agent{root, agent("a", "b", "root"), agent("b"), agent("supervisor"), agent("other", "root")}
	var names []string
	for _, a := range check.Below(root, all) {
		names = append(names, a.Name)
	}
	if got := strings.Join(names, " "); got != "root a supervisor b" {
		t.Errorf("got %s, want root a supervisor b", got)
	}
}

// TestToolsets: a toolset that does not exist is an error. If other workers may
// serve toolsets, it is a warning, unless a worker announces it. A tool that
// the file of a toolset does not define is a warning. A toolset of the kind mcp
// defines none.
func TestToolsets(t *testing.T) {
	user := with(agent("user"), func(a *configs.Agent) {
		a.Tools = []string{"read_file", "shop/refund", "shop/refnd", "shop/*", "shp/*", "far/*", "github/anything"}
	})
	sets := []configs.Toolset{
		{Name: "shop", Kind: configs.ToolsetHTTP, Tools: map[string]configs.ToolsetTool{"refund": {}}},
		{Name: "github", Kind: configs.ToolsetMCP},
	}
	wantFindings(t, check.Agents([]configs.Agent{user}, check.Config{Toolsets: sets}),
		`warning: user.toml: tools: the toolset shop has no tool "refnd"; did you mean "shop/refund"?`,
		`error: user.toml: tools: no toolset "shp": its file would be tools/shp.toml; did you mean "shop"?`,
		`error: user.toml: tools: no toolset "far": its file would be tools/far.toml`,
	)
	elsewhere := func(name string) (check.Kind, bool) {
		return map[string]check.Kind{"far": check.Toolset, "shp": check.Agent}[name], true
	}
	wantFindings(t, check.Agents([]configs.Agent{user}, check.Config{Toolsets: sets, Elsewhere: elsewhere}),
		`warning: user.toml: tools: the toolset shop has no tool "refnd"; did you mean "shop/refund"?`,
		`warning: user.toml: tools: no toolset "shp" here, and no worker announces it; did you mean "shop"?`,
	)
}

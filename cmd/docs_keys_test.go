package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/axebus/axe/configs"
)

// rows returns the cells of each row of the page's tables whose head line
// begins with head. It leaves out the head line.
func (p page) rows(head string) [][]string {
	var all [][]string
	inside := false
	_, prose := p.blocks()
	for _, line := range prose {
		switch {
		case !strings.HasPrefix(line, "|"):
			inside = false
		case strings.HasPrefix(line, head):
			inside = true
		case inside && !strings.HasPrefix(line, "|---"):
			cells := strings.Split(strings.Trim(line, "|"), " | ")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			all = append(all, cells)
		}
	}
	return all
}

// examples joins the TOML blocks of a page that begin with a prefix.
func (p page) examples(begin string) string {
	var all strings.Builder
	fenced, _ := p.blocks()
	for _, b := range fenced {
		if b.info == "toml" && strings.HasPrefix(b.body, begin) {
			all.WriteString(b.body + "\n")
		}
	}
	return all.String()
}

// unset lists the fields of a struct, and of structs in it, that are zero.
func unset(v reflect.Value, name string) []string {
	if v.Kind() != reflect.Struct {
		if v.IsZero() {
			return []string{name}
		}
		return nil
	}
	var names []string
	for i := range v.NumField() {
		names = append(names, unset(v.Field(i), name+"."+v.Type().Field(i).Name)...)
	}
	return names
}

// TestAgentsPage: docs/agents.md has every key of an agent with its type. The
// page has the defaults that the test lists. Its examples together set every
// field but Agent.Inert and use every key of the tables, so that no key is
// missing. The loader knows each key of the tables, so that none is obsolete.
func TestAgentsPage(t *testing.T) {
	p := readPage(t, "docs/agents.md")
	whole := p.examples(`name = "lead"`) + p.examples("[")
	a, err := loadAgent(t, "lead", whole)
	if err != nil {
		t.Fatal(err)
	}
	// Inert lists keys of axe 1.8. TestAxe18Keys checks those.
	if missing := unset(reflect.ValueOf(a), "Agent"); !slices.Equal(missing, []string{"Agent.Inert"}) {
		t.Errorf("the examples do not set %v, want them to set every field but Agent.Inert", missing)
	}
	plain, err := loadAgent(t, "lead", "name = \"lead\"\nmodel = \"m/n\"\n")
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]any{
		"sub_agents_config.max_depth": plain.MaxDepth(),
		"sub_agents_config.parallel":  plain.SubAgentsConf.Parallel,
		"sub_agents_config.timeout":   plain.SubAgentsConf.Timeout,
		"delegation.max_batch":        plain.Delegation.Batch(),
		"delegation.max_turns":        plain.Delegation.MaxTurns,
		"limits.max_agents":           plain.Budget.Agents,
		"limits.max_turns":            plain.Budget.Turns,
		"limits.max_tokens":           plain.Budget.Tokens,
		"limits.max_tool_calls":       plain.Budget.ToolCalls,
		"params.max_tokens":           plain.Params.MaxTokens,
		"memory.enabled":              plain.Memory.Enabled,
		"memory.last_n":               plain.Memory.LastN,
		"memory.max_entries":          plain.Memory.MaxEntries,
		"retry.max_attempts":          plain.Retry.WithDefaults().MaxAttempts,
		"retry.backoff":               plain.Retry.WithDefaults().Backoff,
		"retry.initial":               plain.Retry.WithDefaults().Initial,
		"retry.max":                   plain.Retry.WithDefaults().Max,
		"supervision.mode":            plain.Supervision.WithDefaults().Mode,
		"supervision.timeout":         strings.TrimSuffix(plain.Supervision.WithDefaults().Timeout.String(), "0s"),
		"supervision.on_timeout":      plain.Supervision.WithDefaults().OnTimeout,
	}
	keys := map[string]bool{}
	for _, row := range p.rows("| key | type | default |") {
		key, kind, byDefault := strings.Trim(row[0], "`"), row[1], strings.Trim(row[2], "`\"")
		keys[key] = true
		if v, known := defaults[key]; known && fmt.Sprint(v) != byDefault {
			t.Errorf("%s: the page has the default %s, want %v", key, byDefault, v)
		}
		checkKind(t, key, kind, func(text string) error {
			_, err := loadAgent(t, "lead", text)
			return err
		})
	}
	checkExample(t, whole, keys)
	for key := range defaults {
		if !keys[key] {
			t.Errorf("the page has no row for %s", key)
		}
	}
}

// TestAxe18Keys: the keys of axe 1.8 in the table of docs/agents.md are known,
// and the example uses each of them and loads. The page says which of them have
// no effect.
func TestAxe18Keys(t *testing.T) {
	p := readPage(t, "docs/agents.md")
	example := p.examples("# As axe 1.8 has it.")
	a, err := loadAgent(t, "pr-reviewer", example)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{"name": true, "model": true}
	var inert []string
	for _, row := range p.rows("| key of axe 1.8 |") {
		key := strings.Trim(row[0], "`")
		keys[key] = true
		_, err := loadAgent(t, "lead", key+aDate)
		checkKnown(t, key, err)
		if strings.HasPrefix(row[1], "No effect yet") {
			inert = append(inert, key)
		}
	}
	checkExample(t, example, keys)
	if !slices.Equal(inert, a.Inert) {
		t.Errorf("the page has %v without effect, want %v", inert, a.Inert)
	}
}

// aDate gives the key before it a date, which no key takes.
const aDate = " = 1979-05-27\n"

// checkKnown checks the error of a load with a date as the value of a key. An
// error other than "unknown key" shows that the loader knows the key.
func checkKnown(t *testing.T, key string, err error) bool {
	t.Helper()
	if err == nil || strings.Contains(err.Error(), "unknown key") {
		t.Errorf("the page has the key %s: got %v, want an error other than unknown key", key, err)
		return false
	}
	return true
}

// checkKind gives a key a date. The error must name the type that the page has
// for the key.
func checkKind(t *testing.T, key, kind string, load func(text string) error) {
	t.Helper()
	err := load(key + aDate)
	if !checkKnown(t, key, err) {
		return
	}
	first, rest, _ := strings.Cut(kind, " ")
	if wants := err.Error(); !strings.Contains(wants, kind) &&
		!strings.Contains(wants, "a "+first+" or a "+strings.TrimPrefix(rest, "or ")) {
		t.Errorf("%s: the page says %s, and the error is %v", key, kind, err)
	}
}

// checkExample checks that an example uses every key of the tables, and no
// other.
func checkExample(t *testing.T, text string, keys map[string]bool) {
	t.Helper()
	table, found := "", map[string]bool{}
	for line := range strings.SplitSeq(text, "\n") {
		if name, ok := strings.CutPrefix(line, "["); ok {
			table = strings.Trim(name, "[]") + "."
		} else if table == "mcp_servers." {
			continue // their keys have a table of their own
		} else if key, _, ok := strings.Cut(line, " = "); ok {
			found[table+key] = true
			if !keys[table+key] {
				t.Errorf("the page has no row for %s%s", table, key)
			}
		}
	}
	for key := range keys {
		if !found[key] {
			t.Errorf("no example has %s", key)
		}
	}
}

// loadAgent writes the file of an agent and loads it.
func loadAgent(t *testing.T, name, text string) (configs.Agent, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return configs.Load(file)
}

// TestToolsetsPage: docs/toolsets.md has every key of a toolset. Its examples
// load, and together they set every field. Each key of the tables is accepted.
func TestToolsetsPage(t *testing.T) {
	t.Setenv("SHOP_TOKEN", "s3cret")
	t.Setenv("MCP_TOKEN", "s3cret")
	p := readPage(t, "docs/toolsets.md")
	load := func(text string) (configs.Toolset, error) {
		file := filepath.Join(t.TempDir(), "set.toml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return configs.LoadToolset(file)
	}
	// set says for each field whether an example sets it.
	set := map[string]bool{}
	note := func(v reflect.Value) {
		missing := unset(v, v.Type().Name())
		for i := range v.NumField() {
			name := v.Type().Name() + "." + v.Type().Field(i).Name
			set[name] = set[name] || !slices.ContainsFunc(missing, func(m string) bool {
				return m == name || strings.HasPrefix(m, name+".") && v.Field(i).IsZero()
			})
		}
	}
	fenced, _ := p.blocks()
	keys := map[string]bool{}
	for _, b := range fenced {
		if b.info != "toml" || !strings.HasPrefix(b.body, "kind") {
			continue
		}
		def, err := load(b.body)
		if err != nil {
			t.Errorf("the example does not load: %v\n%s", err, b.body)
		}
		note(reflect.ValueOf(def))
		for _, tool := range def.Tools {
			note(reflect.ValueOf(tool))
		}
	}
	for name, shown := range set {
		if !shown {
			t.Errorf("no example sets %s", name)
		}
	}
	for _, row := range p.rows("| key | type | default | meaning |") {
		keys[strings.Trim(row[0], "`")] = true
	}
	// act is the name of a tool. Any name will do.
	for _, row := range p.rows("| key of `[tool.<name>]` |") {
		keys["tool.act."+strings.Trim(row[0], "`")] = true
	}
	for key := range keys {
		_, err := load(key + aDate)
		checkKnown(t, key, err)
	}
	for line := range strings.SplitSeq(p.examples("kind"), "\n") {
		key, _, ok := strings.Cut(line, " = ")
		// The JSON Schema of a tool's arguments has these keys.
		ofSchema := key == "type" || key == "required"
		known := keys[key] || keys["tool.act."+key] || keys["sandbox."+key] || keys["limits."+key] || ofSchema
		if ok && !strings.HasPrefix(line, "[") && !known {
			t.Errorf("the page has no row for %s", key)
		}
	}
}

// TestConfigurationPage: docs/configuration.md has every key of config.toml
// with its type, the default of memory.store and the names of the providers.
func TestConfigurationPage(t *testing.T) {
	p := readPage(t, "docs/configuration.md")
	example := p.examples("[")
	load := func(text string) (configs.Global, error) {
		file := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return configs.LoadGlobal(file)
	}
	g, err := load(example)
	if err != nil {
		t.Fatal(err)
	}
	// A provider has one of the keys for its key.
	missing := unset(reflect.ValueOf(g.Providers["openai"]), "Provider")
	for _, vendor := range []string{"anthropic", "ollama"} {
		unused := unset(reflect.ValueOf(g.Providers[vendor]), "Provider")
		missing = slices.DeleteFunc(missing, func(field string) bool { return !slices.Contains(unused, field) })
	}
	if len(missing) > 0 || g.Memory != configs.MemoryOnBus {
		t.Errorf("unset are %v, want none; memory.store is %s, want %s", missing, g.Memory, configs.MemoryOnBus)
	}
	plain, err := load("")
	if err != nil {
		t.Fatal(err)
	}
	if names := configs.ProviderNames(); !strings.Contains(p.text, "`"+strings.Join(names[:len(names)-1], "`, `")) {
		t.Errorf("the page does not name the providers %v", names)
	}
	keys := map[string]bool{}
	for _, row := range p.rows("| key | type | default |") {
		key := strings.Trim(row[0], "`")
		keys[strings.Replace(key, "<name>", "openai", 1)] = true
		byDefault, _ := strconv.Unquote(strings.Trim(row[2], "`"))
		if key == "memory.store" && byDefault != string(plain.Memory) {
			t.Errorf("%s: the page has the default %s, want %s", key, byDefault, plain.Memory)
		}
		for _, vendor := range configs.ProviderNames() {
			checkKind(t, strings.Replace(key, "<name>", vendor, 1), row[1], func(text string) error {
				_, err := load(text)
				return err
			})
		}
	}
	const openai = "[providers.openai]"
	same := strings.NewReplacer("[providers.anthropic]", openai, "[providers.ollama]", openai)
	checkExample(t, same.Replace(example), keys)
}

// TestEnvironmentPage: docs/configuration.md names every AXE and NATS variable
// of the connection flags and the worker flags.
func TestEnvironmentPage(t *testing.T) {
	p := readPage(t, "docs/configuration.md")
	source := readPage(t, "cmd/internal/cli/dial.go").text + readPage(t, "cmd/internal/cli/worker.go").text
	for _, name := range variables(source) {
		if !strings.Contains(p.text, "`"+name+"`") {
			t.Errorf("docs/configuration.md does not name %s", name)
		}
	}
}

// variables lists the names in a source that look like variables of the
// environment.
func variables(source string) []string {
	var names []string
	for word := range strings.SplitSeq(source, `"`) {
		if strings.HasPrefix(word, "NATS_") || strings.HasPrefix(word, "AXE_") && strings.ToUpper(word) == word {
			names = append(names, word)
		}
	}
	slices.Sort(names)
	// A name that ends in "_" is only the beginning of a name.
	return slices.DeleteFunc(slices.Compact(names), func(s string) bool { return strings.HasSuffix(s, "_") })
}

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/memory"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/builtin"
	"github.com/axebus/axe/internal/prompt"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/subjects"
)

// brief is the first request to the model, before it is sent: the agent's
// definition after the flags, the contents of its skill, files and memory, and
// the task. --dry-run prints all of it, --verbose prints the head.
type brief struct {
	job
	about prompt.Context
	limit time.Duration
	// agents is the directory of the agents that this one may call.
	agents string

	// memory is the location of the agent's memory.
	memory string
	// entries is the number of memory entries that the model would see.
	entries int
	// memoryErr is the error of reading the memory, nil if it was read.
	memoryErr error
}

// brief loads the skill, the files and the memory that the definition names.
func (o *options) brief(ctx context.Context, j job) (*brief, error) {
	about, err := prompt.Resolve(j.def)
	if err != nil {
		return nil, cli.Fail(cli.CodeConfig, err)
	}
	b := &brief{job: j, about: about, limit: o.limit(), agents: o.worker.Agents}
	if j.def.Memory.Enabled {
		b.recall(ctx, o)
	}
	return b, nil
}

const none = "(none)"

// head prints the lines that --verbose shows before the first request.
func (b *brief) head(w io.Writer) {
	b.settings(w, [][2]string{
		{"Skill", cmp.Or(b.def.Skill, none)},
		{"Files", fmt.Sprintf("%d file(s)", len(b.about.Files))},
		{"Stdin", yesNo(b.stdin != "")},
	})
	switch {
	case !b.def.Memory.Enabled:
	case b.memoryErr != nil:
		fmt.Fprintf(w, "Memory:   %v\n", b.memoryErr)
	case b.entries == 0:
		fmt.Fprintf(w, "Memory:   0 entries (nothing in %s)\n", b.memory)
	default:
		fmt.Fprintf(w, "Memory:   %d entries loaded from %s\n", b.entries, b.memory)
	}
}

// settings prints the lines that --verbose and --dry-run share. The lines in
// more stand between them.
func (b *brief) settings(w io.Writer, more [][2]string) {
	workdir := b.def.Workdir
	if abs, err := filepath.Abs(workdir); err == nil {
		workdir = abs
	}
	params := fmt.Sprintf("temperature=%s, max_tokens=%s",
		cmp.Or(temperature(b.def), "default"), cmp.Or(count(b.def.Params.MaxTokens), "default"))
	first := [][2]string{{"Model", b.def.Model}, {"Workdir", workdir}}
	last := [][2]string{{"Timeout", seconds(b.limit)}, {"Params", params}}
	for _, l := range slices.Concat(first, more, last) {
		fmt.Fprintf(w, "%-9s %s\n", l[0]+":", l[1])
	}
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s" }

// print writes the whole brief in sections. The section titles are those of
// axe.
func (b *brief) print(w io.Writer) error {
	var out strings.Builder
	out.WriteString("=== Dry Run ===\n\n")
	b.settings(&out, [][2]string{{"Retry", retries(b.def.Retry)}})
	section := func(title, text string) {
		fmt.Fprintf(&out, "\n--- %s ---\n%s\n", title, cmp.Or(strings.TrimRight(text, "\n"), none))
	}
	section("System Prompt", b.system())
	section("Skill", b.def.Skill)
	var files []string
	for _, f := range b.about.Files {
		files = append(files, f.Path)
	}
	section(fmt.Sprintf("Files (%d)", len(files)), strings.Join(files, "\n"))
	section("Task", b.task.Text)
	section("Stdin", b.stdin)
	switch {
	case b.memoryErr != nil:
		section("Memory", fmt.Sprintf("(error: %v)", b.memoryErr))
	case b.def.Memory.Enabled:
		section("Memory", b.about.Memory)
	}
	tools, err := b.tools()
	if err != nil {
		return err
	}
	section("Tools", tools)
	section("Sub-Agents", b.subAgents())
	if s := b.def.Supervision.WithDefaults(); s.Mode != configs.Unsupervised {
		section("Supervision", watch(s))
	}
	_, err = io.WriteString(w, out.String())
	return err
}

// system returns the system text. For agents of style mail or slash it includes
// the guidance on forks that a root receives.
func (b *brief) system() string {
	d := b.def.Delegation
	guidance := tool.Guidance(subjects.Root, b.permitted(d.Tools()), b.permitted(d.Commands()))
	return strings.Trim(b.about.Text()+"\n\n"+guidance, "\n")
}

// tools returns the tools that the model is offered, one line of JSON each.
func (b *brief) tools() (string, error) {
	d := b.def.Delegation
	var callees []tool.Callee
	for _, agent := range b.def.SubAgents {
		if b.policy().MayCall(agent) {
			def, _ := configs.Load(filepath.Join(b.agents, agent+".toml"))
			callees = append(callees, tool.Callee{Name: agent, Description: def.Description})
		}
	}
	offered := builtin.Definitions(b.permitted(slices.Clone(b.def.Tools)))
	offered = append(offered, tool.Offer(b.permitted(d.Tools()), callees, d.Batch())...)
	var lines []string
	for _, t := range offered {
		line, err := json.Marshal(t)
		if err != nil {
			return "", err
		}
		lines = append(lines, string(line))
	}
	return strings.Join(lines, "\n"), nil
}

func (b *brief) policy() run.Policy {
	return run.Policy{Agents: b.def.Policy.Agents, Tools: b.def.Policy.Tools}
}

// permitted returns the names of those tools that the agent's policy permits.
func (b *brief) permitted(tools []string) []string {
	return slices.DeleteFunc(tools, func(name string) bool { return !b.policy().MayUse(name) })
}

// watch describes the agent's supervision. In mode human it includes the time
// that a person has to decide, and the decision that applies after it.
func watch(s configs.Supervision) string {
	text := fmt.Sprintf("%s\nAgent:      %s", s.Mode, s.Agent)
	if s.Mode == configs.SupervisedHuman {
		text += fmt.Sprintf("\nTimeout:    %s\nOn Timeout: %s", seconds(s.Timeout), s.OnTimeout)
	}
	return text
}

func (b *brief) subAgents() string {
	d := b.def.Delegation
	if !delegates(b.def) {
		return ""
	}
	whom := strings.Join(b.def.SubAgents, ", ")
	switch {
	case whom != "":
	case d.Has(configs.StyleSpawn):
		whom = "ad hoc runs only"
	default:
		whom = "its own forks only"
	}
	text := fmt.Sprintf("%s\nMax Depth: %d\nParallel:  %s\nTimeout:   %ds",
		whom, b.def.MaxDepth(), yesNo(b.def.SubAgentsConf.Parallel), b.def.SubAgentsConf.Timeout)
	if len(d.Styles) > 0 {
		text += fmt.Sprintf("\nStyle:     %s", d.Styles)
	}
	if d.Has(configs.StyleSpawn) {
		text += fmt.Sprintf("\nMax Batch: %d", d.Batch())
	}
	return text
}

// recall reads the agent's memory in the same way as a worker.
func (b *brief) recall(ctx context.Context, o *options) {
	store := o.worker.Memory(nil)
	if store == nil {
		b.memoryErr = errors.New("memory is on the bus, and this command is not connected to one")
		return
	}
	log := store.Open(b.task.Agent, b.def.Memory.Path)
	b.memory = log.String()
	text, err := log.Read(ctx)
	if err != nil {
		b.memoryErr = err
		return
	}
	b.about.Memory = memory.Last(text, b.def.Memory.LastN)
	b.entries = memory.Count(b.about.Memory)
}

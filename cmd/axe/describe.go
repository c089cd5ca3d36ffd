package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/axebus/axe/configs"
)

// describe returns the settings of an agent's file, one aligned line for each
// setting. Unset settings are left out. The settings about sub-agents and
// retries are shown with their defaults applied.
func describe(a configs.Agent) string {
	var t table
	t.add("Name", a.Name)
	t.add("Description", a.Description)
	t.add("Model", a.Model)
	t.add("System Prompt", a.SystemPrompt)
	t.add("Skill", a.Skill)
	t.add("Files", strings.Join(a.Files, ", "))
	t.add("Workdir", a.Workdir)
	t.add("Tools", strings.Join(a.Tools, ", "))
	t.add("Approve Tools", strings.Join(a.Approve, ", "))
	t.add("Approve By", strings.Join(a.Approvers, ", "))
	if slices.Contains(a.Tools, "run_command") {
		t.add("Sandbox Network", yesNo(a.Sandbox.Network))
		t.add("Sandbox Write", strings.Join(a.Sandbox.Writable(), ", "))
		t.add("Sandbox Read", strings.Join(a.Sandbox.Read, ", "))
		t.add("Sandbox Env", strings.Join(a.Sandbox.Env, ", "))
	}
	t.add("Sub-Agents", strings.Join(a.SubAgents, ", "))
	t.add("Tree Timeout", timeoutText(a.Timeout))
	t.add("Style", a.Delegation.Styles.String())
	if a.Delegation.Has(configs.StyleSpawn) {
		t.add("Max Batch", strconv.Itoa(a.Delegation.Batch()))
		t.add("Turns Each", count(a.Delegation.MaxTurns))
	}
	if delegates(a) {
		t.add("Max Depth", strconv.Itoa(a.MaxDepth()))
		t.add("Parallel", yesNo(a.SubAgentsConf.Parallel))
		t.add("Timeout", cmp.Or(timeoutText(a.SubAgentsConf.Timeout), "0s (what is left of the caller's time)"))
	}
	t.add("Policy Agents", permitted(a.Policy.Agents))
	t.add("Policy Tools", permitted(a.Policy.Tools))
	t.supervision(a.Supervision)
	t.add("Limits Agents", count(a.Budget.Agents))
	t.add("Limits Turns", count(a.Budget.Turns))
	t.add("Limits Tokens", count(a.Budget.Tokens))
	t.add("Limits Tool calls", count(a.Budget.ToolCalls))
	t.add("Memory Enabled", yes(a.Memory.Enabled))
	t.add("Memory Path", a.Memory.Path)
	t.add("Memory LastN", count(a.Memory.LastN))
	t.add("Memory MaxEntries", count(a.Memory.MaxEntries))
	t.add("Temperature", temperature(a))
	t.add("Max Tokens", count(a.Params.MaxTokens))
	t.add("Retry", retries(a.Retry))
	return t.String()
}

// delegates reports whether an agent can start other runs: named sub-agents, ad
// hoc runs or forks.
func delegates(a configs.Agent) bool {
	makeRuns := []configs.Style{configs.StyleSpawn, configs.StyleMail, configs.StyleSlash}
	return len(a.SubAgents) > 0 || slices.ContainsFunc(makeRuns, a.Delegation.Has)
}

// supervision adds the supervision settings. The settings about a person's
// decision are added in mode human only.
func (t *table) supervision(s configs.Supervision) {
	t.add("Supervision Mode", string(s.Mode))
	t.add("Supervision Agent", s.Agent)
	if s = s.WithDefaults(); s.Mode == configs.SupervisedHuman {
		t.add("Supervision Timeout", seconds(s.Timeout))
		t.add("Supervision OnTimeout", string(s.OnTimeout))
	}
}

// retries describes the attempts of a model request.
func retries(r configs.Retry) string {
	if r.MaxAttempts < 2 {
		return "1 attempt"
	}
	r = r.WithDefaults()
	if r.Backoff == configs.Fixed {
		return fmt.Sprintf("%d attempts, %v apart", r.MaxAttempts, r.Initial)
	}
	return fmt.Sprintf("%d attempts, %s from %v to %v", r.MaxAttempts, r.Backoff, r.Initial, r.Max)
}

// permitted lists the names that a policy permits, "" if it permits all.
func permitted(names []string) string {
	if names != nil && len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// timeoutText returns a time, "" if the file sets none.
func timeoutText(seconds int) string {
	if seconds == 0 {
		return ""
	}
	return strconv.Itoa(seconds) + "s"
}

// temperature returns an agent's temperature, "" if it is not set. 0 is set.
func temperature(a configs.Agent) string {
	if a.Params.Temperature == nil {
		return ""
	}
	return strconv.FormatFloat(*a.Params.Temperature, 'g', -1, 64)
}

func yesNo(b bool) string { return cmp.Or(yes(b), "no") }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

func count(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// table prints labelled values.
type table struct{ rows [][2]string }

// add adds a row, unless its value is empty.
func (t *table) add(label, value string) {
	if strings.TrimSpace(value) != "" {
		t.rows = append(t.rows, [2]string{label + ": ", strings.Trim(value, "\r\n")})
	}
}

// String aligns the values. Further lines of a value stand below its first
// line.
func (t *table) String() string {
	// axe aligns the values at this column.
	width := len("Memory Enabled: ")
	for _, row := range t.rows {
		width = max(width, len(row[0]))
	}
	var b strings.Builder
	for _, row := range t.rows {
		margin := row[0] + strings.Repeat(" ", width-len(row[0]))
		for line := range strings.Lines(row[1]) {
			b.WriteString(strings.TrimRight(margin+line, " \t\r\n") + "\n")
			margin = strings.Repeat(" ", width)
		}
	}
	return b.String()
}

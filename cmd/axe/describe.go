package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/axebus/axe/configs"
)

// describe is what an agent's file says, one value to a line and aligned,
// without what is not set. What is about the agents that it calls is told as it
// will be in force.
func describe(a configs.Agent) string {
	var t table
	t.add("Name", a.Name)
	t.add("Description", a.Description)
	t.add("Model", a.Model)
	t.add("System Prompt", a.SystemPrompt)
	t.add("Skill", a.Skill)
	t.add("Files", strings.Join(a.Files, ", "))
	t.add("Workdir", a.Workdir)
	t.add("Sub-Agents", strings.Join(a.SubAgents, ", "))
	// call alone is what axe has always done
	if d := a.Delegation; len(d.Styles) > 0 {
		t.add("Style", d.Styles.String())
	}
	if a.Delegation.Has(configs.StyleSpawn) {
		t.add("Max Batch", strconv.Itoa(a.Delegation.Batch()))
		t.add("Turns Each", count(a.Delegation.MaxTurns))
	}
	if delegates(a) {
		t.add("Max Depth", strconv.Itoa(a.MaxDepth()))
		t.add("Parallel", cmp.Or(yes(a.SubAgentsConf.Parallel), "no"))
		t.add("Timeout", callTimeout(a.SubAgentsConf))
	}
	t.add("Policy Agents", permitted(a.Policy.Agents))
	t.add("Policy Tools", permitted(a.Policy.Tools))
	t.supervision(a.Supervision)
	t.add("Limits Agents", count(a.Budget.Agents))
	t.add("Limits Turns", count(a.Budget.Turns))
	t.add("Limits Tokens", count(a.Budget.Tokens))
	t.add("Memory Enabled", yes(a.Memory.Enabled))
	t.add("Memory Path", a.Memory.Path)
	t.add("Memory LastN", count(a.Memory.LastN))
	t.add("Memory MaxEntries", count(a.Memory.MaxEntries))
	// 0 is a choice, too
	if temperature := a.Params.Temperature; temperature != nil {
		t.add("Temperature", strconv.FormatFloat(*temperature, 'g', -1, 64))
	}
	t.add("Max Tokens", count(a.Params.MaxTokens))
	t.add("Retry", retries(a.Retry))
	return t.String()
}

// delegates reports whether an agent has anybody to give work to: agents by
// name, or runs that it makes itself.
func delegates(a configs.Agent) bool {
	makes := func(s configs.Style) bool { return a.Delegation.Has(s) }
	return len(a.SubAgents) > 0 ||
		slices.ContainsFunc([]configs.Style{configs.StyleSpawn, configs.StyleMail, configs.StyleSlash}, makes)
}

// supervision adds who watches over an agent. What is about a person is told
// where one decides.
func (t *table) supervision(s configs.Supervision) {
	t.add("Supervision Mode", string(s.Mode))
	t.add("Supervision Agent", s.Agent)
	if s = s.WithDefaults(); s.Mode == configs.SupervisedHuman {
		t.add("Supervision Timeout", seconds(s.Timeout))
		t.add("Supervision OnTimeout", string(s.OnTimeout))
	}
}

// retries is how a model is asked again, empty if it is not.
func retries(r configs.Retry) string {
	if r.MaxAttempts < 2 {
		return ""
	}
	r = r.WithDefaults()
	if r.Backoff == configs.Fixed {
		return fmt.Sprintf("%d attempts, %v apart", r.MaxAttempts, r.Initial)
	}
	return fmt.Sprintf("%d attempts, %s from %v to %v", r.MaxAttempts, r.Backoff, r.Initial, r.Max)
}

// permitted lists what a policy permits, "" if it bounds nothing.
func permitted(names []string) string {
	if names != nil && len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func callTimeout(c configs.SubAgentsConfig) string {
	if c.Timeout == 0 {
		return "0s (what is left of the caller's time)"
	}
	return strconv.Itoa(c.Timeout) + "s"
}

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

// table is labelled values.
type table struct{ rows [][2]string }

// add adds a row, unless its value is empty.
func (t *table) add(label, value string) {
	if strings.TrimSpace(value) != "" {
		t.rows = append(t.rows, [2]string{label + ": ", strings.Trim(value, "\r\n")})
	}
}

// String aligns the values; the further lines of one stand below its first.
func (t *table) String() string {
	width := len("Memory Enabled: ") // where axe has its values
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

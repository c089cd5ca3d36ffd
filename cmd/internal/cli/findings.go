package cli

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/check"
)

// Report is the result of a check of a directory of agents.
type Report struct {
	// Agents is the number of agents' files, those that do not load
	// included.
	Agents   int             `json:"agents"`
	Errors   int             `json:"errors"`
	Warnings int             `json:"warnings"`
	Findings []check.Finding `json:"findings"`
}

// Check checks all agents of the worker's directory, each by itself and as each
// other's sub-agents. Elsewhere reports whether another worker serves an agent
// or a toolset; nil means that there is no other worker. Check fails if it
// cannot read the directory. The caller calls Load first.
func (f *WorkerFlags) Check(elsewhere func(name string) (check.Kind, bool)) (Report, error) {
	defs, invalid, err := LoadAll(f.Agents)
	if err != nil {
		return Report{}, err
	}
	r := Report{Agents: len(defs.Agents), Findings: []check.Finding{}}
	var broken []string
	for _, e := range invalid {
		if filepath.Dir(e.File) == filepath.Clean(f.Agents) {
			r.Agents++
		}
		r.Findings = append(r.Findings, check.Invalid(e))
		broken = append(broken, configs.NameOf(e.File))
	}
	r.Findings = append(r.Findings, check.Agents(defs.Agents, f.checkConfig(defs.Toolsets, broken, elsewhere))...)
	slices.SortStableFunc(r.Findings, func(a, b check.Finding) int { return cmp.Compare(a.File, b.File) })
	for _, found := range r.Findings {
		switch found.Severity {
		case check.Error:
			r.Errors++
		case check.Warning:
			r.Warnings++
		}
	}
	return r, nil
}

// CheckTree checks root, which the flags may have changed, and the agents of
// the directory that may work below it. It assumes that no other worker serves
// an agent. It leaves out the mistakes that end the root's own run with an
// error, and missing descriptions, which harm no run.
func (f *WorkerFlags) CheckTree(root configs.Agent) ([]check.Finding, error) {
	defs, invalid, err := LoadAll(f.Agents)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, a := range defs.Agents {
		names = append(names, a.Name)
	}
	for _, e := range invalid {
		names = append(names, configs.NameOf(e.File))
	}
	var findings []check.Finding
	for _, found := range check.Agents(check.Below(root, defs.Agents), f.checkConfig(defs.Toolsets, names, nil)) {
		fatal := found.Severity == check.Error && (found.Key == "skill" || found.Key == "files")
		if own := found.Agent == root.Name && (fatal || found.Key == "model"); !own && found.Key != "description" {
			findings = append(findings, found)
		}
	}
	return findings, nil
}

func (f *WorkerFlags) checkConfig(
	toolsets []configs.Toolset, known []string, elsewhere func(name string) (check.Kind, bool),
) check.Config {
	return check.Config{Models: f.models, Model: f.Model, Toolsets: toolsets, Known: known, Elsewhere: elsewhere}
}

// Elsewhere returns the function that asks the bus for the agents and toolsets
// of other workers. Without an answer of the bus it calls failed, and a name
// counts as unknown.
func Elsewhere(ctx context.Context, conn *bus.Conn, failed func(error)) func(name string) (check.Kind, bool) {
	return func(name string) (check.Kind, bool) {
		card, ok, err := FindCard(ctx, conn, name)
		if err != nil {
			failed(err)
		}
		kind := check.Agent
		if card.Toolset != "" {
			kind = check.Toolset
		}
		return kind, ok && card.Problem == ""
	}
}

// FindCard returns the card of an agent in the directory of the bus. It returns
// false if the directory has none.
func FindCard(ctx context.Context, conn *bus.Conn, agent string) (card agentd.Card, ok bool, _ error) {
	dir, err := conn.Directory(ctx)
	if err != nil {
		return card, false, err
	}
	value, _, ok, err := dir.Get(ctx, agent)
	if err != nil || !ok {
		return card, false, err
	}
	card, err = agentd.DecodeCard(agent, value)
	return card, err == nil, err
}

// logFindings logs the findings that are not in before. It returns all findings
// as a set, which the next call takes as before.
func logFindings(
	ctx context.Context, log *slog.Logger, findings []check.Finding, before map[check.Finding]bool,
) map[check.Finding]bool {
	now := make(map[check.Finding]bool, len(findings))
	for _, f := range findings {
		now[f] = true
		if before[f] {
			continue
		}
		level := slog.LevelWarn
		if f.Severity == check.Error {
			level = slog.LevelError
		}
		log.Log(ctx, level, "agent check", slog.String(keyAgent, f.Agent), slog.String(keyFile, f.File),
			slog.String(keyKey, f.Key), slog.String(keyProblem, f.Text))
	}
	return now
}

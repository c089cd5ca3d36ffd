package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/presence"
)

// AgentLine is an agent as axe agents list -o json prints it.
type AgentLine struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitzero"`
	Model       string   `json:"model,omitzero"`
	SubAgents   []string `json:"sub_agents,omitempty"`
	// Workers are the workers that serve the agent. It is nil for an agent
	// of a directory.
	Workers []string `json:"workers,omitzero"`
	// Former are the workers that served the agent in the last day and are
	// gone. It is empty while a worker serves the agent.
	Former []string `json:"former,omitempty"`
	// Since is the time of the last sign of life of the former workers, for
	// an agent without a worker.
	Since time.Time `json:"since,omitzero"`
	// Problem says why no worker can serve the agent.
	Problem string `json:"problem,omitzero"`
}

// Agents lists the agents that workers have announced on a bus.
func Agents(ctx context.Context, conn *bus.Conn) ([]AgentLine, error) {
	cards, err := Cards(ctx, conn)
	if err != nil {
		return nil, err
	}
	survey, err := presence.New(conn).Survey(ctx)
	if err != nil {
		return nil, err
	}
	all := []AgentLine{} // never null
	for _, c := range cards {
		if c.Toolset != "" {
			continue
		}
		a := AgentLine{
			Name: c.Name, Description: c.Description, Model: c.Model, SubAgents: c.SubAgents, Problem: c.Problem,
			Workers: []string{},
		}
		s := survey.Serving(ctx, c.Name)
		a.Workers = append(a.Workers, s.Live...)
		if s.Unserved() {
			a.Former = s.Former
			a.Since = s.Since
		}
		all = append(all, a)
	}
	return all, nil
}

// Cards returns the cards in the directory of a bus, sorted by name. It leaves
// out a card that no worker wrote.
func Cards(ctx context.Context, conn *bus.Conn) ([]agentd.Card, error) {
	dir, err := conn.Directory(ctx)
	if err != nil {
		return nil, err
	}
	values, err := dir.All(ctx)
	if err != nil {
		return nil, err
	}
	var cards []agentd.Card
	for name, value := range values {
		if c, err := agentd.DecodeCard(name, value); err == nil {
			cards = append(cards, c)
		}
	}
	slices.SortFunc(cards, func(a, b agentd.Card) int { return strings.Compare(a.Name, b.Name) })
	return cards, nil
}

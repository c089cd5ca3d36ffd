package mcpserver

import (
	"context"
	"log/slog"
	"path"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/subjects"
)

// aboutCall is the end of each tool's description.
const aboutCall = "A call submits the task to this agent and waits for the answer of the agent and of all agents " +
	"that it calls."

// maxTools bounds the agents that are offered: a host's model reads all tools.
const maxTools = 1000

// cardChanged offers, changes or withdraws the tool of an agent. Card is nil
// for an agent that was removed. Agents beyond maxTools are not offered. Only
// the goroutine that watches the agents calls it.
func (s *Server) cardChanged(name string, card []byte) {
	agent, description, ok := s.toolOf(name, card)
	old, offered := s.offered[name]
	switch {
	case ok && !offered && len(s.offered) >= maxTools:
		s.cfg.Log.Warn("too many agents, this one is not offered", slog.String("agent", name))
	case ok && (!offered || old != description):
		s.offered[name] = description
		s.addTool(agent, description)
	case !ok && offered:
		delete(s.offered, name)
		s.mcp.RemoveTools(name)
	}
}

// toolOf returns the agent of a card and the description of its tool. Ok is
// false for an agent that no worker can serve, that the configuration leaves
// out, or that no submission can name.
func (s *Server) toolOf(name string, card []byte) (agent subjects.Agent, description string, ok bool) {
	c, err := agentd.DecodeCard(name, card)
	if card == nil || err != nil || c.CallProblem() != "" || !s.selects(name) {
		return agent, "", false
	}
	if agent, err = subjects.ParseAgent(name); err != nil {
		return agent, "", false
	}
	about := strings.TrimSpace(c.Description)
	if about != "" && !strings.ContainsAny(about[len(about)-1:], ".!?") {
		about += "."
	}
	return agent, strings.TrimSpace(about + " " + aboutCall), true
}

// selects reports whether the configuration offers an agent. Without names it
// offers all.
func (s *Server) selects(name string) bool {
	return len(s.cfg.Agents) == 0 || slices.ContainsFunc(s.cfg.Agents, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}

// input holds the arguments of a call.
type input struct {
	Task    string `json:"task" jsonschema:"the task, complete in itself"`
	Context string `json:"context,omitempty" jsonschema:"more that the agent needs to know"`
	Timeout string `json:"timeout,omitempty" jsonschema:"time limit of the whole work: seconds, or a duration like 10m"`
	ID      string `json:"id,omitempty" jsonschema:"key of this work: a call with the key of earlier work waits for it"`
}

// output is the structured content of a result.
type output struct {
	ID        string `json:"id" jsonschema:"id of the tree of runs"`
	Status    string `json:"status" jsonschema:"completed or failed, or running if the server stops"`
	Kind      string `json:"kind,omitempty" jsonschema:"class of the failure"`
	Result    string `json:"result,omitempty" jsonschema:"the answer"`
	Error     string `json:"error,omitempty" jsonschema:"reason of the failure"`
	Truncated bool   `json:"truncated,omitempty" jsonschema:"the answer was cut at the limit of output tokens"`
	Tokens    int    `json:"tokens" jsonschema:"input and output tokens of all runs"`
	Runs      int    `json:"runs" jsonschema:"number of runs"`
	MS        int64  `json:"ms" jsonschema:"time from the call to the outcome in milliseconds"`
}

// addTool adds the tool of an agent, or replaces it.
func (s *Server) addTool(agent subjects.Agent, description string) {
	name := agent.String()
	tool := &mcp.Tool{
		Name: name, Title: name, Description: description,
		Annotations: &mcp.ToolAnnotations{Title: name, OpenWorldHint: new(true)},
	}
	mcp.AddTool(s.mcp, tool, func(
		ctx context.Context, r *mcp.CallToolRequest, in input,
	) (*mcp.CallToolResult, output, error) {
		return s.answer(ctx, call{CallToolRequest: r, agent: agent, in: in})
	})
}

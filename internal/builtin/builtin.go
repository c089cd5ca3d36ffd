// Package builtin has the tools that an agent's file may name: they read and
// change files, run commands, fetch pages, and keep artifacts. Names,
// parameters, limits and texts are those of axe 1.8, where axe has the tool.
//
// A tool sees one call at a time and keeps nothing. Its file system is the
// working directory of the agent: no path leads out of it, by "..", by a link,
// or by a race (os.Root).
package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

// Tool is a built-in tool.
type Tool struct {
	Definition provider.Tool
	Effect     run.ToolEffect
	// Run carries out a call and returns its result. The error is for the
	// model. If ctx ends, the result is what there was until then.
	Run func(ctx context.Context, c Call) (string, error)
	// Plan returns what Settle needs, before the call is carried out. Its
	// error is for the model, and the call is then not carried out. It is
	// nil for a tool that cannot find out whether it took effect.
	Plan func(Call) (json.RawMessage, error)
	// Settle finds out whether a call with a plan took effect, after its
	// worker has died. It is nil if Plan is.
	Settle func(c Call, plan json.RawMessage) (result string, settled Settled)
}

// Settled is the answer of Tool.Settle.
type Settled int

// The answers.
const (
	// Unsettled: the call may have taken effect.
	Unsettled Settled = iota
	// NotDone: the call has not taken effect.
	NotDone
	// Done: the call has taken effect.
	Done
)

// Call is one call of a tool.
type Call struct {
	// Arguments has every argument as text (provider.ToolCall).
	Arguments map[string]string
	// Dir is the working directory of the agent.
	Dir string
	// Key is the same for every attempt at the call, and for no other call.
	Key string
	// Hosts are the hosts that url_fetch may ask. An empty list allows
	// every public host.
	Hosts []string
	// Sandbox says how commands are held. It may take seconds to find out.
	Sandbox func() Sandbox
	// Artifacts are the files of the tree of the call.
	Artifacts Artifacts
	// MaxResult is the number of bytes beyond which a result becomes an
	// artifact. The results of read_artifact stay below it.
	MaxResult int
}

// tools makes each tool, by name.
var tools = map[string]func() Tool{
	"list_directory": listDirectory,
	"read_file":      readFile,
	"search_files":   searchFiles,
	"write_file":     writeFile,
	"edit_file":      editFile,
	"run_command":    runCommand,
	"url_fetch":      urlFetch,
	"web_search":     webSearch,
	"read_artifact":  readArtifact,
	"write_artifact": writeArtifact,
}

// Find returns the tool with a name.
func Find(name string) (Tool, bool) {
	tool, ok := tools[name]
	if !ok {
		return Tool{}, false
	}
	return tool(), true
}

// Definitions returns the definitions of the tools with the given names, in
// their order. A name of no tool has none.
func Definitions(names []string) []provider.Tool {
	var all []provider.Tool
	for _, name := range names {
		if t, ok := Find(name); ok {
			all = append(all, t.Definition)
		}
	}
	return all
}

// Check returns what is wrong with the arguments of a call, nil if they fit the
// tool's parameters.
func (t Tool) Check(c Call) error {
	for _, name := range t.Definition.Required() {
		if _, ok := c.Arguments[name]; !ok {
			return errors.New(name + " is required")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Arguments)) {
		if _, ok := t.Definition.Parameters[name]; !ok {
			known := slices.Sorted(maps.Keys(t.Definition.Parameters))
			return fmt.Errorf("unknown argument %q: %s takes %s", name, t.Definition.Name, strings.Join(known, ", "))
		}
	}
	return nil
}

// define makes a definition with parameters that are strings, as axe's are.
func define(name, description string, parameters map[string]provider.ToolParameter) provider.Tool {
	return provider.Tool{Name: name, Description: description, Parameters: parameters}
}

func required(description string) provider.ToolParameter {
	return provider.ToolParameter{Type: "string", Description: description, Required: true}
}

func optional(description string) provider.ToolParameter {
	return provider.ToolParameter{Type: "string", Description: description}
}

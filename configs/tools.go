package configs

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// builtinTools are the names of the built-in tools.
var builtinTools = []string{
	"list_directory", "read_file", "write_file", "edit_file", "search_files", "run_command", "url_fetch", "web_search",
}

// BuiltinTools returns the names of the built-in tools.
func BuiltinTools() []string { return slices.Clone(builtinTools) }

// ToolConfig has the settings of a tool of an agent.
type ToolConfig struct {
	// Effect says how often the effect of the tool may happen. The empty
	// value stands for the tool's own.
	Effect ToolEffect
	// Timeout bounds a call. With 0 a call has the time that is left to its
	// caller.
	Timeout time.Duration
	// OnUnknown says how the agent goes on after a call that may have taken
	// effect. The empty value stands for UnknownTell.
	OnUnknown OnUnknown
}

// ToolEffect says how often the effect of a tool may happen.
type ToolEffect string

// The effects.
const (
	// ToolReads: the tool changes nothing.
	ToolReads ToolEffect = "read"
	// ToolIdempotent: a second call with the same key changes nothing more.
	ToolIdempotent ToolEffect = "idempotent"
	// ToolOnce: a call is not made again after a crash.
	ToolOnce ToolEffect = "once"
)

// OnUnknown is the decision after a call that may have taken effect.
type OnUnknown string

// The decisions.
const (
	// UnknownTell lets the model decide.
	UnknownTell OnUnknown = "tell"
	// UnknownAsk: a person settles the call.
	UnknownAsk OnUnknown = "ask"
	// UnknownAgain makes the call again.
	UnknownAgain OnUnknown = "again"
	// UnknownFail fails the run.
	UnknownFail OnUnknown = "fail"
)

// toolConf returns the settings of each built-in tool. A tool that is not in
// known has the zero value.
func toolConf(known map[string]ToolConfig) map[string]*ToolConfig {
	all := make(map[string]*ToolConfig, len(builtinTools))
	for _, name := range builtinTools {
		all[name] = new(known[name])
	}
	return all
}

// settings returns the settings that are not all zero.
func settings(tools map[string]*ToolConfig) map[string]ToolConfig {
	var all map[string]ToolConfig
	for name, c := range tools {
		if *c != (ToolConfig{}) {
			if all == nil {
				all = map[string]ToolConfig{}
			}
			all[name] = *c
		}
	}
	return all
}

func checkTools(a Agent) *Error {
	for _, name := range a.Tools {
		if !slices.Contains(builtinTools, name) {
			text := fmt.Sprintf("unknown tool %q in tools config", name)
			if near := Nearest(builtinTools, name); near != "" {
				text += fmt.Sprintf("; did you mean %q?", near)
			} else {
				text += "; the tools are " + strings.Join(builtinTools, ", ")
			}
			return invalid("tools", text)
		}
	}
	for _, name := range a.Approve {
		if !slices.Contains(a.Tools, name) {
			return invalid("approve.tools", fmt.Sprintf("%q is not in tools", name))
		}
	}
	for _, name := range builtinTools {
		c, key := a.ToolConf[name], "tool."+name
		switch {
		case !slices.Contains([]ToolEffect{"", ToolReads, ToolIdempotent, ToolOnce}, c.Effect):
			return invalid(key+".effect", key+".effect must be one of: read, idempotent, once")
		case !slices.Contains([]OnUnknown{"", UnknownTell, UnknownAsk, UnknownAgain, UnknownFail}, c.OnUnknown):
			return invalid(key+".on_unknown", key+".on_unknown must be one of: tell, ask, again, fail")
		case c.Timeout < 0:
			return invalid(key+".timeout", fmt.Sprintf("%s.timeout must not be negative, got %v", key, c.Timeout))
		}
	}
	return nil
}

package configs

import (
	"encoding/json"
	"time"
)

// Toolset is the definition of a toolset, read from its file: tools that agents
// of any worker may name as "toolset/tool".
type Toolset struct {
	// Name is a valid subjects.Agent, and the file's base name. No agent has
	// the same name.
	Name string
	// Description tells people about the toolset.
	Description string
	Kind        ToolsetKind
	// Allow are globs of the tools that are offered. An empty list allows
	// all of them.
	Allow []string
	// Prefix stands before the names of the tools that a model reads.
	Prefix string
	// Timeout bounds a call of each tool without a timeout of its own. With
	// 0 a call has the time that is left to its caller.
	Timeout time.Duration
	// Required says that a run that names the toolset fails at its start
	// while the toolset cannot list its tools.
	Required bool
	// Workdir is the directory in which programs of the toolset run.
	Workdir string

	// Command is the program of an MCP server that is reached by its
	// standard input and output, and the program's arguments.
	Command []string
	// Env are the variables of the worker's environment that the program
	// gets, besides PATH, HOME, LANG and TERM.
	Env []string
	// URL is the address of an MCP server that is reached by streamable
	// HTTP.
	URL string
	// Headers are sent with each request to the URL. Their values have had
	// ${VARIABLES} of the environment replaced.
	Headers map[string]string
	// Trust says that the annotations of an MCP server are believed.
	Trust bool
	// Service is the name of a NATS micro service.
	Service string
	// Sandbox says what the commands of the toolset may do.
	Sandbox Sandbox
	// Tools are the settings of the tools, by name. In a toolset of the kind
	// command or http they are the tools.
	Tools map[string]ToolsetTool

	// File is the path that the toolset was read from.
	File string
	// Digest is the SHA-256 of the file's bytes, in hex.
	Digest string
}

// ToolsetKind says what carries out the tools of a toolset.
type ToolsetKind string

// The kinds of toolsets.
const (
	// ToolsetMCP: a server of the Model Context Protocol.
	ToolsetMCP ToolsetKind = "mcp"
	// ToolsetCommand: a program for each tool.
	ToolsetCommand ToolsetKind = "command"
	// ToolsetHTTP: a request to an HTTP service for each tool.
	ToolsetHTTP ToolsetKind = "http"
	// ToolsetNATS: a request to a NATS subject, or to a micro service.
	ToolsetNATS ToolsetKind = "nats"
)

// ToolsetTool has the settings of one tool of a toolset.
type ToolsetTool struct {
	ToolConfig
	// Description tells a model what the tool does.
	Description string
	// Parameters is the JSON Schema of the arguments, an object. It is empty
	// where the server of the toolset describes its tools.
	Parameters json.RawMessage
	// Command is the program of a tool of the kind command, and the
	// program's arguments.
	Command []string
	// Method is the HTTP method of a tool of the kind http.
	Method string
	// URL is the URL of a tool of the kind http. {NAME} in it stands for an
	// argument.
	URL string
	// Headers are sent with the request of a tool of the kind http.
	Headers map[string]string
	// Subject is the NATS subject of a tool of the kind nats. {NAME} in it
	// stands for an argument.
	Subject string
}

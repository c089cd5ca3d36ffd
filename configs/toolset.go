package configs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/axebus/axe/internal/files"
	"github.com/axebus/axe/secret"
	"github.com/axebus/axe/subjects"
)

// Toolset is the definition of a toolset, read from its file: tools that agents
// of any worker may name as "toolset/tool".
type Toolset struct {
	// Name is a valid subjects.Agent, and the file's base name. No agent
	// has the same name.
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
	// until the toolset has listed its tools for the first time.
	Required bool
	// Workdir is the directory in which programs of the toolset run. If it
	// is empty, they run in the current directory of the worker.
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
	// Headers are sent with each HTTP request of the toolset. Their values
	// have had ${VARIABLES} of the environment replaced.
	Headers map[string]string
	// Secrets are the values of variables in Headers, also in those of
	// Tools, the last words of headers that are named like a secret, and the
	// values of variables in Env that are. A worker hides a secret in
	// results if it has secret.MinLength bytes or more.
	Secrets []secret.Text
	// Trust says that the annotations of an MCP server are believed.
	Trust bool
	// Service is the name of a NATS micro service.
	Service string
	// Server, Context, Creds and SubjectPrefix say how to reach the bus of
	// another domain, as the flags of the same names do: URLs, a context of
	// the nats CLI, a file with a user's JWT and seed, and the first token
	// of all subjects.
	Server, Context, Creds, SubjectPrefix string
	// Limits bounds each tree that a call begins at another domain, in
	// addition to the bounds there.
	Limits subjects.Budget
	// Sandbox says what the commands of the toolset may do.
	Sandbox Sandbox
	// Tools are the settings of tools, by name. The server of a toolset of
	// the kind mcp lists the tools, and so does a Service. In any other
	// toolset these are the tools.
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
	// ToolsetRemote: an agent of another domain, which is another account
	// or another NATS system, for each tool.
	ToolsetRemote ToolsetKind = "remote"
)

// ToolsetTool has the settings of one tool of a toolset.
type ToolsetTool struct {
	ToolConfig
	// Description tells a model what the tool does.
	Description string
	// Parameters is the JSON Schema of the arguments, an object. The kinds
	// command, http and nats have it. If it is empty, the arguments are the
	// names in URL or Subject. It is empty where a server describes the
	// toolset's tools, and for the kind remote.
	Parameters json.RawMessage
	// Command is the program of a tool of the kind command, and the
	// program's arguments.
	Command []string
	// Method is the HTTP method of a tool of the kind http. The default is
	// GET.
	Method string
	// URL is the URL of a tool of the kind http. {NAME} in it stands for an
	// argument.
	URL string
	// Headers are sent with the request of a tool of the kind http, besides
	// those of the toolset.
	Headers map[string]string
	// Subject is the NATS subject of a tool of the kind nats. {NAME} in it
	// stands for an argument.
	Subject string
	// Agent is the agent that carries out a tool of the kind remote; empty:
	// the one with the tool's name.
	Agent string
}

// MaxToolsetTools bounds the tools of one toolset.
const MaxToolsetTools = 128

// ToolsetDir returns the directory of the toolsets that belong to a directory
// of agents. It is "tools" beside a directory with the name "agents", and
// "tools" below any other directory.
func ToolsetDir(agents string) string {
	if abs, err := filepath.Abs(agents); err == nil && filepath.Base(abs) == "agents" {
		return filepath.Join(agents, "..", "tools")
	}
	return filepath.Join(agents, "tools")
}

// LoadToolset reads one toolset. Its error is an *Error, which wraps the error
// of the file system if there is one.
func LoadToolset(file string) (Toolset, error) {
	b, _, err := files.Read(file, os.O_RDONLY, maxFile)
	if err != nil {
		return Toolset{}, &Error{File: file, Message: withoutPath(err), cause: err}
	}
	sum := sha256.Sum256(b)
	t := Toolset{Name: NameOf(file), File: file, Digest: hex.EncodeToString(sum[:])}
	doc, err := newDocument(file, string(b))
	if err != nil {
		return Toolset{}, err
	}
	tools := toolTables(doc)
	if err := doc.decode(t.fields(tools)); err != nil {
		return Toolset{}, err
	}
	t.Tools = make(map[string]ToolsetTool, len(tools))
	for name, tool := range tools {
		t.Tools[name] = *tool
	}
	if err := cmp.Or(t.check(), t.resolve(filepath.Dir(file))); err != nil {
		return Toolset{}, doc.locate(err)
	}
	return t, nil
}

// toolTables returns settings for each table [tool.NAME] of a document.
func toolTables(doc *document) map[string]*ToolsetTool {
	tools := map[string]*ToolsetTool{}
	for _, key := range doc.meta.Keys() {
		if len(key) >= 2 && key[0] == "tool" {
			tools[key[1]] = &ToolsetTool{}
		}
	}
	return tools
}

// fields maps every key of the format to the variable for its value.
func (t *Toolset) fields(tools map[string]*ToolsetTool) map[string]any {
	all := map[string]any{
		"kind":        (*string)(&t.Kind),
		"description": &t.Description,
		"allow":       &t.Allow,
		"prefix":      &t.Prefix,
		"timeout":     (*duration)(&t.Timeout),
		"required":    &t.Required,
		"workdir":     &t.Workdir,
		"command":     &t.Command,
		"env":         &t.Env,
		"url":         &t.URL,
		"headers":     (*stringTable)(&t.Headers),
		"trust":       &t.Trust,
		"service":     &t.Service,

		"server":         &t.Server,
		"context":        &t.Context,
		"creds":          &t.Creds,
		"subject_prefix": &t.SubjectPrefix,

		"sandbox.network": &t.Sandbox.Network,
		"sandbox.write":   &t.Sandbox.Write,
		"sandbox.read":    &t.Sandbox.Read,
		"sandbox.env":     &t.Sandbox.Env,
	}
	addLimits(all, &t.Limits)
	for name, tool := range tools {
		for key, into := range map[string]any{
			"effect":      (*string)(&tool.Effect),
			"timeout":     (*duration)(&tool.Timeout),
			"on_unknown":  (*string)(&tool.OnUnknown),
			"description": &tool.Description,
			"parameters":  (*schema)(&tool.Parameters),
			"command":     &tool.Command,
			"method":      &tool.Method,
			"url":         &tool.URL,
			"headers":     (*stringTable)(&tool.Headers),
			"subject":     &tool.Subject,
			"agent":       &tool.Agent,
		} {
			all[toml.Key{"tool", name, key}.String()] = into
		}
	}
	return all
}

// schema is a JSON Schema, written as a TOML table.
type schema json.RawMessage

func (*schema) open() {}

// UnmarshalTOML reads a table.
func (s *schema) UnmarshalTOML(value any) error {
	if _, ok := value.(map[string]any); !ok {
		return errors.New("not a table")
	}
	b, err := json.Marshal(value)
	*s = b
	return err
}

// stringTable is a table of strings with any keys.
type stringTable map[string]string

func (*stringTable) open() {}

// UnmarshalTOML reads a table.
func (t *stringTable) UnmarshalTOML(value any) error {
	table, ok := value.(map[string]any)
	if !ok {
		return errors.New("not a table")
	}
	*t = make(stringTable, len(table))
	for key, v := range table {
		text, ok := v.(string)
		if !ok {
			return errors.New("not a string")
		}
		(*t)[key] = text
	}
	return nil
}

// check returns the first error in the values of t.
func (t *Toolset) check() *Error {
	if err := checkAgents("name", t.Name); err != nil {
		return invalid("name", "the file's name is the toolset's: "+err.Message)
	}
	if err := cmp.Or(
		t.checkKind(), checkGlobs("allow", t.Allow), checkPrefix(t.Prefix), checkSandbox("sandbox", t.Sandbox),
		checkEnv(t.Env), checkTimeout("timeout", t.Timeout),
	); err != nil {
		return err
	}
	if len(t.Tools) > MaxToolsetTools {
		return invalid("tool", fmt.Sprintf("%d tools, a toolset has at most %d", len(t.Tools), MaxToolsetTools))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Tools)) {
		if err := t.checkTool(name, t.Tools[name]); err != nil {
			return err
		}
	}
	return nil
}

// checkKind checks that the keys that are of certain kinds are of the file's
// kind, and that none is missing.
func (t *Toolset) checkKind() *Error {
	given := map[string]bool{
		"command": len(t.Command) > 0, "url": t.URL != "", "service": t.Service != "", "headers": len(t.Headers) > 0,
		"trust": t.Trust, "env": len(t.Env) > 0, "server": t.Server != "", "context": t.Context != "",
		"creds": t.Creds != "", "subject_prefix": t.SubjectPrefix != "", "limits": t.Limits != subjects.Budget{},
	}
	allowed, ok := map[ToolsetKind][]string{
		ToolsetMCP: {"command", "url", "headers", "trust", "env"}, ToolsetCommand: {},
		ToolsetHTTP: {"headers"}, ToolsetNATS: {"service"},
		ToolsetRemote: {"server", "context", "creds", "subject_prefix", "limits"},
	}[t.Kind]
	if !ok {
		return invalid("kind", fmt.Sprintf("must be mcp, command, http, nats or remote, got %q", t.Kind))
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if given[key] && !slices.Contains(allowed, key) {
			return invalid(key, fmt.Sprintf("a toolset of the kind %s has no %s", t.Kind, key))
		}
	}
	switch {
	case t.Kind == ToolsetMCP && given["command"] == given["url"]:
		return invalid("kind", "a toolset of the kind mcp has either command or url")
	case t.Kind == ToolsetMCP && given["url"] && given["env"]:
		return invalid("env", "is for a server that is started with command")
	case t.Kind == ToolsetMCP && given["command"] && given["headers"]:
		return invalid("headers", "are for a server with a url")
	case given["url"]:
		return checkURL("url", t.URL)
	case t.Kind != ToolsetMCP && t.Service == "" && len(t.Tools) == 0:
		return invalid("kind", fmt.Sprintf("a toolset of the kind %s needs a table [tool.NAME] for each tool", t.Kind))
	case t.Kind == ToolsetRemote:
		return t.checkRemote()
	}
	return nil
}

// checkRemote checks how another domain is reached.
func (t *Toolset) checkRemote() *Error {
	if (t.Server == "") == (t.Context == "") {
		return invalid("kind", "a toolset of the kind remote has either server or context")
	}
	if _, err := subjects.NewSpace(t.SubjectPrefix); err != nil {
		return invalid("subject_prefix", err.Error())
	}
	return checkLimits(t.Limits)
}

func checkURL(key, text string) *Error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return invalid(key, fmt.Sprintf("must be an http or https URL, got %q", text))
	}
	return nil
}

func checkGlobs(key string, globs []string) *Error {
	for _, g := range globs {
		if _, err := path.Match(g, ""); err != nil {
			return invalid(key, fmt.Sprintf("%q is no glob: %v", g, err))
		}
	}
	return nil
}

// modelName matches the names of tools that all providers accept.
var modelName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func checkPrefix(prefix string) *Error {
	if prefix != "" && !modelName.MatchString(prefix) {
		return invalid("prefix", fmt.Sprintf("must have letters, digits, _ and - alone, got %q", prefix))
	}
	return nil
}

// checkEnv checks the variables of an MCP server. It may get secrets, but
// nothing that leads to the bus.
func checkEnv(names []string) *Error {
	for _, name := range names {
		switch {
		case name == "" || strings.ContainsAny(name, "= \x00"):
			return invalid("env", fmt.Sprintf("must be names of variables, got %q", name))
		case busVariable.MatchString(name):
			return invalid("env", name+" leads to the bus: no tool gets it")
		}
	}
	return nil
}

// checkTimeout checks the bounds of a timeout. 0 is none.
func checkTimeout(key string, d time.Duration) *Error {
	switch {
	case d < 0:
		return invalid(key, fmt.Sprintf("%s must not be negative, got %v", key, d))
	case d > subjects.MaxTimeout:
		return invalid(key, fmt.Sprintf("%s cannot exceed %v, got %v", key, subjects.MaxTimeout, d))
	}
	return nil
}

// checkTool checks the settings of a tool.
func (t *Toolset) checkTool(name string, tool ToolsetTool) *Error {
	key := toml.Key{"tool", name}.String()
	given := map[string]bool{
		"command": len(tool.Command) > 0, "method": tool.Method != "", "url": tool.URL != "",
		"headers": len(tool.Headers) > 0, "subject": tool.Subject != "", "parameters": len(tool.Parameters) > 0,
	}
	given["agent"] = tool.Agent != ""
	needed := map[ToolsetKind]string{ToolsetCommand: "command", ToolsetHTTP: "url", ToolsetNATS: "subject"}[t.Kind]
	allowed := map[ToolsetKind][]string{
		ToolsetMCP: {}, ToolsetCommand: {"command", "parameters"},
		ToolsetHTTP: {"method", "url", "headers", "parameters"}, ToolsetNATS: {"subject", "parameters"},
		ToolsetRemote: {"agent"},
	}[t.Kind]
	for _, k := range slices.Sorted(maps.Keys(given)) {
		if given[k] && !slices.Contains(allowed, k) {
			return invalid(key+"."+k, fmt.Sprintf("a tool of the kind %s has no %s", t.Kind, k))
		}
	}
	switch {
	case !modelName.MatchString(name) && t.Kind != ToolsetMCP:
		return invalid(key, fmt.Sprintf("a tool's name has at most 64 letters, digits, _ and -, got %q", name))
	case needed != "" && !given[needed] && t.Service == "":
		return invalid(key, fmt.Sprintf("a tool of the kind %s needs %s", t.Kind, needed))
	case t.Service != "" && (given["subject"] || given["parameters"]):
		return invalid(key, "the service describes its tools: subject and parameters are for a toolset without service")
	case given["parameters"]:
		if err := checkSchema(key+".parameters", tool.Parameters); err != nil {
			return err
		}
	}
	if t.Kind == ToolsetRemote {
		if err := checkAgents(key+".agent", cmp.Or(tool.Agent, name)); err != nil {
			return err
		}
	}
	return cmp.Or(checkToolConfig(key, tool.ToolConfig), checkRequest(key, tool))
}

// checkSchema checks that the schema of a tool's arguments is that of an
// object.
func checkSchema(key string, schema json.RawMessage) *Error {
	var s struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(schema, &s); err != nil || s.Type != "object" {
		return invalid(key, `must be a JSON Schema with type = "object"`)
	}
	return nil
}

// methods are the HTTP methods of tools.
var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"}

func checkRequest(key string, tool ToolsetTool) *Error {
	switch {
	case tool.Method != "" && !slices.Contains(methods, tool.Method):
		known := strings.Join(methods, ", ")
		return invalid(key+".method", fmt.Sprintf("must be one of %s, got %q", known, tool.Method))
	case tool.URL != "":
		return checkURL(key+".url", placeholder.ReplaceAllString(tool.URL, "x"))
	case strings.ContainsAny(placeholder.ReplaceAllString(tool.Subject, "x"), " \t*>{}"):
		return invalid(key+".subject", fmt.Sprintf("must be a subject without wildcards, got %q", tool.Subject))
	}
	return nil
}

// placeholder matches {NAME} in a URL or a subject.
var placeholder = regexp.MustCompile(`\{[a-zA-Z0-9_-]+\}`)

// variable matches ${NAME} in the value of a header.
var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// resolve joins relative paths to dir, the directory of the file, and replaces
// "~" in them and the variables in headers.
func (t *Toolset) resolve(dir string) *Error {
	var err error
	if t.Sandbox, err = t.Sandbox.expanded(); err != nil {
		return invalid("sandbox.read", err.Error())
	}
	if t.Workdir, err = resolvePath(t.Workdir, dir); err != nil {
		return invalid("workdir", err.Error())
	}
	if t.Creds, err = resolvePath(t.Creds, dir); err != nil {
		return invalid("creds", err.Error())
	}
	if e := t.resolveHeaders("headers", t.Headers); e != nil {
		return e
	}
	for name, tool := range t.Tools {
		if e := t.resolveHeaders(toml.Key{"tool", name, "headers"}.String(), tool.Headers); e != nil {
			return e
		}
	}
	t.addSecretsOfEnv()
	return nil
}

// secretName matches the names of variables and headers that have a secret.
var secretName = regexp.MustCompile(`(?i)token|key|secret|passw|credential|authorization|cookie`)

// addSecretsOfEnv adds the values of the variables in Env that are named like a
// secret.
func (t *Toolset) addSecretsOfEnv() {
	for _, name := range t.Env {
		if secretName.MatchString(name) {
			t.addSecret(os.Getenv(name))
		}
	}
}

func (t *Toolset) addSecret(value string) {
	if value != "" && !slices.Contains(t.Secrets, secret.Text(value)) {
		t.Secrets = append(t.Secrets, secret.Text(value))
	}
}

// resolveHeaders replaces ${VARIABLES} in the values of headers. The values of
// the variables are secrets. So is the last word of a header that is named like
// a secret.
func (t *Toolset) resolveHeaders(key string, headers map[string]string) *Error {
	for name, value := range headers {
		missing := ""
		headers[name] = variable.ReplaceAllStringFunc(value, func(v string) string {
			of, ok := os.LookupEnv(v[2 : len(v)-1])
			if !ok {
				missing = v[2 : len(v)-1]
			}
			t.addSecret(of)
			return of
		})
		if words := strings.Fields(headers[name]); len(words) > 0 && secretName.MatchString(name) {
			t.addSecret(words[len(words)-1])
		}
		if missing != "" {
			return invalid(key, fmt.Sprintf("%s: the variable %s is not set", name, missing))
		}
	}
	return nil
}

package configs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// mcpServers are the MCP servers of an agent: [[mcp_servers]], as axe 1.8 has
// them. Each is a toolset of that agent alone.
type mcpServers struct {
	all []Toolset
	// wrong is the error of the first wrong entry. The decoder has no place
	// for it.
	wrong string
}

func (*mcpServers) open() {}

// UnmarshalTOML reads a list of tables. The document decodes the whole list
// once for each [[mcp_servers]].
func (s *mcpServers) UnmarshalTOML(value any) error {
	*s = mcpServers{}
	tables, ok := tablesOf(value)
	if !ok {
		return errors.New("not a list of tables")
	}
	for i, table := range tables {
		server, wrong := mcpServer(table)
		if wrong != "" && s.wrong == "" {
			s.wrong = fmt.Sprintf("mcp_servers[%d]%s", i, wrong)
		}
		s.all = append(s.all, server)
	}
	return nil
}

// tablesOf returns a list of tables. The decoder has another type for a list
// that is written on one line.
func tablesOf(value any) (tables []map[string]any, ok bool) {
	if tables, ok = value.([]map[string]any); ok {
		return tables, true
	}
	list, ok := value.([]any)
	for _, v := range list {
		table, isTable := v.(map[string]any)
		ok = ok && isTable
		tables = append(tables, table)
	}
	return tables, ok
}

// mcpServer reads one entry. Wrong says what is wrong with it, "" if nothing
// is.
func mcpServer(table map[string]any) (t Toolset, wrong string) {
	t.Kind = ToolsetMCP
	var transport, command string
	var args []string
	var timeout int64
	into := map[string]any{
		"name": &t.Name, "transport": &transport, "url": &t.URL, "headers": (*stringTable)(&t.Headers),
		"command": &command, "args": &args, "env": &t.Env, "allow": &t.Allow, "prefix": &t.Prefix, "trust": &t.Trust,
		"required": &t.Required, "timeout": &timeout,
	}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		field, ok := into[key]
		if !ok {
			return t, ": " + unknownKey(slices.Sorted(maps.Keys(into)), key)
		}
		if !set(field, table[key]) {
			return t, fmt.Sprintf(".%s must be %s", key, typeName(field))
		}
	}
	if timeout < 0 || timeout > int64(maxSeconds) {
		return t, fmt.Sprintf(".timeout must be between 0 and %d", maxSeconds)
	}
	t.Timeout = time.Duration(timeout) * time.Second
	if command != "" {
		t.Command = append([]string{command}, args...)
	}
	return t, checkServer(t, transport, args)
}

// set stores a value in a field. It reports whether the value has the field's
// type.
func set(field, value any) (ok bool) {
	switch f := field.(type) {
	case *string:
		*f, ok = value.(string)
	case *bool:
		*f, ok = value.(bool)
	case *int64:
		*f, ok = value.(int64)
	case *[]string:
		*f, ok = stringsOf(value)
	case *stringTable:
		ok = f.UnmarshalTOML(value) == nil
	}
	return ok
}

func stringsOf(value any) (all []string, ok bool) {
	list, ok := value.([]any)
	for _, v := range list {
		text, isText := v.(string)
		ok = ok && isText
		all = append(all, text)
	}
	return all, ok
}

// checkServer says what is wrong with an entry, "" if nothing is.
func checkServer(t Toolset, transport string, args []string) string {
	switch {
	case t.Name == "":
		return ".name is required"
	case checkAgents("name", t.Name) != nil:
		return ".name: " + checkAgents("name", t.Name).Message
	case transport == "sse":
		return `.transport: "sse" is no longer part of the protocol: use streamable-http, with the server's own path`
	case !slices.Contains([]string{"", "streamable-http", "stdio"}, transport):
		return ".transport must be one of: streamable-http, stdio"
	case transport == "stdio" && len(t.Command) == 0, len(args) > 0 && len(t.Command) == 0:
		return ".command is required"
	case transport == "streamable-http" && t.URL == "":
		return ".url is required"
	}
	if err := t.check(); err != nil {
		return "." + strings.TrimPrefix(err.Key, ".") + ": " + err.Message
	}
	return ""
}

// checked returns the servers, or what is wrong with them.
func (s *mcpServers) checked() ([]Toolset, *Error) {
	if s.wrong != "" {
		return nil, invalid("mcp_servers", s.wrong)
	}
	names := map[string]bool{}
	for _, t := range s.all {
		if names[t.Name] {
			return nil, invalid("mcp_servers", fmt.Sprintf("two servers are named %q", t.Name))
		}
		names[t.Name] = true
	}
	return s.all, nil
}

// resolveServers replaces variables of the environment in the headers of an
// agent's servers. Programs run in the agent's directory.
func resolveServers(a *Agent) *Error {
	for i := range a.Servers {
		a.Servers[i].Workdir = a.Workdir
		a.Servers[i].File = a.File
		a.Servers[i].Digest = a.Digest
		if err := a.Servers[i].resolveHeaders("mcp_servers", a.Servers[i].Headers); err != nil {
			return err
		}
		a.Servers[i].addSecretsOfEnv()
	}
	return nil
}

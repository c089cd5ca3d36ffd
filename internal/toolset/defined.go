package toolset

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/axebus/axe/configs"
)

// placeholder matches {NAME} in a URL or a subject: the place of an argument.
var placeholder = regexp.MustCompile(`\{([a-zA-Z0-9_-]+)\}`)

// defined returns the tools that the file of a toolset defines, sorted by name.
func defined(def configs.Toolset) []Tool {
	tools := make([]Tool, 0, len(def.Tools))
	for _, name := range slices.Sorted(maps.Keys(def.Tools)) {
		t := def.Tools[name]
		schema := t.Parameters
		if len(schema) == 0 {
			schema = schemaOf(t.URL + t.Subject)
		}
		tools = append(tools, Tool{Name: name, Description: t.Description, Schema: schema})
	}
	return tools
}

// schemaOf returns the schema of a tool without parameters in its file: an
// object with a required string for each placeholder of a template.
func schemaOf(template string) json.RawMessage {
	properties := map[string]any{}
	for _, m := range placeholder.FindAllStringSubmatch(template, -1) {
		properties[m[1]] = map[string]any{"type": "string"}
	}
	schema := map[string]any{"type": "object", "properties": properties}
	if len(properties) > 0 {
		schema["required"] = slices.Sorted(maps.Keys(properties))
	}
	b, _ := json.Marshal(schema) // strings alone cannot fail
	return b
}

// fill replaces the placeholders of a template by arguments, each of them
// written by escape. It removes these arguments from args.
func fill(template string, args map[string]any, escape func(name, value string) (string, error)) (string, error) {
	var failed error
	used := map[string]bool{}
	filled := placeholder.ReplaceAllStringFunc(template, func(p string) string {
		name := p[1 : len(p)-1]
		used[name] = true
		text, err := scalar(name, args)
		if err == nil {
			text, err = escape(name, text)
		}
		if err != nil && failed == nil {
			failed = err
		}
		return text
	})
	for name := range used {
		delete(args, name)
	}
	return filled, failed
}

// scalar returns an argument as text. A list, an object or a missing argument
// is an error.
func scalar(name string, args map[string]any) (string, error) {
	switch v := args[name].(type) {
	case nil:
		return "", fmt.Errorf("%s is required", name)
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	}
	return "", fmt.Errorf("%s must be a string, a number, true or false", name)
}

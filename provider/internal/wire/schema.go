package wire

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/axebus/axe/provider"
)

// Schema is the JSON Schema of a tool's parameters. A tool has the same bytes
// in every turn, because prompt caches need that: the encoder sorts properties,
// SchemaOf sorts Required, and Whole is passed on as the tool gives it.
type Schema struct {
	Type       string              `json:"type"`
	Properties map[string]Property `json:"properties"`
	Required   []string            `json:"required,omitempty"`
	// Whole replaces the other fields if it is set.
	Whole json.RawMessage `json:"-"`
}

// MarshalJSON encodes Whole, or the other fields.
func (s Schema) MarshalJSON() ([]byte, error) {
	if len(s.Whole) > 0 {
		return s.Whole, nil
	}
	type plain Schema
	return json.Marshal(plain(s))
}

// Property is one property of a Schema.
type Property struct {
	Type        string `json:"type"`
	Description string `json:"description"`
	// More is an object of further keywords.
	More json.RawMessage `json:"-"`
}

// MarshalJSON puts all keywords into one object.
func (p Property) MarshalJSON() ([]byte, error) {
	type plain Property
	b, err := json.Marshal(plain(p))
	if err != nil || len(p.More) == 0 {
		return b, err
	}
	var more bytes.Buffer
	if err := json.Compact(&more, p.More); err != nil {
		return nil, fmt.Errorf("schema of a parameter: %w", err)
	}
	inner := more.Bytes()
	if len(inner) <= 2 || inner[0] != '{' {
		return b, nil
	}
	return append(append(b[:len(b)-1], ','), inner[1:]...), nil
}

// Function is a tool definition in OpenAI's format, which Ollama shares.
type Function struct {
	Type     string     `json:"type"`
	Function Definition `json:"function"`
}

// Definition describes the tool of a Function.
type Definition struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Parameters  Schema `json:"parameters"`
}

// SchemaOf returns the schema of a tool's parameters.
func SchemaOf(t provider.Tool) Schema {
	if len(t.Schema) > 0 {
		return Schema{Whole: t.Schema}
	}
	properties := make(map[string]Property, len(t.Parameters))
	for name, p := range t.Parameters {
		properties[name] = Property{Type: p.Type, Description: p.Description, More: p.Schema}
	}
	return Schema{Type: "object", Properties: properties, Required: t.Required()}
}

// Functions returns the definitions of tools in OpenAI's format, and nil for no
// tools.
func Functions(tools []provider.Tool) []Function {
	var functions []Function
	for _, t := range tools {
		d := Definition{Name: t.Name, Description: t.Description, Parameters: SchemaOf(t)}
		functions = append(functions, Function{Type: "function", Function: d})
	}
	return functions
}

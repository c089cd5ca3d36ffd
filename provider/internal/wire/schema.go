package wire

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/axebus/axe/provider"
)

// Schema is a JSON Schema object as all providers take it. Encoding sorts
// properties, Required is sorted: the same tool is the same bytes in every
// turn, which prompt caches depend on.
type Schema struct {
	Type       string              `json:"type"`
	Properties map[string]Property `json:"properties"`
	Required   []string            `json:"required,omitempty"`
}

// Property is one property of a Schema.
type Property struct {
	Type        string          `json:"type"`
	Description string          `json:"description"`
	More        json.RawMessage `json:"-"` // an object of further keywords
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

// Function is a tool definition in OpenAI's manner, which Ollama shares.
type Function struct {
	Type     string     `json:"type"`
	Function Definition `json:"function"`
}

// Definition is what a Function offers.
type Definition struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Parameters  Schema `json:"parameters"`
}

// SchemaOf describes a tool's parameters.
func SchemaOf(t provider.Tool) Schema {
	properties := make(map[string]Property, len(t.Parameters))
	for name, p := range t.Parameters {
		properties[name] = Property{Type: p.Type, Description: p.Description, More: p.Schema}
	}
	return Schema{Type: "object", Properties: properties, Required: t.Required()}
}

// Functions defines tools in OpenAI's manner; no tools are nil.
func Functions(tools []provider.Tool) []Function {
	var functions []Function
	for _, t := range tools {
		d := Definition{Name: t.Name, Description: t.Description, Parameters: SchemaOf(t)}
		functions = append(functions, Function{Type: "function", Function: d})
	}
	return functions
}

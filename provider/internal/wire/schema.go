package wire

import "github.com/axebus/axe/provider"

// Schema is a JSON Schema object as all providers take it. Encoding sorts properties, Required is
// sorted: the same tool is the same bytes in every turn, which prompt caches depend on.
type Schema struct {
	Type       string              `json:"type"`
	Properties map[string]Property `json:"properties"`
	Required   []string            `json:"required,omitempty"`
}

// Property is one property of a Schema.
type Property struct {
	Type        string `json:"type"`
	Description string `json:"description"`
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
		properties[name] = Property{Type: p.Type, Description: p.Description}
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

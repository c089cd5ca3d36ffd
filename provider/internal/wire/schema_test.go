package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/internal/wire"
)

// TestSchemaOfAnArray: further keywords of a parameter are beside its type in
// the schema. A tool has the same bytes each time. Keywords that are not JSON
// are an error.
func TestSchemaOfAnArray(t *testing.T) {
	tool := provider.Tool{Name: "t", Parameters: map[string]provider.ToolParameter{
		"tasks": {
			Type:        "array",
			Description: "All of them",
			Required:    true,
			Schema:      []byte(`{ "items": {"type": "object"}, "minItems": 1 }`),
		},
		"plain": {Type: "string", Description: "One"},
		"empty": {Type: "string", Description: "Nothing more", Schema: []byte(`{}`)},
	}}
	want := `{"type":"object","properties":{"empty":{"type":"string","description":"Nothing more"},` +
		`"plain":{"type":"string","description":"One"},"tasks":{"type":"array","description":"All of them",` +
		`"items":{"type":"object"},"minItems":1}},"required":["tasks"]}`
	for range 20 {
		got, err := json.Marshal(wire.SchemaOf(tool))
		if err != nil || string(got) != want {
			t.Fatalf("schema, error %v:\n got %s\nwant %s", err, got, want)
		}
	}
	tool.Parameters["broken"] = provider.ToolParameter{Type: "array", Schema: []byte(`{`)}
	if _, err := json.Marshal(wire.SchemaOf(tool)); err == nil {
		t.Error("no error for keywords that are not JSON")
	}
}

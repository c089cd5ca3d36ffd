package provider

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// NewToolCall makes a ToolCall from the arguments as a model wrote them.
// Arguments that are no JSON object give a call without arguments; whoever
// executes it reports what is missing. An argument that is null was not given:
// models write it for the optional ones.
func NewToolCall(id, name string, raw []byte) ToolCall {
	c := ToolCall{ID: id, Name: name, Arguments: map[string]string{}}
	// Invalid UTF-8 would not survive being stored as a string. ToValidUTF8
	// also copies.
	raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		return c
	}
	c.Raw = raw
	for k, v := range fields {
		if string(v) != "null" {
			c.Arguments[k] = argument(v)
		}
	}
	return c
}

// RawArguments is the arguments object to echo back to a model: never empty,
// "{}" at the least.
func (c ToolCall) RawArguments() json.RawMessage {
	if len(c.Raw) > 0 {
		return c.Raw
	}
	if len(c.Arguments) == 0 {
		return json.RawMessage("{}")
	}
	raw, err := json.Marshal(c.Arguments)
	if err != nil { // a map of strings always marshals
		return json.RawMessage("{}")
	}
	return raw
}

// stored is a ToolCall at rest. Arguments are a string, as OpenAI writes them:
// a JSON object inside JSON would be compacted and escaped on the way, and
// history is echoed byte for byte.
type stored struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// UnmarshalJSON restores Arguments from the stored text.
func (c *ToolCall) UnmarshalJSON(b []byte) error {
	var w stored
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*c = NewToolCall(w.ID, w.Name, []byte(w.Arguments))
	return nil
}

// MarshalJSON stores the arguments as the model wrote them.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	return json.Marshal(stored{c.ID, c.Name, string(c.RawArguments())})
}

// Required lists a tool's required parameters, sorted: definitions stay the
// same byte for byte from turn to turn, which prompt caches depend on.
func (t Tool) Required() []string {
	names := slices.Sorted(maps.Keys(t.Parameters))
	return slices.DeleteFunc(names, func(n string) bool { return !t.Parameters[n].Required })
}

// argument is a JSON value as a string: a string's own text, anything else its
// JSON text.
func argument(v json.RawMessage) string {
	var s string
	if len(v) > 0 && v[0] == '"' && json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

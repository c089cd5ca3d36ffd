package provider

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// NewToolCall makes a ToolCall from the arguments as a model wrote them. If
// they are not a JSON object, the call has no arguments, and the tool reports
// the missing ones. Null stands for a missing argument: models write it for
// optional arguments.
func NewToolCall(id, name string, raw []byte) ToolCall {
	c := ToolCall{ID: id, Name: name, Arguments: map[string]string{}}
	// A JSON string cannot store invalid UTF-8. ToValidUTF8 also copies.
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

// RawArguments returns the arguments object to send back to a model. It is "{}"
// for a call without arguments.
func (c ToolCall) RawArguments() json.RawMessage {
	if len(c.Raw) > 0 {
		return c.Raw
	}
	raw, err := json.Marshal(c.Arguments)
	if err != nil || len(c.Arguments) == 0 { // a map of strings always marshals
		return json.RawMessage("{}")
	}
	return raw
}

// storedCall is the stored form of a ToolCall. Arguments are a string, as
// OpenAI writes them. As a nested JSON object they would be compacted and
// escaped, and later requests have to repeat them byte for byte.
type storedCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// UnmarshalJSON restores Arguments from the stored text.
func (c *ToolCall) UnmarshalJSON(b []byte) error {
	var w storedCall
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*c = NewToolCall(w.ID, w.Name, []byte(w.Arguments))
	return nil
}

// MarshalJSON stores the arguments as the model wrote them, as a string. A call
// without arguments has the string {}.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	return json.Marshal(storedCall{c.ID, c.Name, string(c.RawArguments())})
}

// Required returns a tool's required parameters, sorted. Prompt caches need
// definitions that are the same bytes in every turn.
func (t Tool) Required() []string {
	names := slices.Sorted(maps.Keys(t.Parameters))
	return slices.DeleteFunc(names, func(n string) bool { return !t.Parameters[n].Required })
}

// argument returns a JSON value as a string: a JSON string's own text, or the
// JSON text of another value.
func argument(v json.RawMessage) string {
	var s string
	if len(v) > 0 && v[0] == '"' && json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

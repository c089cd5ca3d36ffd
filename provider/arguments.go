package provider

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// NewToolCall makes a ToolCall from the arguments as a model wrote them. Arguments that are no JSON
// object give a call without arguments; whoever executes it reports what is missing.
func NewToolCall(id, name string, raw []byte) ToolCall {
	c := ToolCall{ID: id, Name: name, Arguments: map[string]string{}}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		return c
	}
	c.Raw = compact(raw)
	for k, v := range fields {
		c.Arguments[k] = argument(v)
	}
	return c
}

// RawArguments is the arguments object to echo back to a model: never empty, "{}" at the least.
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

// UnmarshalJSON restores Arguments from the stored raw object.
func (c *ToolCall) UnmarshalJSON(b []byte) error {
	var w struct {
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*c = NewToolCall(w.ID, w.Name, w.Arguments)
	return nil
}

// MarshalJSON stores the raw object, so that nothing a model wrote is lost.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}{c.ID, c.Name, c.RawArguments()})
}

// Required lists a tool's required parameters, sorted: definitions stay the same byte for byte from
// turn to turn, which prompt caches depend on.
func (t Tool) Required() []string {
	names := slices.Sorted(maps.Keys(t.Parameters))
	return slices.DeleteFunc(names, func(n string) bool { return !t.Parameters[n].Required })
}

// argument is a JSON value as a string: a string's own text, anything else its JSON text.
func argument(v json.RawMessage) string {
	var s string
	if len(v) > 0 && v[0] == '"' && json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

// compact drops insignificant space: encoding/json does the same when a RawMessage is marshalled, so
// a call looks the same before and after it was stored.
func compact(raw []byte) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return nil
	}
	return b.Bytes()
}

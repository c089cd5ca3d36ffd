package toolset

import (
	"bytes"
	"encoding/json"
	"errors"
)

// object decodes a JSON object. It returns false for any other text.
func object(b json.RawMessage) (map[string]any, bool) {
	var value map[string]any
	return value, json.Unmarshal(b, &value) == nil && value != nil
}

// arguments decodes the arguments of a call. Numbers keep all of their digits.
func (c Call) arguments() (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(c.Arguments))
	d.UseNumber()
	var args map[string]any
	if err := d.Decode(&args); err != nil || args == nil {
		return nil, errors.New("the arguments must be a JSON object")
	}
	return args, nil
}

package toolset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Check returns what is wrong with the arguments of a call, nil if they fit the
// tool's schema. A schema that refers to other documents, or that this process
// cannot read, fits all arguments: the server of the tool checks them then.
func (t Tool) Check(arguments json.RawMessage) error {
	resolved := t.resolved()
	if resolved == nil {
		return nil
	}
	var value map[string]any
	if err := json.Unmarshal(arguments, &value); err != nil || value == nil {
		return errors.New("the arguments must be a JSON object")
	}
	if err := resolved.Validate(value); err != nil {
		return fmt.Errorf(
			"the arguments do not fit the tool's schema: %s",
			strings.TrimPrefix(err.Error(), "validating root: "),
		)
	}
	return nil
}

// resolved returns the tool's schema, nil if it cannot be read.
func (t Tool) resolved() *jsonschema.Resolved {
	var schema jsonschema.Schema
	if json.Unmarshal(t.Schema, &schema) != nil {
		return nil
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return nil
	}
	return resolved
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

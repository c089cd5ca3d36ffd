package toolset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is the JSON Schema of a tool's arguments, read once for all calls. A
// schema that refers to other documents, or that this process cannot read, fits
// all arguments: the server of the tool checks them then.
type Schema struct{ resolved *jsonschema.Resolved }

// ReadSchema reads a schema.
func ReadSchema(b json.RawMessage) Schema { return Schema{resolve(b)} }

// Check returns what is wrong with the arguments of a call, nil if they fit.
func (s Schema) Check(arguments json.RawMessage) error {
	if s.resolved == nil {
		return nil
	}
	value, ok := object(arguments)
	if !ok {
		return errors.New("the arguments must be a JSON object")
	}
	if err := validate(s.resolved, value); err != nil {
		return fmt.Errorf("the arguments do not fit the tool's schema: %w", err)
	}
	return nil
}

// object decodes a JSON object. It returns false for any other text.
func object(b json.RawMessage) (map[string]any, bool) {
	var value map[string]any
	return value, json.Unmarshal(b, &value) == nil && value != nil
}

func validate(schema *jsonschema.Resolved, value map[string]any) error {
	if err := schema.Validate(value); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "validating root: "))
	}
	return nil
}

// readSchema decodes a schema. It returns nil for a text that is none.
func readSchema(b json.RawMessage) *jsonschema.Schema {
	var schema jsonschema.Schema
	if json.Unmarshal(b, &schema) != nil {
		return nil
	}
	return &schema
}

// resolve returns a schema, nil if it cannot be read.
func resolve(b json.RawMessage) *jsonschema.Resolved {
	schema := readSchema(b)
	if schema == nil {
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

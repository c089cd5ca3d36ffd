package toolset

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/axebus/axe/agentd/run"
)

// CheckAnswer returns an error if a person's answer does not fit the schema of
// a question. As for Tool.Check, every object fits a schema that this process
// cannot read.
func CheckAnswer(q run.Question, answer json.RawMessage) error {
	value, ok := object(answer)
	if !ok {
		return errors.New("the answer must be a JSON object")
	}
	if err := ReadSchema(q.Schema).validate(value); err != nil {
		return fmt.Errorf("the answer does not fit the question: %w", err)
	}
	return nil
}

// Field is a field of the answer to a question, a JSON object.
type Field struct {
	Name string
	// Type is a type of JSON Schema, for example "string".
	Type     string
	Required bool
	// Choices are the values that the field may have. If there are none, it
	// may have any.
	Choices     []string
	Description string
}

// FieldsOf returns the fields of the answer to a question, sorted by name. It
// returns none for a question without a schema, or with one that it cannot
// read.
func FieldsOf(q run.Question) []Field {
	schema := ReadSchema(q.Schema).root
	if schema == nil {
		return nil
	}
	var all []Field
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		p := schema.Properties[name]
		f := Field{
			Name: name, Type: cmp.Or(p.Type, "string"), Required: slices.Contains(schema.Required, name),
			Description: cmp.Or(p.Description, p.Title),
		}
		for _, e := range p.Enum {
			f.Choices = append(f.Choices, fmt.Sprint(e))
		}
		all = append(all, f)
	}
	return all
}

// ParseFields returns the JSON object of fields like NAME=VALUE. The question's
// schema says which of them are numbers, truth values or lists with commas. Any
// other field is a string.
func ParseFields(q run.Question, fields []string) (json.RawMessage, error) {
	schema := cmp.Or(ReadSchema(q.Schema).root, &jsonschema.Schema{})
	values := map[string]any{}
	for _, f := range fields {
		name, value, ok := strings.Cut(f, "=")
		if !ok {
			return nil, fmt.Errorf("%q must be a field like NAME=VALUE", f)
		}
		typ := ""
		if p := schema.Properties[name]; p != nil {
			typ = p.Type
		}
		v, err := parseField(typ, value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		values[name] = v
	}
	return json.Marshal(values)
}

// parseField returns the value of a field. Typ is a type of JSON Schema.
func parseField(typ, value string) (any, error) {
	switch typ {
	case "boolean":
		b, err := strconv.ParseBool(value)
		if err != nil {
			return nil, fmt.Errorf("must be true or false, got %q", value)
		}
		return b, nil
	case "integer", "number":
		if _, err := strconv.ParseFloat(value, 64); err != nil || !json.Valid([]byte(value)) {
			return nil, fmt.Errorf("must be a number, got %q", value)
		}
		return json.Number(value), nil
	case "array":
		return strings.Split(value, ","), nil
	}
	return value, nil
}

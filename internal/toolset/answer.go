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
	// Type is a type of JSON Schema, for example "string", or several like
	// "integer or string".
	Type     string
	Required bool
	// Choices are the values that the field may have, those of its elements
	// if it is a list. If there are none, it may have any.
	Choices     []string
	Description string
}

// FieldsOf returns the fields of the answer to a question, sorted by name. It
// returns none for a question without a schema, or with one that it cannot
// read.
func FieldsOf(q run.Question) []Field {
	s := ReadSchema(q.Schema)
	object := s.plain(s.root)
	var all []Field
	for _, name := range slices.Sorted(maps.Keys(object.Properties)) {
		p := s.plain(object.Properties[name])
		f := Field{
			Name: name, Type: cmp.Or(strings.Join(types(p), " or "), "string"),
			Required:    slices.Contains(object.Required, name),
			Description: description(object.Properties[name], p),
		}
		if f.Type == "array" {
			p = s.plain(p.Items)
		}
		for _, c := range choices(p) {
			f.Choices = append(f.Choices, choiceText(c))
		}
		all = append(all, f)
	}
	return all
}

// ParseFields returns the JSON object of fields like NAME=VALUE. The question's
// schema says which of them are numbers, truth values, objects as JSON, or lists
// with commas or as JSON. Any other field is a string.
func ParseFields(q run.Question, fields []string) (json.RawMessage, error) {
	s := ReadSchema(q.Schema)
	object := s.plain(s.root)
	values := map[string]any{}
	for _, f := range fields {
		name, text, ok := strings.Cut(f, "=")
		if !ok {
			return nil, fmt.Errorf("%q must be a field like NAME=VALUE", f)
		}
		v, err := s.parse(object.Properties[name], text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		values[name] = v
	}
	return json.Marshal(values)
}

// plain returns the schema that says how a value is written. For a schema that
// says nothing else, that is the one to which it refers, or its only
// alternative to null. For nil, plain returns the schema that all values fit.
func (s Schema) plain(p *jsonschema.Schema) *jsonschema.Schema {
	p = cmp.Or(p, &jsonschema.Schema{})
	for range 8 { // it may lead back to itself
		next := slices.Concat(s.refs[p], p.AllOf, p.AnyOf, p.OneOf)
		next = slices.DeleteFunc(next, func(a *jsonschema.Schema) bool { return a == nil || a.Type == null })
		if len(next) != 1 || len(types(p))+len(choices(p))+len(p.Properties) > 0 {
			break
		}
		p = next[0]
	}
	return p
}

// null is the type of the value null.
const null = "null"

// types returns the types that a schema names, without null.
func types(p *jsonschema.Schema) []string {
	all := p.Types
	if p.Type != "" {
		all = []string{p.Type}
	}
	return slices.DeleteFunc(slices.Clone(all), func(typ string) bool { return typ == null })
}

// choices returns the values that a schema allows, none if it allows others.
func choices(p *jsonschema.Schema) []any {
	if p.Const != nil {
		return []any{*p.Const}
	}
	if len(p.Enum) > 0 {
		return p.Enum
	}
	var all []any
	for _, alternative := range slices.Concat(p.OneOf, p.AnyOf) {
		if alternative == nil || alternative.Const == nil {
			return nil
		}
		all = append(all, *alternative.Const)
	}
	return all
}

// choiceText returns a choice as a person reads and writes it.
func choiceText(choice any) string {
	if text, ok := choice.(string); ok {
		return text
	}
	text, _ := json.Marshal(choice) // it was decoded from JSON
	return string(text)
}

// description returns the first word about a field that its schemas have.
func description(all ...*jsonschema.Schema) string {
	for _, p := range all {
		if p != nil && p.Description+p.Title != "" {
			return cmp.Or(p.Description, p.Title)
		}
	}
	return ""
}

// parse returns the value of a field: the first type that fits it decides.
// Without a type it is the choice with that text, or a string.
func (s Schema) parse(p *jsonschema.Schema, text string) (v any, err error) {
	p = s.plain(p)
	for _, typ := range types(p) {
		if typ == "array" {
			v, err = s.parseList(p.Items, text)
		} else {
			v, err = parseField(typ, text)
		}
		if err == nil {
			return v, nil
		}
	}
	if err != nil {
		return nil, err
	}
	for _, c := range choices(p) {
		if choiceText(c) == text {
			return c, nil
		}
	}
	return text, nil
}

// parseList returns the value of a list: JSON, or elements with commas. The
// elements may have spaces around them.
func (s Schema) parseList(items *jsonschema.Schema, text string) (any, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "[") && json.Valid([]byte(text)) {
		return json.RawMessage(text), nil
	}
	list := []any{}
	if text == "" {
		return list, nil
	}
	if slices.Contains(types(s.plain(items)), "array") {
		return nil, fmt.Errorf("a list of lists must be JSON like [[1,2],[3]], got %q", text)
	}
	for element := range strings.SplitSeq(text, ",") {
		v, err := s.parse(items, strings.TrimSpace(element))
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// parseField returns the value of a field that is no list. Typ is a type of
// JSON Schema.
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
	case "object":
		if _, ok := object(json.RawMessage(value)); !ok {
			return nil, fmt.Errorf("must be a JSON object, got %q", value)
		}
		return json.RawMessage(value), nil
	}
	return value, nil
}

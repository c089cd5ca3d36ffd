package configs

import (
	"errors"
	"slices"

	"github.com/BurntSushi/toml"
)

// document is a parsed TOML file that still knows the line of every key.
type document struct {
	file string
	meta toml.MetaData
	root map[string]toml.Primitive
}

func newDocument(file, text string) (d *document, err error) {
	d = &document{file: file}
	d.meta, err = toml.Decode(text, &d.root)
	if e, ok := errors.AsType[toml.ParseError](err); ok {
		return nil, &Error{File: file, Line: e.Position.Line, Message: e.Message, cause: ErrSyntax}
	} else if err != nil {
		return nil, &Error{File: file, Message: err.Error()}
	}
	return d, nil
}

// decode fills the fields with the document's values. It refuses every key that
// is not a field.
func (d *document) decode(fields map[string]any) *Error {
	for _, key := range d.meta.Keys() {
		name := key.String()
		value, _ := d.find(key)
		into, ok := fields[name]
		switch {
		case ok && d.meta.PrimitiveDecode(value, into) != nil:
			return d.locate(invalid(name, "must be "+typeName(into)))
		case !ok && !slices.Contains(names(fields), name):
			return d.locate(invalid(name, unknownKey(fields, key)))
		case !ok && d.table(value) == nil:
			return d.locate(invalid(name, "must be a table"))
		}
	}
	return nil
}

// table returns the entries of a table, and nil for any other value. The
// decoder itself would decode any value into an empty map.
func (d *document) table(value toml.Primitive) map[string]toml.Primitive {
	var inner map[string]toml.Primitive
	if d.meta.PrimitiveDecode(value, &inner) != nil {
		return nil
	}
	return inner
}

// find returns the value at a key, and whether the document has the key.
func (d *document) find(key toml.Key) (toml.Primitive, bool) {
	table := d.root
	for _, k := range key[:len(key)-1] {
		table = d.table(table[k])
	}
	value, ok := table[key[len(key)-1]]
	return value, ok
}

// locate adds the file, and the line of the key, to an error.
func (d *document) locate(e *Error) *Error {
	e.File = d.file
	for _, key := range d.meta.Keys() {
		if key.String() != e.Key {
			continue
		}
		value, ok := d.find(key)
		if !ok {
			continue
		}
		if pe, ok := errors.AsType[toml.ParseError](d.meta.PrimitiveDecode(value, &positionProbe{})); ok {
			e.Line = pe.Position.Line
		}
	}
	return e
}

// positionProbe is a value that fails to decode. The decoder's error then has
// the key's position, which the decoder does not expose otherwise.
type positionProbe struct{}

// UnmarshalTOML always fails.
func (*positionProbe) UnmarshalTOML(any) error { return errors.New("marked") }

// typeName describes the type of the values of a field.
func typeName(into any) string {
	switch into.(type) {
	case *string:
		return "a string"
	case *[]string:
		return "a list of strings"
	case *Styles:
		return "a string or a list of strings"
	case *int:
		return "an integer"
	case *bool:
		return "true or false"
	case **float64:
		return "a number"
	case *duration:
		return `a duration such as "500ms", or a number of seconds`
	default:
		return "another type"
	}
}

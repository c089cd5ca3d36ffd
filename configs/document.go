package configs

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/axebus/axe/internal/text"
)

// document is a parsed TOML file that still knows the line of every key.
type document struct {
	file string
	meta toml.MetaData
	root map[string]toml.Primitive
}

func newDocument(file, source string) (d *document, err error) {
	d = &document{file: file}
	d.meta, err = toml.Decode(source, &d.root)
	if e, ok := errors.AsType[toml.ParseError](err); ok {
		// The line in e is one too few for an escape that the end of the
		// file cuts.
		line := text.Line(source, e.Position.Start)
		return nil, &Error{File: file, Line: line, Message: e.Message, cause: ErrSyntax}
	} else if err != nil {
		return nil, &Error{File: file, Message: err.Error()}
	}
	return d, nil
}

// decode fills the fields with the document's values. It refuses every key that
// is not a field, and suggests one of the first fields before one of more.
func (d *document) decode(first map[string]any, more ...map[string]any) *Error {
	fields, known := maps.Clone(first), names(first)
	for _, m := range more {
		maps.Copy(fields, m)
		known = append(known, names(m)...)
	}
	for _, key := range d.meta.Keys() {
		if belowOpen(fields, key) {
			continue
		}
		name := key.String()
		value, _ := d.find(key)
		into, ok := fields[name]
		switch {
		case ok && d.meta.PrimitiveDecode(value, into) != nil:
			return d.locate(invalid(name, "must be "+typeName(into)))
		case !ok && !slices.Contains(known, name):
			return d.locate(invalid(name, unknownKey(known, name)))
		case !ok && d.table(value) == nil:
			return d.locate(invalid(name, "must be a table"))
		}
	}
	return nil
}

// belowOpen reports whether a key is below an open field.
func belowOpen(fields map[string]any, key toml.Key) bool {
	for i := 1; i < len(key); i++ {
		if _, ok := fields[key[:i].String()].(open); ok {
			return true
		}
	}
	return false
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

// has reports whether the document has a key.
func (d *document) has(key string) bool { return d.meta.IsDefined(strings.Split(key, ".")...) }

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
	case *responseFormat:
		return "a string or a table"
	case *mcpServers:
		return "a list of tables"
	case *int, *int64:
		return "an integer"
	case *stringTable:
		return "a table of strings"
	case *schema:
		return "a table"
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

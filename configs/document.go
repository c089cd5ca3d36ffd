package configs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// document is a parsed TOML file that still knows the line of every key.
type document struct {
	file string
	meta toml.MetaData
	root map[string]toml.Primitive
}

func newDocument(file, text string) (*document, error) {
	d := &document{file: file}
	meta, err := toml.Decode(text, &d.root)
	if e, ok := errors.AsType[toml.ParseError](err); ok {
		return nil, &Error{File: file, Line: e.Position.Line, Message: e.Message}
	} else if err != nil {
		return nil, &Error{File: file, Message: err.Error()}
	}
	d.meta = meta
	return d, nil
}

// decode fills the fields with the document's values and refuses every key that is not among them.
func (d *document) decode(fields map[string]any) *Error {
	for _, key := range d.meta.Keys() {
		name := key.String()
		value, _ := d.find(key)
		into, ok := fields[name]
		switch {
		case ok && d.meta.PrimitiveDecode(value, into) != nil:
			return d.place(invalid(name, "want "+kind(into)))
		case !ok && !isTable(fields, name):
			return d.place(invalid(name, unknown(fields, key)))
		case !ok && d.table(value) == nil:
			return d.place(invalid(name, "want a table"))
		}
	}
	return nil
}

// table returns what is in a table, nil for what is none: the decoder takes anything for an empty map.
func (d *document) table(value toml.Primitive) map[string]toml.Primitive {
	var inner map[string]toml.Primitive
	if d.meta.PrimitiveDecode(value, &inner) != nil {
		return nil
	}
	return inner
}

// find returns the value at a key that the document may not have.
func (d *document) find(key toml.Key) (toml.Primitive, bool) {
	table := d.root
	for _, k := range key[:len(key)-1] {
		table = d.table(table[k])
	}
	value, ok := table[key[len(key)-1]]
	return value, ok
}

// place adds to an error the file and the line of its key.
func (d *document) place(e *Error) *Error {
	e.File = d.file
	for _, key := range d.meta.Keys() {
		if key.String() != e.Key {
			continue
		}
		value, ok := d.find(key)
		if !ok {
			continue
		}
		if pe, ok := errors.AsType[toml.ParseError](d.meta.PrimitiveDecode(value, &marker{})); ok {
			e.Line = pe.Position.Line
		}
	}
	return e
}

// marker is a value that refuses to be decoded: the decoder's error then tells the key's position,
// which the decoder gives in no other way.
type marker struct{}

// UnmarshalTOML always fails.
func (*marker) UnmarshalTOML(any) error { return errors.New("marked") }

// kind describes the values that a field takes.
func kind(into any) string {
	switch into.(type) {
	case *string:
		return "a string"
	case *[]string:
		return "a list of strings"
	case *int:
		return "an integer"
	case *bool:
		return "true or false"
	case **float64:
		return "a number"
	default:
		return "another type"
	}
}

func isTable(fields map[string]any, name string) bool {
	for f := range fields {
		if strings.HasPrefix(f, name+".") {
			return true
		}
	}
	return false
}

// unknown is the message for a key that is no field, with the field or table that was probably meant.
func unknown(fields map[string]any, key toml.Key) string {
	if near := nearest(names(fields), key.String()); near != "" {
		return fmt.Sprintf("unknown key; did you mean %q?", near)
	}
	return "unknown key"
}

// names lists the fields and the tables they are in.
func names(fields map[string]any) []string {
	var all []string
	for f := range fields {
		all = append(all, f)
		if table, _, ok := strings.Cut(f, "."); ok {
			all = append(all, table)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// nearest is the name that differs least from key, or has the same last part; empty if none is near.
func nearest(names []string, key string) string {
	best, least := "", max(2, len(key)/3)+1
	for _, name := range names {
		d := distance(key, name)
		if leaf(key) == leaf(name) {
			d = min(d, 1)
		} else if leaf(key) != key || leaf(name) != name {
			d = min(d, 1+distance(leaf(key), leaf(name)))
		}
		if d < least {
			best, least = name, d
		}
	}
	return best
}

func leaf(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// distance is the number of bytes to insert, delete or replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

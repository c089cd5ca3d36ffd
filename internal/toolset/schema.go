package toolset

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is the JSON Schema of a tool's arguments, read once for all calls. A
// schema that refers to other documents, or that this process cannot read, fits
// all arguments: the server of the tool checks them then. So does a schema with
// a check that is not bounded (meter), for example because it refers to itself.
type Schema struct {
	// root is nil if the text is no schema.
	root *jsonschema.Schema
	// resolved is nil if this process cannot read the schema.
	resolved *jsonschema.Resolved
	refs     references
}

// references are the schemas that the references of a schema lead to.
type references map[*jsonschema.Schema][]*jsonschema.Schema

// ReadSchema reads a schema.
func ReadSchema(b json.RawMessage) Schema {
	var root jsonschema.Schema
	if json.Unmarshal(b, &root) != nil {
		return Schema{}
	}
	refs, known := referencesOf(&root)
	s := Schema{root: &root, refs: refs}
	if resolved, err := root.Resolve(nil); err == nil && known {
		s.resolved = resolved
	}
	return s
}

// Check returns what is wrong with the arguments of a call, nil if they fit.
func (s Schema) Check(arguments json.RawMessage) error {
	if s.resolved == nil {
		return nil
	}
	value, ok := object(arguments)
	if !ok {
		return errors.New("the arguments must be a JSON object")
	}
	if err := s.validate(value); err != nil {
		return fmt.Errorf("the arguments do not fit the tool's schema: %w", err)
	}
	return nil
}

func (s Schema) validate(value map[string]any) error {
	if s.resolved == nil || !bounded(s, value) {
		return nil
	}
	if err := s.resolved.Validate(value); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "validating root: "))
	}
	return nil
}

// referencesOf returns the references of a schema and of those in it. It
// returns false if it does not know where one leads to: to another document, or
// within a schema that has more than one $id.
func referencesOf(root *jsonschema.Schema) (refs references, known bool) {
	base, err := url.Parse(root.ID)
	if err != nil {
		return nil, false
	}
	base.Fragment = ""
	all := parts{}
	all.add(root)
	anchors := map[string]*jsonschema.Schema{}
	ids := false
	for s := range all {
		anchors[s.Anchor], anchors[s.DynamicAnchor] = s, s
		ids = ids || s != root && s.ID != ""
	}
	refs, known = references{}, true
	for s := range all {
		for _, ref := range []string{s.Ref, s.DynamicRef} {
			if ref == "" {
				continue
			}
			to, err := base.Parse(ref)
			if err != nil {
				return refs, false
			}
			place := to.Fragment
			to.Fragment = ""
			target := anchors[place]
			if place == "" || place[0] == '/' {
				target = all.at(root, place)
			}
			if target == nil || ids || to.String() != base.String() {
				known = false
				continue
			}
			refs[s] = append(refs[s], target)
		}
	}
	return refs, known
}

// parts are the schemas that a schema holds, by their JSON pointers in it:
// "not", "allOf/0", "properties/id".
type parts map[*jsonschema.Schema]map[string]*jsonschema.Schema

// add adds a schema, and all schemas in it.
func (p parts) add(s *jsonschema.Schema) {
	held := map[string]*jsonschema.Schema{}
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		keyword, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		switch name := v.Type().Field(i).Name; name {
		case "Items", "ItemsArray":
			keyword = "items"
		case "DependencySchemas":
			keyword = "dependencies"
		}
		switch x := v.Field(i).Interface().(type) {
		case *jsonschema.Schema:
			held[keyword] = x
		case []*jsonschema.Schema:
			for i, s := range x {
				held[keyword+"/"+strconv.Itoa(i)] = s
			}
		case map[string]*jsonschema.Schema:
			for key, s := range x {
				held[keyword+"/"+key] = s
			}
		}
	}
	maps.DeleteFunc(held, func(_ string, s *jsonschema.Schema) bool { return s == nil })
	p[s] = held
	for _, s := range held {
		p.add(s)
	}
}

// at returns the schema at a JSON pointer, nil if there is none.
func (p parts) at(s *jsonschema.Schema, pointer string) *jsonschema.Schema {
	names := strings.Split(pointer, "/")[1:]
	for len(names) > 0 && s != nil {
		holder := s
		s = p[holder][names[0]]
		if s == nil && len(names) > 1 {
			s = p[holder][names[0]+"/"+unescape.Replace(names[1])]
			names = names[1:]
		}
		names = names[1:]
	}
	return s
}

// unescape replaces the escapes in a name of a JSON pointer.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

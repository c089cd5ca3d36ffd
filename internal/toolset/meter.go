package toolset

import (
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

const (
	// maxSteps bounds the steps of a check. A step takes about 1 µs.
	maxSteps = 1 << 18
	// maxDepth bounds the depth of a check, in schemas that are applied by
	// one another. The check is recursive, and a goroutine that needs too
	// large a stack ends the process.
	maxDepth = 1000
)

// meter counts the steps of a check before it is made. It takes the same ways
// as the check, or more: it goes on where a value does not fit.
type meter struct {
	refs references
	left int
}

// bounded reports whether the check of a value takes a bounded number of steps.
func bounded(s Schema, value any) bool {
	m := &meter{s.refs, maxSteps}
	return m.apply(s.root, value, maxDepth)
}

// apply counts the steps in which a schema is applied to a value. It returns
// false if the steps are too many, or deeper than depth.
func (m *meter) apply(s *jsonschema.Schema, value any, depth int) bool {
	object, _ := value.(map[string]any)
	list, _ := value.([]any)
	named := len(s.Properties) + len(s.Required) + len(s.Enum)
	m.left -= 1 + (named+len(object)+len(list))/8 // to look at a name takes less
	if m.left < 0 || depth == 0 {
		return false
	}
	all := func(value any, subs ...*jsonschema.Schema) bool {
		return !slices.ContainsFunc(subs, func(sub *jsonschema.Schema) bool {
			return sub != nil && !m.apply(sub, value, depth-1)
		})
	}
	at := func(subs []*jsonschema.Schema, i int) *jsonschema.Schema {
		if i < len(subs) {
			return subs[i]
		}
		return nil
	}
	if !all(value, s.Not, s.If, s.Then, s.Else) || !all(value, m.refs[s]...) ||
		!all(value, s.AllOf...) || !all(value, s.AnyOf...) || !all(value, s.OneOf...) ||
		!all(value, slices.Collect(maps.Values(s.DependentSchemas))...) ||
		!all(value, slices.Collect(maps.Values(s.DependencySchemas))...) {
		return false
	}
	for name, v := range object {
		if !all(name, s.PropertyNames) || !all(v, slices.Collect(maps.Values(s.PatternProperties))...) ||
			!all(v, s.Properties[name], s.AdditionalProperties, s.UnevaluatedProperties) {
			return false
		}
	}
	for i, v := range list {
		if !all(v, at(s.PrefixItems, i), at(s.ItemsArray, i)) ||
			!all(v, s.Items, s.AdditionalItems, s.Contains, s.UnevaluatedItems) {
			return false
		}
	}
	return true
}

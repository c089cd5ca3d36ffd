package toolset_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/internal/toolset"
)

// contextWithTimeout returns a context of the test that ends with a cause.
func contextWithTimeout(t *testing.T, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeoutCause(t.Context(), d, cause)
}

// TestCheck: arguments have to fit the schema of a tool. A schema that this
// process cannot read fits all arguments.
func TestCheck(t *testing.T) {
	t.Parallel()
	const order = `{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"integer","minimum":1}},` +
		`"required":["id"],"additionalProperties":false}`
	for _, test := range []struct {
		schema, arguments string
		ok                bool
	}{
		{order, `{"id":"7","n":1}`, true},
		{order, `{"n":1}`, false},
		{order, `{"id":7}`, false},
		{order, `{"id":"7","n":0}`, false},
		{order, `{"id":"7","extra":true}`, false},
		{order, `null`, false},
		{order, `"text"`, false},
		{`{"type":"object","$ref":"https://example.com/schema"}`, `{"a":1}`, true},
		{`not JSON`, `{"a":1}`, true},
	} {
		err := toolset.ReadSchema(json.RawMessage(test.schema)).Check(json.RawMessage(test.arguments))
		if (err == nil) != test.ok {
			t.Errorf("%s for %s: error %v, want that it fits: %t", test.arguments, test.schema, err, test.ok)
		}
	}
}

// TestCheckIsBounded: a schema that applies itself to the same value, or that
// takes too many steps, fits all arguments. One that applies itself to the parts
// of a value is checked.
func TestCheckIsBounded(t *testing.T) {
	t.Parallel()
	twice := func(of string) string { return `{"allOf":[` + of + `,` + of + `]}` }
	levels := []string{`"l0":{"type":"object"}`}
	for i := range 40 {
		below := fmt.Sprintf(`{"$ref":"#/$defs/l%d"}`, i)
		levels = append(levels, fmt.Sprintf(`"l%d":%s`, i+1, twice(below)))
	}
	const tree = `{"$id":%q,"type":"object","required":["name"],"additionalProperties":false,` +
		`"properties":{"name":{"type":"string"},"a~/b":true,"sub":{"type":"array","items":{"$ref":%q}}}}`
	const good, bad = `{"name":"x","sub":[{"name":"y","sub":[]}]}`, `{"name":"x","sub":[{"name":"y","sub":[{}]}]}`
	for _, test := range []struct {
		schema, arguments string
		ok                bool
	}{
		{`{"$ref":"#"}`, `{}`, true},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}`, `{}`, true},
		{`{"$dynamicRef":"#a","$defs":{"x":{"$dynamicAnchor":"a","not":{"$ref":"#a"}}}}`, `{}`, true},
		{
			`{"properties":{"a":{"anyOf":[{"items":{"$ref":"#/properties/a/anyOf/0"}},{"$ref":"#/properties/a"}]}}}`,
			`{"a":[]}`, true,
		},
		{`{"$ref":"#/$defs/l40","$defs":{` + strings.Join(levels, ",") + `}}`, `{}`, true},
		{
			`{"properties":{"a":` + twice(`{"$ref":"#"}`) + `},"additionalProperties":false}`,
			strings.Repeat(`{"a":`, 40) + `{"b":1}` + strings.Repeat(`}`, 40), true,
		},
		{fmt.Sprintf(tree, "", "#"), good, true},
		{fmt.Sprintf(tree, "", "#"), bad, false},
		{fmt.Sprintf(tree, "https://example.com/tree", "https://example.com/tree#"), bad, false},
		{fmt.Sprintf(tree, "https://example.com/tree", "tree"), bad, false},
		{fmt.Sprintf(tree, "urn:example:tree", "#"), bad, false},
		{fmt.Sprintf(tree, "urn:example:tree", "other"), bad, true},
		{`{"$ref":"#/$defs/a~0~1b","$defs":{"a~/b":{"$ref":"#/$defs/list/prefixItems/1"},` +
			`"list":{"prefixItems":[true,{"$ref":"#end"}]},"end":{"$anchor":"end","required":["id"]}}}`, `{}`, false},
	} {
		err := toolset.ReadSchema(json.RawMessage(test.schema)).Check(json.RawMessage(test.arguments))
		if (err == nil) != test.ok {
			t.Errorf("%.200s for %.300s: error %v, want that it fits: %t", test.arguments, test.schema, err, test.ok)
		}
	}
}

// TestCheckReadsNoSchema: a check does not read the schema again, however large
// it is.
func TestCheckReadsNoSchema(t *testing.T) {
	var properties []string
	for i := range 500 {
		properties = append(properties, fmt.Sprintf(`"p%d":{"type":"string"}`, i))
	}
	schema := []byte(`{"type":"object","properties":{` + strings.Join(properties, ",") + `}}`)
	s := toolset.ReadSchema(schema)
	if err := s.Check([]byte(`{"p1":7}`)); err == nil {
		t.Error("a number fits the type string")
	}
	check := testing.AllocsPerRun(10, func() { _ = s.Check([]byte(`{}`)) })
	read := testing.AllocsPerRun(10, func() { toolset.ReadSchema(schema) })
	t.Logf("%v allocations for a check, %v to read the schema", check, read)
	if check > read/4 {
		t.Error("a check takes as much as to read the schema, want a quarter at most")
	}
}

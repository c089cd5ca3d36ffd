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

package toolset_test

import (
	"context"
	"encoding/json"
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
		err := toolset.Tool{Name: "act", Schema: json.RawMessage(test.schema)}.Check(json.RawMessage(test.arguments))
		if (err == nil) != test.ok {
			t.Errorf("%s for %s: error %v, want that it fits: %t", test.arguments, test.schema, err, test.ok)
		}
	}
}

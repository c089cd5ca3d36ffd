package mcpserver

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestKeyOf: the key of a call is its argument id, or the first of three keys
// of its metadata that is not empty. A key that is no text is an error.
func TestKeyOf(t *testing.T) {
	all := mcp.Meta{keyNames[0]: "a", keyNames[1]: "b", keyNames[2]: "c"}
	for _, test := range []struct {
		name    string
		id      string
		meta    mcp.Meta
		want    string
		refused bool
	}{
		{"none", "", nil, "", false},
		{"argument", "x", all, "x", false},
		{"first", "", all, "a", false},
		{"second", "", mcp.Meta{keyNames[1]: "b", keyNames[2]: "c"}, "b", false},
		{"third", "", mcp.Meta{keyNames[2]: "c"}, "c", false},
		{"empty", "", mcp.Meta{keyNames[0]: "", keyNames[2]: "c"}, "c", false},
		{"no text", "", mcp.Meta{keyNames[2]: 7.0}, "", true},
		{"another", "", mcp.Meta{"progressToken": "p"}, "", false},
	} {
		got, err := keyOf(input{ID: test.id}, test.meta)
		if got != test.want || (err != nil) != test.refused {
			t.Errorf("%s: key %q, error %v; want %q, and an error: %t", test.name, got, err, test.want, test.refused)
		}
	}
}

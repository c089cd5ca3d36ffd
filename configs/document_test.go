package configs

import (
	"maps"
	"testing"
)

// TestTypeNames: the error about a value of a wrong type names the right one,
// for every key of every format.
func TestTypeNames(t *testing.T) {
	t.Parallel()
	doc, err := newDocument("config.toml", "[prices.models.'openai/x']\ninput = 1")
	if err != nil {
		t.Fatal(err)
	}
	all := fields(&Agent{}, toolConf(nil))
	all["mcp_servers"] = &mcpServers{}
	maps.Copy(all, (&compat{}).fields())
	maps.Copy(all, (&Toolset{}).fields(map[string]*ToolsetTool{"act": {}}))
	maps.Copy(all, (&priceTable{}).fields(doc))
	maps.Copy(all, (&Global{}).fields(map[string]*Provider{}))
	for key, into := range all {
		if typeName(into) == "another type" {
			t.Errorf("%s: the type %T has no name", key, into)
		}
	}
}

package configs

import (
	"errors"
	"testing"

	"github.com/axebus/axe/subjects"
)

// FuzzParse: parse returns a valid agent, or an *Error that names the file.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "=", "name='a'\nmodel='p/m'\n", "name='a'\nmodel='p/m'\nworkdir='~/x'\nfiles=['**']",
		"name='a'\nmodel='p/m'\n[sub_agents_config]\nmax_depth=6", "[[params]]\n[params.x]\n",
		"sub_agents_config.max_depth.x=1", "params={temperature=nan}", "a.\"\".b=1", "name={}\n[memory.path]\nx=1",
		"name='a'\nmodel='p/m'\n[[mcp_servers]]\nx.y=1\n[retry]\nmax_retries=1", "params.response_format.a.b=1",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parse("dir/a.toml", b)
		if err != nil {
			e, ok := errors.AsType[*Error](err)
			if !ok || e.File != "dir/a.toml" || e.Message == "" {
				t.Fatalf("got %T: %v, want an *Error with the file and a message", err, err)
			}
			return
		}
		if a.Name != "a" || checkModel(a) != nil || a.MaxDepth() < 1 || a.MaxDepth() > maxDepth {
			t.Fatalf("got %+v, want the name a, a model, and a depth of 1 to %d", a, maxDepth)
		}
		for _, s := range a.SubAgents {
			if _, err := subjects.ParseAgent(s); err != nil {
				t.Fatalf("a sub-agent: %v", err)
			}
		}
	})
}

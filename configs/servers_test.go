package configs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/configs"
)

// loadServers loads the agent a. Its file has the required keys, and then text.
func loadServers(t *testing.T, text string) (configs.Agent, error) {
	t.Helper()
	return configs.Load(write(t, t.TempDir(), "a.toml", "name = 'a'\nmodel = 'openai/x'\n"+text+"\n"))
}

// TestServers: each entry of [[mcp_servers]] is a toolset of the kind mcp.
func TestServers(t *testing.T) {
	t.Parallel()
	remote := configs.Toolset{Name: "a", Kind: configs.ToolsetMCP, URL: "https://b"}
	timed := remote
	timed.Headers = map[string]string{"A": "b"}
	timed.Timeout = 5 * time.Second
	other := configs.Toolset{Name: "c", Kind: configs.ToolsetMCP, URL: "https://d"}
	program := configs.Toolset{Name: "a", Kind: configs.ToolsetMCP, Command: []string{"b", "c"}}
	const table = "[[mcp_servers]]\nname = 'a'\nurl = 'https://b'\n"
	for _, test := range []struct {
		text string
		want []configs.Toolset
	}{
		{"mcp_servers = []", nil},
		{table + "headers = {A = 'b'}\ntimeout = 5", []configs.Toolset{timed}},
		{table + "[[mcp_servers]]\nname = 'c'\nurl = 'https://d'", []configs.Toolset{remote, other}},
		{
			"mcp_servers = [{name = 'a', command = 'b', args = ['c'], transport = 'stdio'}]\n" +
				"[approve]\ntools = ['a/x']",
			[]configs.Toolset{program},
		},
	} {
		a, err := loadServers(t, test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
		}
		for i := range test.want {
			test.want[i].File = a.File
			test.want[i].Digest = a.Digest
		}
		if diff := cmp.Diff(test.want, a.Servers); diff != "" {
			t.Errorf("%s: servers (-want +got):\n%s", test.text, diff)
		}
	}
}

// TestInvalidServers: the error of an entry names its number, its key and the
// mistake.
func TestInvalidServers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ entries, want string }{
		{
			"{name = 'a', transport = 'sse', url = 'https://b'}",
			`[0].transport: "sse" is no longer part of the protocol: use streamable-http, with the server's own path`,
		},
		{"{name = 'a', url = 'https://b'}, {url = 'https://b'}", "[1].name is required"},
		{"{name = 'a', transport = 'streamable-http'}", "[0].url is required"},
		{"{name = 'a', transport = 'stdio'}", "[0].command is required"},
		{
			"{name = 'a', transport = 'http', url = 'https://b'}",
			"[0].transport must be one of: streamable-http, stdio",
		},
		{"{name = 'a', url = 'b'}", `[0].url: must be an http or https URL, got "b"`},
		{"{name = 'a', url = 3}", "[0].url must be a string"},
		{"{name = 'a', headers = {A = 1}}", "[0].headers must be a table of strings"},
		{"{name = 'a', url = 'https://b', timeout = -1}", "[0].timeout must be between 0 and 315360000"},
		{"{name = 'a', url = 'https://b', timeout = 9999999999}", "[0].timeout must be between 0 and 315360000"},
		{"{name = 'a', timeout = '5s'}", "[0].timeout must be an integer"},
		{"{name = 'a', urls = ''}", `[0]: unknown key; did you mean "url"?`},
		{"{name = 'a', command = 'b', env = ['NATS_URL']}", "[0].env: NATS_URL leads to the bus: no tool gets it"},
		{"{name = 'a', url = 'https://b'}, {name = 'a', url = 'https://c'}", `: two servers are named "a"`},
	} {
		_, err := loadServers(t, "mcp_servers = ["+test.entries+"]")
		want := "a.toml:3: mcp_servers: mcp_servers" + test.want
		if strings.HasPrefix(test.want, ":") {
			want = "a.toml:3: mcp_servers" + test.want
		}
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", test.entries, err, want)
		}
	}
}

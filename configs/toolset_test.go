package configs_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/secret"
)

// loadToolset writes a toolset's file with a name and a text, and loads it.
func loadToolset(t *testing.T, name, text string) (configs.Toolset, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return configs.LoadToolset(file)
}

// TestLoadToolset: LoadToolset reads a file with values of every type. It
// replaces a variable in a header.
func TestLoadToolset(t *testing.T) {
	t.Setenv("SHOP_TOKEN", "s3cret")
	got, err := loadToolset(t, "shop.toml", `
kind = "http"
description = "The shop"
allow = ["get_*", "refund"]
prefix = "shop_"
timeout = "30s"
required = true
workdir = "data"
headers = { Authorization = "Bearer ${SHOP_TOKEN}" }

[tool.refund]
description = "Refunds an order"
method = "POST"
url = "https://shop.example.com/orders/{id}/refund"
effect = "idempotent"
timeout = 5
on_unknown = "fail"
headers = { Accept = "text/plain" }

[tool.refund.parameters]
type = "object"
required = ["id"]
[tool.refund.parameters.properties.id]
type = "string"
`)
	if err != nil {
		t.Fatal(err)
	}
	want := configs.Toolset{
		Name:        "shop",
		Description: "The shop",
		Kind:        configs.ToolsetHTTP,
		Allow:       []string{"get_*", "refund"},
		Prefix:      "shop_",
		Timeout:     30 * time.Second,
		Required:    true,
		Workdir:     filepath.Join(filepath.Dir(got.File), "data"),
		Headers:     map[string]string{"Authorization": "Bearer s3cret"},
		Secrets:     []secret.Text{"s3cret"},
		Tools: map[string]configs.ToolsetTool{"refund": {
			ToolConfig: configs.ToolConfig{
				Effect: configs.ToolIdempotent, Timeout: 5 * time.Second, OnUnknown: configs.UnknownFail,
			},
			Description: "Refunds an order", Method: "POST", URL: "https://shop.example.com/orders/{id}/refund",
			Headers:    map[string]string{"Accept": "text/plain"},
			Parameters: []byte(`{"properties":{"id":{"type":"string"}},"required":["id"],"type":"object"}`),
		}},
		File:   got.File,
		Digest: got.Digest,
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got.Digest) != 64 {
		t.Errorf("digest %q, (-want +got):\n%s", got.Digest, diff)
	}
}

// TestToolsetKinds: small files of each kind are valid.
func TestToolsetKinds(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"kind = 'mcp'\ncommand = ['server', 'stdio']\nenv = ['GITHUB_TOKEN']\ntrust = true",
		"kind = 'mcp'\nurl = 'https://example.com/mcp'\n[tool.'a b']\neffect = 'once'",
		"kind = 'command'\n[tool.act]\ncommand = ['./act']",
		"kind = 'http'\n[tool.act]\nurl = 'http://localhost:8080/{id}'",
		"kind = 'nats'\nservice = 'orders'\n[tool.act]\neffect = 'read'",
		"kind = 'nats'\n[tool.act]\nsubject = 'orders.{id}.get'",
	} {
		if _, err := loadToolset(t, "set.toml", text); err != nil {
			t.Errorf("%s\n%v", text, err)
		}
	}
}

// TestInvalidToolsets: the error of a file names the key and the mistake, and
// the line of a key that is there.
func TestInvalidToolsets(t *testing.T) {
	t.Parallel()
	const act = "\n[tool.act]\n"
	for _, test := range []struct{ text, want string }{
		{"", `kind: must be mcp, command, http, nats or remote, got ""`},
		{"kind = 'mpc'", `:1: kind: must be mcp, command, http, nats or remote, got "mpc"`},
		{"kind = 'mcp'", "kind: a toolset of the kind mcp has either command or url"},
		{
			"kind = 'mcp'\ncommand = ['a']\nurl = 'http://b'",
			"kind: a toolset of the kind mcp has either command or url",
		},
		{
			"kind = 'mcp'\nurl = 'http://b'\ntimeout = 9000000000",
			":3: timeout cannot exceed 87600h0m0s, got 2500000h0m0s",
		},
		{"kind = 'http'\nheaders = 'x'", ":2: headers: must be a table of strings"},
		{"kind = 'http'\n[headers]\nA = 1", ":2: headers: must be a table of strings"},
		{"kind = 'http'" + act + "parameters = 'y'", "tool.act.parameters: must be a table"},
		{"kind = 'mcp'\nurl = 'b'", `:2: url: must be an http or https URL, got "b"`},
		{"kind = 'mcp'\nurl = 'http://b'\nenv = ['A']", ":3: env: is for a server that is started with command"},
		{
			"kind = 'mcp'\ncommand = ['a']\nenv = ['NATS_CREDS']",
			":3: env: NATS_CREDS leads to the bus: no tool gets it",
		},
		{"kind = 'mcp'\ncommand = ['a']\nheaders = { a = 'b' }", ":3: headers: are for a server with a url"},
		{
			"kind = 'mcp'\nurl = 'http://b'\nheaders = { a = '${AXE_NO_SUCH}' }",
			":3: headers: a: the variable AXE_NO_SUCH is not set",
		},
		{
			"kind = 'mcp'\nurl = 'http://b'" + act + "url = 'http://c'",
			`tool.act.url: a tool of the kind mcp has no url`,
		},
		{"kind = 'http'", "kind: a toolset of the kind http needs a table [tool.NAME] for each tool"},
		{"kind = 'http'\ncommand = ['a']", ":2: command: a toolset of the kind http has no command"},
		{"kind = 'http'" + act + "method = 'GET'", "tool.act: a tool of the kind http needs url"},
		{"kind = 'http'" + act + "url = 'http://a'\nmethod = 'get'", `tool.act.method: must be one of GET, POST`},
		{"kind = 'command'" + act + "command = ['a']\neffect = 'never'", "tool.act.effect must be one of"},
		{
			"kind = 'command'" + act + "command = ['a']\ncomand = ['a']",
			`tool.act.comand: unknown key; did you mean "tool.act.command"?`,
		},
		{
			"kind = 'command'" + act + "command = ['a']\nparameters = { type = 'array' }",
			`must be a JSON Schema with type = "object"`,
		},
		{
			"kind = 'command'\n[tool.'a b']\ncommand = ['a']",
			`a tool's name has at most 64 letters, digits, _ and -, got "a b"`,
		},
		{"kind = 'command'\nallow = ['[']" + act + "command = ['a']", `:2: allow: "[" is no glob`},
		{
			"kind = 'command'\nprefix = 'a/'" + act + "command = ['a']",
			`:2: prefix: must have letters, digits, _ and - alone`,
		},
		{"kind = 'nats'" + act + "subject = 'a.*'", `must be a subject without wildcards, got "a.*"`},
		{"kind = 'nats'\nservice = 'a'" + act + "subject = 'a'", "the service describes its tools"},
	} {
		_, err := loadToolset(t, "set.toml", test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\ngot  %v\nwant %s", test.text, err, test.want)
		}
	}
	if _, err := loadToolset(t, "a.b.toml", "kind = 'http'"); err == nil {
		t.Error("a toolset with a name of two tokens was loaded")
	}
}

// TestToolsetDir: the directory tools is beside a directory of agents with the
// name agents, and below any other one.
func TestToolsetDir(t *testing.T) {
	t.Parallel()
	for agents, want := range map[string]string{
		"/x/agents": "/x/tools", "/x/agents/": "/x/tools", "/x/examples": "/x/examples/tools",
	} {
		if got := configs.ToolsetDir(agents); got != want {
			t.Errorf("toolsets of %s are in %s, want %s", agents, got, want)
		}
	}
}

// TestToolsOfToolsets: an agent names tools of toolsets as TOOLSET/TOOL in
// tools, approve.tools and policy.tools. A * at the end stands for any tool. A
// malformed name is an error.
func TestToolsOfToolsets(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{
			"tools = ['a/*', 'b/x']\n[approve]\ntools = ['a/del_*', 'b/x']\n" +
				"[policy]\ntools = ['a/*', 'b/x', 'read_file']",
			"",
		},
		{"tools = ['a/']", `"a/" names no tool: write "a/*"`},
		{"tools = ['a b/x']", "tools:"},
		{"tools = ['a/[']", `"[" is no glob`},
		{"tools = ['a/x']\n[approve]\ntools = ['b/x']", `approve.tools: "b/x" is not in tools`},
		{"[policy]\ntools = ['a/*_x']", `may have one * at its end, and no ?, [ or \, got "a/*_x"`},
	} {
		file := filepath.Join(t.TempDir(), "user.toml")
		text := "name = 'user'\nmodel = 'openai/x'\n" + test.text
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		agent, err := configs.Load(file)
		if test.want == "" && err != nil ||
			test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s\ngot  %v\nwant %q", test.text, err, test.want)
		}
		if want := []string{"a/del_*", "b/x"}; err == nil && !slices.Equal(agent.Approve, want) {
			t.Errorf("%s\ngot approve.tools %q, want %q", test.text, agent.Approve, want)
		}
	}
}

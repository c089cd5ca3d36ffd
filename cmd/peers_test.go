package cmd_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/peertest"
)

// startPeer starts a program of node, which ends with the test. It returns the
// end of the first line on the standard output that has the text.
func (p *scenario) startPeer(text string, env []string, args ...string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "node", args...)
	cmd.Dir = p.dir
	cmd.Env = append(cmd.Environ(), env...)
	var stderr buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if _, after, found := strings.Cut(lines.Text(), text); found {
			return strings.TrimSpace(after)
		}
	}
	p.t.Fatalf("%q does not write %q: %v, %s", args, text, lines.Err(), stderr.String())
	return ""
}

// peerFixtures are the answers of aimock. The lead calls three tools, and
// answers after the result of the last one.
const peerFixtures = `{"fixtures": [
	{
		"match": {"systemMessage": "You are lead.", "turnIndex": 0},
		"response": {"toolCalls": [
			{"name": "read_file", "arguments": {"path": "note.txt"}},
			{"name": "shop_price", "arguments": {"item": "tea"}},
			{"name": "call_agent", "arguments": {"agent": "helper", "task": "count"}}
		]}
	},
	{
		"match": {"systemMessage": "You are lead.", "turnIndex": 1, "toolResultContains": "seven letters"},
		"response": {"content": "the note costs seven letters"}
	},
	{
		"match": {"systemMessage": "You are helper.", "userMessage": "count", "turnIndex": 0},
		"response": {"content": "seven letters"}
	}
]}`

// TestPeerModel: aimock is the model of a tree with a built-in tool, a tool of
// a toolset and a sub-agent, in the API of each provider. It finds the results
// of all three where that API has them: its journal has the messages as it
// decoded them.
func TestPeerModel(t *testing.T) {
	program := peertest.File(t, "@copilotkit/aimock/dist/cli.js")
	p := newScenario(t)
	p.write("note.txt", "a note\n")
	p.write("tools/shop.toml", `kind = "command"
prefix = "shop_"
workdir = ".."
[tool.price]
description = "Returns a price"
command = ["/bin/sh", "-c", "printf 'the price of '; cat"]
effect = "read"
`)
	p.write("fixtures.json", peerFixtures)
	base := p.startPeer("listening on ", nil, program, "-p", "0", "-f", p.path("fixtures.json"), "--strict")
	for provider, path := range map[string]string{
		"openai": "/v1/chat/completions", "anthropic": "/v1/messages", "ollama": "/api/chat",
	} {
		t.Run(provider, func(t *testing.T) {
			p := &scenario{t: t, dir: p.dir, env: p.env}
			p.env["AXE_"+strings.ToUpper(provider)+"_BASE_URL"] = base
			const agent = "name = %[2]q\nmodel = \"%[1]s/m\"\nsystem_prompt = \"You are %[2]s.\"\n"
			p.write("agents/helper.toml", fmt.Sprintf(agent, provider, "helper"))
			p.write("agents/lead.toml", fmt.Sprintf(agent, provider, "lead")+
				"workdir = \"..\"\ntools = [\"read_file\", \"shop/price\"]\n"+subAgents("helper"))
			if got, want := p.wantAnswer("lead"), "the note costs seven letters"; got != want {
				t.Errorf("got the answer %q, want %q", got, want)
			}
			results := resultsIn(t, base, path)
			want := []string{"1: a note", `the price of {"item":"tea"}`, "seven letters"}
			if diff := cmp.Diff(want, results); diff != "" {
				t.Errorf("results of the tools (-want +got):\n%s", diff)
			}
		})
	}
}

// resultsIn returns the results of tools in the last of the three requests that
// aimock got at a path. Each result that names a call names the one in its
// place.
func resultsIn(t *testing.T, base, path string) (results []string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		base+"/__aimock/journal?path="+url.QueryEscape(path), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var journal []struct {
		Body struct {
			Messages []struct {
				Role      string
				Content   string
				ToolCalls []struct{ ID string } `json:"tool_calls"`
				CallID    *string               `json:"tool_call_id"`
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&journal); err != nil {
		t.Fatal(err)
	}
	if len(journal) != 3 {
		t.Fatalf("%d requests at %s, want 3", len(journal), path)
	}
	var calls []string
	for _, m := range journal[2].Body.Messages {
		for _, c := range m.ToolCalls {
			calls = append(calls, c.ID)
		}
		if m.Role != "tool" {
			continue
		}
		if i := len(results); m.CallID != nil && (i >= len(calls) || *m.CallID != calls[i]) {
			t.Errorf("result %d is of the call %q, want the one in its place of %q", i, *m.CallID, calls)
		}
		results = append(results, m.Content)
	}
	return results
}

// TestPeerService: the endpoints of a micro service of nats.js are tools of an
// agent, and of axe tools call. The metadata of an endpoint have the schema and
// the effect. An error of the service reaches the model, and fails the command.
func TestPeerService(t *testing.T) {
	modules := peertest.Modules(t)
	script, err := filepath.Abs("testdata/peers/orders.js")
	if err != nil {
		t.Fatal(err)
	}
	p := newScenario(t)
	server, err := bus.Serve(bus.ServerConfig{Listen: "127.0.0.1:0", StoreDir: p.path("js")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	p.startPeer("ready", []string{"NATS_URL=" + server.URL(), "NODE_PATH=" + modules}, script)
	p.write("tools/orders.toml", "kind = \"nats\"\nservice = \"orders\"\n")
	p.write("agents/clerk.toml", "name = \"clerk\"\nmodel = \"script/clerk\"\ntools = [\"orders/*\"]\n")
	p.write("agents/scripts/clerk.toml", `[[turn]]
turn = 1
[[turn.call]]
tool = "get"
arguments.order = "7"
[[turn.call]]
tool = "refund"
arguments.order = "7"
[[turn]]
text = "{{join \"\\n\" .AllResults}}"
`)
	on := []string{"--agents", p.path("agents"), "--server", server.URL()}
	for _, test := range []struct {
		args []string
		code int
		want []string
	}{
		{
			[]string{"tools", "clerk"},
			0,
			[]string{"orders/get (nats; read; ", " - Returns an order\n", "orders/refund (nats; idempotent; "},
		},
		{[]string{"run", "clerk", "x"}, 0, []string{"order 7 for ", ".r-1-0\n", "(409): it was refunded: yesterday"}},
		{[]string{"tools", "call", "orders/get", `{"order":"7"}`, "--id", "g1"}, 0, []string{"order 7 for g1.r-1-0\n"}},
		{[]string{"tools", "call", "orders/get", `{"order":7}`}, 2, []string{"do not fit the tool's schema"}},
		{
			[]string{"tools", "call", "orders/refund", `{"order":"7"}`},
			1,
			[]string{"the service failed (409): it was refunded: yesterday"},
		},
	} {
		end := p.axe(append(test.args, on...)...)
		for _, want := range test.want {
			if end.code != test.code || !strings.Contains(end.stdout+end.stderr, want) {
				t.Errorf("axe %q: exit code %d, %s%s; want %d and %q",
					test.args, end.code, end.stdout, end.stderr, test.code, want)
			}
		}
	}
}

package cmd_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/axebus/axe/internal/sandbox"
	"github.com/axebus/axe/internal/testflags"
	"github.com/axebus/axe/provider"
)

// The tests in spec_*_test.go check axe against its M5 specification, a test
// for each requirement and each row of its tables. testdata/spec.txt names the
// test of each, and TestSpecIndex checks that list. The tests run the real
// program against a server that speaks the formats of the real providers
// (modelServer).

// commands returns a directory with agentd, axe and axe-submit. They are built
// once, for the first test that needs them.
var commands func() (dir string, err error)

// TestMain lets six tests run in parallel unless -parallel says otherwise: most
// of them wait for processes.
func TestMain(m *testing.M) {
	sandbox.MaybeExec()
	flag.Parse()
	testflags.Default("test.parallel", "6")
	dir, err := os.MkdirTemp("", "axe-commands-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	commands = sync.OnceValues(func() (string, error) {
		ctx := context.Background()
		build := exec.CommandContext(ctx, "go", "build", "-o", dir, "./agentd", "./axe", "./axe-submit")
		out, err := build.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return dir, err
	})
	m.Run()
}

// binaries returns the directory of the commands.
func binaries(t *testing.T) string {
	t.Helper()
	dir, err := commands()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// scenario is the set-up of one test: agents, the model server that answers for
// their models, and the environment of axe.
type scenario struct {
	*modelServer
	t *testing.T
	// dir is the working directory. The agents are in agents/ below it.
	dir string
	env map[string]string
}

const (
	openaiKey    = "sk-openai-of-the-test"
	anthropicKey = "sk-anthropic-of-the-test"
)

// newScenario makes a scenario for a test that may run beside others.
func newScenario(t *testing.T) *scenario {
	t.Helper()
	t.Parallel()
	return newSerialScenario(t)
}

// newSerialScenario makes a scenario without a call of t.Parallel, which a test
// may call only once.
func newSerialScenario(t *testing.T) *scenario {
	t.Helper()
	p := &scenario{modelServer: newModelServer(t), t: t, dir: t.TempDir()}
	for _, dir := range []string{"agents", "home", "tmp", "config/axe"} {
		if err := os.MkdirAll(filepath.Join(p.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.env = map[string]string{
		"HOME": p.path("home"), "TMPDIR": p.path("tmp"), "XDG_CONFIG_HOME": p.path("config"),
		"PATH":           os.Getenv("PATH"),
		"OPENAI_API_KEY": openaiKey, "ANTHROPIC_API_KEY": anthropicKey,
		"AXE_OPENAI_BASE_URL": p.url, "AXE_ANTHROPIC_BASE_URL": p.url, "AXE_OLLAMA_BASE_URL": p.url,
	}
	return p
}

// path returns the path of a file below the working directory.
func (p *scenario) path(name string) string { return filepath.Join(p.dir, filepath.FromSlash(name)) }

// write writes a file below the working directory.
func (p *scenario) write(name, text string) {
	p.t.Helper()
	file := p.path(name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// agent writes an agent's file and sets the behavior of its model. The file is
// the text. A name, a model and a system prompt are added if the text has none:
// the agent's name, openai/ and the name, and a sentence. A text without a
// [retry] table gets one that turns retries off, since the specification has no
// retries.
func (p *scenario) agent(name, text string, model behavior) {
	p.t.Helper()
	for _, line := range [][2]string{
		{"system_prompt", "You are " + name + "."},
		{"model", "openai/" + name},
		{"name", name},
	} {
		if !strings.Contains("\n"+text, "\n"+line[0]+" =") {
			text = fmt.Sprintf("%s = %q\n%s", line[0], line[1], text)
		}
	}
	if !strings.Contains(text, "[retry]") {
		text += "\n[retry]\nmax_attempts = 1\n"
	}
	p.write("agents/"+name+".toml", text)
	p.handle(name, model)
}

// subAgents returns the lines of a file that name sub-agents.
func subAgents(names ...string) string {
	return fmt.Sprintf("sub_agents = [\"%s\"]\n", strings.Join(names, `", "`))
}

// config returns the lines of a file that configure sub-agents.
func config(lines ...string) string {
	return "\n[sub_agents_config]\n" + strings.Join(lines, "\n") + "\n"
}

// programEnd holds the exit code and the output of axe.
type programEnd struct {
	code           int
	stdout, stderr string
}

// run runs an agent of the scenario to its end.
func (p *scenario) run(agent string, args ...string) programEnd {
	p.t.Helper()
	return p.axe(append([]string{"run", agent, "--agents", p.path("agents")}, args...)...)
}

// axe runs an axe command to its end.
func (p *scenario) axe(args ...string) programEnd {
	p.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := p.command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case failed:
		return programEnd{exit.ExitCode(), stdout.String(), stderr.String()}
	case err != nil:
		p.t.Fatal(err)
	}
	return programEnd{0, stdout.String(), stderr.String()}
}

// command makes an axe command. The command ends with its test, or after twice
// waitTimeout.
func (p *scenario) command(args ...string) *exec.Cmd {
	p.t.Helper()
	program := filepath.Join(binaries(p.t), "axe")
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*waitTimeout)
	p.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = p.dir
	for name, value := range p.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// wantAnswer runs an agent that has to answer, and returns its answer.
func (p *scenario) wantAnswer(agent string, args ...string) string {
	p.t.Helper()
	end := p.run(agent, args...)
	if end.code != 0 {
		p.t.Fatalf("got exit code %d, want 0: %s", end.code, end.stderr)
	}
	return strings.TrimSuffix(end.stdout, "\n")
}

// wantFailure runs the parent, which has to fail with an exit code and a line
// on stderr.
func (p *scenario) wantFailure(code int, line string, args ...string) {
	p.t.Helper()
	end := p.run("parent", args...)
	said, hinted := errorLine(end.stderr)
	if end.code != code || said != "axe: "+line || !hinted || end.stdout != "" {
		p.t.Errorf(
			"got exit code %d, stderr %q, stdout %q; want %d, %q",
			end.code,
			end.stderr,
			end.stdout,
			code,
			"axe: "+line+"\n",
		)
	}
}

// errorLine returns the first line of stderr. hinted is true if nothing follows
// it, or only one line with the next step.
func errorLine(stderr string) (line string, hinted bool) {
	line, rest, _ := strings.Cut(stderr, "\n")
	return line, rest == "" || strings.HasPrefix(rest, "axe: hint: ") && strings.Count(rest, "\n") == 1
}

// call makes a call of the tool call_agent without an id. The model server
// numbers the calls.
func call(agent, task string) provider.ToolCall {
	return toolCall("call_agent", map[string]string{"agent": agent, "task": task})
}

// failed returns the text of a result for a failed sub-agent.
func failed(agent, why string) string {
	return fmt.Sprintf("Error: sub-agent %q failed - %s. You may retry or proceed without this result.", agent, why)
}

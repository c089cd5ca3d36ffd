package chaostest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// effectsFile is the file, below the working directory of the agents, to which
// each command appends a line: its key, its effect and a nonce.
const effectsFile = "effects/all"

// noteEffect is the command of a call. It is at work for a while before its
// effect and after it, so that kills strike it at every moment.
const noteEffect = `sleep 0.1; echo "$AXE_IDEMPOTENCY_KEY %s $(od -An -N8 -tx8 /dev/urandom | tr -d " ")" >>` +
	effectsFile + `; sleep 0.1; printf done`

// toolSlots is the number of tools that a worker has at work at once.
const toolSlots = 8

// toolsOfTree is the number of tool calls of a tree. A lead makes five calls in
// one turn: four of tools, and one of the agent again. The latter calls one
// tool.
const toolsOfTree = 5

// useTools makes the calls of a run with tools. If the run has their results,
// it returns the answer instead.
func (q parsedRequest) useTools(invoke func(tool string, arguments any)) (answer string) {
	tree, _, below := strings.Cut(q.label, ".")
	file := tree + "/a.txt"
	switch {
	case len(q.results) > 0:
		return q.label + "(" + strings.Join(q.results, "|") + ")"
	case below:
		invoke("note", map[string]string{})
	default:
		invoke("run_command", map[string]string{"command": fmt.Sprintf(noteEffect, run.ToolOnce)})
		invoke("call_agent", map[string]string{"agent": "again", "task": tree + ".again"})
		invoke("write_file", map[string]string{"path": file, "content": "one\n"})
		invoke("edit_file", map[string]string{"path": file, "old_string": "one", "new_string": "two"})
		invoke("read_file", map[string]string{"path": file})
	}
	return ""
}

// answerWithTools is the answer of a tree if all its calls have completed.
func answerWithTools(tree string) string {
	const all = "%[1]s(done|%[1]s.again(done)|wrote 4 bytes to %[1]s/a.txt|" +
		"replaced 1 occurrence(s) in %[1]s/a.txt|1: two)"
	return fmt.Sprintf(all, tree)
}

// mayHaveHappened matches the result of a call that may have taken effect.
var mayHaveHappened = regexp.MustCompile(`it may have taken effect: worker \S+ began it \S+ ago ` +
	`and did not report \(key (T\d+)\.r-1-0\)\. Find out before you do it again\.`)

// assumeDone replaces, in the answer of a tree, the result of the lead's
// command that may have taken effect by the result of a command that did.
// judgeTools checks the outcome of such a command.
func assumeDone(answer string) string {
	tree, _, _ := strings.Cut(answer, "(")
	return mayHaveHappened.ReplaceAllStringFunc(answer, func(result string) string {
		if mayHaveHappened.FindStringSubmatch(result)[1] != tree {
			return result
		}
		return "done"
	})
}

// writeToolAgents makes the agents lead and again in a directory, and the
// toolset of again. All of them work in the directory work.
func writeToolAgents(dir, work string) error {
	for name, more := range map[string]string{
		"lead": `description = "uses every tool"
tools = ["run_command", "write_file", "edit_file", "read_file"]
sub_agents = ["again"]
[tool.run_command]
effect = "once"
`,
		"again": `description = "uses a tool of a toolset that may be called again"
tools = ["set/note"]
`,
	} {
		toml := fmt.Sprintf("name = %q\nmodel = \"ollama/tools\"\nworkdir = %q\n%s", name, work, more)
		toml += "[sandbox]\nwrite = [\"effects\"]\n"
		if err := os.WriteFile(filepath.Join(dir, name+".toml"), []byte(toml), 0o600); err != nil {
			return err
		}
	}
	set := fmt.Sprintf("kind = \"command\"\nworkdir = %q\n[sandbox]\nwrite = [\"effects\"]\n"+
		"[tool.note]\neffect = \"idempotent\"\ncommand = [\"/bin/sh\", \"-c\", %q]\n",
		work, fmt.Sprintf(noteEffect, run.ToolIdempotent))
	tools := configs.ToolsetDir(dir)
	return errors.Join(
		os.Mkdir(filepath.Join(work, filepath.Dir(effectsFile)), 0o700),
		os.Mkdir(tools, 0o700),
		os.WriteFile(filepath.Join(tools, "set.toml"), []byte(set), 0o600),
	)
}

// toolFleet is a server, and three workers of which one after the other is
// killed while the tools of their agents are at work.
type toolFleet struct {
	*harness
	work string
	load *load
}

// startTools starts the server and the workers.
func startTools(t *testing.T, bin string, latency time.Duration) *toolFleet {
	t.Helper()
	store := t.TempDir()
	agents, work := t.TempDir(), t.TempDir()
	if err := writeToolAgents(agents, work); err != nil {
		t.Fatal(err)
	}
	h, worker := newFleet(t, bin, store, latency)
	h.name, h.ackWait = "tools", 2*time.Second
	worker.ackWait, worker.agents = h.ackWait, agents
	worker.args = []string{"--tool-slots", strconv.Itoa(toolSlots)}
	h.sequences = []faultSequence{{200 * time.Millisecond, []kind{killWorker}}}
	if err := h.servers.up(t.Context(), h.servers.nodes[0]); err != nil {
		t.Fatal(err)
	}
	h.pool = worker.newPool(t, h.servers.group, h.servers, 0)
	h.pool.places = h.pool.places[:fleetSize]
	for _, b := range h.pool.places {
		if err := b.fill(nil); err != nil {
			t.Fatal(err)
		}
	}
	return &toolFleet{harness: h, work: work}
}

// tools kills workers while commands of their agents run. A command that may
// run once does not run twice, and each outcome agrees with the effects of its
// command.
func tools(t *testing.T, bin string, seed uint64, trees int) {
	t.Helper()
	latency := 200 * time.Millisecond
	if trees == 0 {
		t.Parallel()
		trees, latency = 12, latency/2
	}
	f := startTools(t, bin, latency)
	conn := f.connect(t)
	lead, err := subjects.ParseAgent("lead")
	if err != nil {
		t.Fatal(err)
	}
	f.load = &load{h: f.harness, client: client.New(conn), lead: lead, answer: answerWithTools, read: assumeDone}
	begin := time.Now()
	f.underKills(t, seed, trees)
	took := time.Since(begin)
	if err := f.awaitQuiet(t.Context()); err != nil {
		t.Error(err)
	}
	r, err := readRecord(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	v := f.judgeTools(r)
	t.Logf("seed %d | %d trees | %s | took %.1fs, a tree %.1fs at most", seed, trees, f.faults(),
		took.Seconds(), time.Duration(f.load.longest.Load()).Seconds())
	t.Logf("%d calls of tools: %d may have taken effect, and %d of these have; %d happened again with the same key",
		v.calls, v.unknown, v.happened, v.again)
	t.Logf("lost %d, doubled %d, wrong %d, tried again %d, gave up %d",
		v.lost, v.doubled, f.load.wrongAnswers, f.load.retries.Load(), f.pool.unexpectedEnds.Load())
	if n := f.pool.unexpectedEnds.Load(); n > 0 {
		v.blame("%d workers gave up; the output of the last one:\n%v", n, f.pool.lastWords.Load())
	}
	if len(v.wrong) > 0 {
		first := strings.Join(v.wrong[:min(20, len(v.wrong))], "\n")
		t.Errorf("%s=%d: %d faults of the product:\n%s", seedEnv, seed, len(v.wrong), first)
	}
	f.verify(t)
}

// underKills runs the load while workers are killed.
func (f *toolFleet) underKills(t *testing.T, seed uint64, trees int) {
	t.Helper()
	ctx, calm := context.WithCancel(t.Context())
	defer calm()
	for i, sequence := range f.sequences {
		s := sequence.schedule(seed, i)
		f.lasting.Go(func() {
			if err := f.injectFaults(ctx, s); err != nil {
				t.Error(err)
			}
		})
	}
	f.lasting.Go(func() { f.reportProgress(ctx, f.load) })
	f.load.run(t.Context(), trees, func() bool { return true })
	calm()
	f.lasting.Wait()
}

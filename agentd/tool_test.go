package agentd_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
)

// withTools gives an agent tools, and a working directory.
func withTools(dir string, tools ...string) func(*configs.Agent) {
	return func(a *configs.Agent) {
		a.Tools = tools
		a.Workdir = dir
	}
}

// TestTools lets a model write a file in one turn, and edit, read and list
// files in the next. It cannot leave the working directory, nor use a tool that
// its agent does not have. The run of write_file costs two stored messages, its
// call and its outcome. It counts as a tool call, and not as a run.
func TestTools(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("mender", nil, withTools(dir, "write_file", "edit_file", "read_file", "list_directory")),
		}
		h.models["mender"] = turns(
			calls(use("write_file", "path", "notes/a.txt", "content", "one\ntwo\n")),
			calls(
				use("edit_file", "path", "notes/a.txt", "old_string", "two", "new_string", "three"),
				use("read_file", "path", "notes/a.txt"),
				use("list_directory", "path", "notes"),
				use("read_file", "path", "../a.txt"),
				use("run_command", "command", "rm -rf notes"),
			),
			joinsResults,
		)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		root := h.submit("mender", "mend it")
		o := h.awaitOutcome(root, time.Hour)
		want := "c0=replaced 1 occurrence(s) in notes/a.txt|c1=1: one\n2: three|c2=a.txt|" +
			`c3=path escapes workdir|c4=Unknown tool: "run_command"`
		if o.Result != want {
			t.Errorf("result %q, want %q", o.Result, want)
		}
		b, err := os.ReadFile(filepath.Join(dir, "notes/a.txt"))
		if err != nil || string(b) != "one\nthree\n" {
			t.Errorf("the file is %q, error %v, want both edits in it", b, err)
		}
		write := h.child(root, "mender", 0)
		if ms := h.readAll(write.All()); len(ms) != 1 {
			t.Errorf("the run of write_file has %d messages, want its call alone", len(ms))
		}
		if o.Subtree.Runs != 1 || o.Subtree.ToolCalls != 6 {
			t.Errorf("%d runs and %d tool calls, want 1 and 6", o.Subtree.Runs, o.Subtree.ToolCalls)
		}
		h.checkVerified()
	})
}

// TestToolMayHaveTakenEffect kills a worker after it has written that it begins
// an edit. The file then tells whether the edit was made. If it holds neither
// the text before the edit nor the text after it, the model is told that the
// call may have taken effect.
func TestToolMayHaveTakenEffect(t *testing.T) {
	t.Parallel()
	// found is the text of the file when the successor reads it.
	for _, test := range []struct{ name, found, want string }{
		{"not made", "one\n", "replaced 1 occurrence(s) in a.txt"},
		{"made", "two\n", "replaced 1 occurrence(s) in a.txt"},
		{"unknown", "three\n", "it may have taken effect: worker victim began it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "a.txt")
			write := func(text string) {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Error(err)
				}
			}
			write("one\n")
			withHarness(t, func(h *harness) {
				h.agents = []configs.Agent{define("mender", nil, withTools(dir, "edit_file"))}
				h.models["mender"] = turns(
					calls(use("edit_file", "path", "a.txt", "old_string", "one", "new_string", "two")),
					joinsResults,
				)
				victim := h.startWorker("victim", workerOptions{atStep: func(s step) error {
					if s.Op == "write" && s.After && strings.HasSuffix(s.Subject, "r-1-0.log") {
						s.worker.kill()
					}
					return nil
				}})
				h.awaitReady()
				root := h.submit("mender", "mend it")
				<-victim.ended
				write(test.found)
				h.startWorker("successor", workerOptions{})
				o := h.awaitOutcome(root, time.Hour)
				if !strings.HasPrefix(o.Result, "c0="+test.want) {
					t.Errorf("result %q, want %q as the result of the call", o.Result, test.want)
				}
				outcomes := h.outcomes(root.Reply(1, 0))
				if len(outcomes) != 1 {
					t.Fatalf("%d outcomes of the edit, want 1", len(outcomes))
				}
				if unknown := outcomes[0].Kind == run.KindUnknown; unknown != (test.name == "unknown") {
					t.Errorf("outcome of the edit %+v, unknown is %t, want %t", outcomes[0], unknown, !unknown)
				}
				h.checkVerified()
			})
		})
	}
}

// TestToolsWait: in one turn, a call that may change something waits for the
// calls before it, and holds back the calls after it.
func TestToolsWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("mender", []string{"slow"}, withTools(dir, "write_file", "read_file")),
			define("slow", nil),
		}
		h.models["slow"] = delayed(time.Minute, repeats)
		h.models["mender"] = turns(
			calls(
				use("read_file", "path", "a.txt"),
				call("slow", "first"),
				use("write_file", "path", "a.txt", "content", "one"),
				use("read_file", "path", "a.txt"),
				use("write_file", "path", "a.txt", "content", "two"),
				use("read_file", "path", "a.txt"),
			),
			joinsResults,
		)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		root := h.submit("mender", "mend it")
		h.awaitRequests("slow", 1)
		time.Sleep(30 * time.Second)
		if _, err := os.Stat(filepath.Join(dir, "a.txt")); err == nil {
			t.Error("the file is written while a call before the write is at work")
		}
		o := h.awaitOutcome(root, time.Hour)
		want := "c0=no such file or directory|c1=first|c2=wrote 3 bytes to a.txt|c3=1: one|" +
			"c4=wrote 3 bytes to a.txt|c5=1: two"
		if o.Result != want {
			t.Errorf("result %q, want %q", o.Result, want)
		}
		h.checkVerified()
	})
}

// TestToolNeedsNoSlot: a worker whose model slots are all taken still calls
// tools. The first worker dies with the tool in hand. So another model has the
// only slot of its successor before the tool is delivered again.
func TestToolNeedsNoSlot(t *testing.T) {
	t.Parallel()
	thorough(t)
	dir := t.TempDir()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("mender", nil, withTools(dir, "write_file")), define("slow", nil)}
		h.models["slow"] = delayed(time.Hour, repeats)
		h.models["mender"] = turns(calls(use("write_file", "path", "a.txt", "content", "one")), joinsResults)
		victim := h.startWorker("victim", workerOptions{atStep: func(s step) error {
			if s.Op == "write" && !s.After && strings.HasSuffix(s.Subject, ".r.in.1.0") {
				s.worker.kill()
			}
			return nil
		}})
		h.awaitReady()
		root := h.submit("mender", "mend it")
		<-victim.ended
		h.startWorker("successor", workerOptions{Config: agentd.Config{Slots: 1}})
		h.submit("slow", "take the slot")
		h.awaitRequests("slow", 1)
		time.Sleep(2 * time.Minute)
		if n := len(h.outcomes(root.Reply(1, 0))); n != 1 {
			t.Errorf("the tool has %d outcomes while the model of slow is asked, want 1", n)
		}
	})
}

// TestToolTimeout: a command that takes longer than its tool may is stopped.
// Its outcome has the output until then, and the time that the tool was allowed.
func TestToolTimeout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inRealTime(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("ops", nil, withTools(dir, "run_command"), func(a *configs.Agent) {
				a.ToolConf = map[string]configs.ToolConfig{"run_command": {Timeout: 5 * time.Second}}
			}),
		}
		h.models["ops"] = turns(
			calls(use("run_command", "command", "echo begun; sleep 10; echo ended")),
			joinsResults,
		)
		h.startWorker("w", workerOptions{Config: agentd.Config{Sandbox: agentd.NewSandbox()}})
		h.awaitReady()
		root := h.submit("ops", "do it")
		h.awaitRequests("ops", 1)
		call := h.child(root, "ops", 0)
		h.eventually("the tool is called", func() bool { return len(h.readAll(call.ToolCall())) == 1 })
		h.eventually("the tool has ended", func() bool { return len(h.outcomes(root.Reply(1, 0))) == 1 })
		o := h.outcomes(root.Reply(1, 0))[0]
		if want := "timeout after 5s\nbegun\n"; o.Kind != run.KindTimeout || o.Error != want {
			t.Errorf("outcome %s %q, want %s %q", o.Kind, o.Error, run.KindTimeout, want)
		}
	})
}

// TestToolEndsAtItsTime: a tool has taken effect, and its time is over before
// the worker looks. The outcome says that it has taken effect, unless the
// deadline of its run is over too.
func TestToolEndsAtItsTime(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]run.Status{
		29 * time.Second: run.StatusCompleted, // the tool has 28, and the call 30
		31 * time.Second: run.StatusFailed,
	} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			withHarness(t, func(h *harness) {
				h.agents = []configs.Agent{
					define("ops", nil, withTools(t.TempDir(), "write_artifact"), func(a *configs.Agent) {
						a.ToolConf = map[string]configs.ToolConfig{"write_artifact": {Timeout: 30 * time.Second}}
					}),
				}
				h.models["ops"] = turns(calls(use("write_artifact", "name", "a.md", "content", "x")), joinsResults)
				h.startWorker("w", workerOptions{atStep: func(s step) error {
					if s.Op == "store" && s.After {
						time.Sleep(after)
					}
					return nil
				}})
				h.awaitReady()
				root := h.submit("ops", "do it")
				h.eventually("the tool run has ended", func() bool { return len(h.outcomes(root.Reply(1, 0))) == 1 })
				o := h.outcomes(root.Reply(1, 0))[0]
				if o.Status != want || want == run.StatusCompleted && len(o.Artifacts) != 1 {
					t.Errorf("outcome %+v, want one of a tool that has written a.md: %s", o, want)
				}
			})
		})
	}
}

// TestCancelManyCommands: a tree is cancelled while many commands of one turn
// are at work. None of their processes goes on. It takes 20 commands, and 300
// with -rapid.checks. No test runs beside it, because others measure real time.
func TestCancelManyCommands(t *testing.T) {
	thorough(t)
	n := 20
	if full {
		n = 300
	}
	// No other process has this command line.
	sleep := []string{"sleep", strconv.Itoa(1_000_000 + os.Getpid())}
	commands := make([]provider.ToolCall, n)
	for i := range commands {
		commands[i] = use("run_command", "command", strings.Join(sleep, " ")+" & wait")
	}
	atWork := func() int { return countProcesses(t, sleep) }
	inRealTime(t, func(h *harness) {
		h.agents = []configs.Agent{define("ops", nil, withTools(t.TempDir(), "run_command"), func(a *configs.Agent) {
			a.ToolConf = map[string]configs.ToolConfig{"run_command": {Effect: configs.ToolReads}}
		})}
		h.models["ops"] = turns(calls(commands...), joinsResults)
		h.startWorker("w", workerOptions{Config: agentd.Config{Sandbox: agentd.NewSandbox(), ToolSlots: n}})
		h.awaitReady()
		root := h.submit("ops", "do it")
		h.eventually("all commands are at work", func() bool { return atWork() == n })
		cancelled := time.Now()
		h.publish(root.Cancel(), "")
		h.eventually("no process of a command is left", func() bool { return atWork() == 0 })
		t.Logf("%d commands: none was alive %v after the cancel message", n, time.Since(cancelled))
		h.eventually("all tool runs have ended", func() bool {
			for i := range n {
				if len(h.outcomes(root.Reply(1, i))) != 1 {
					return false
				}
			}
			return true
		})
		h.checkVerified()
	})
}

// countProcesses returns the number of processes with a command line.
func countProcesses(t *testing.T, args []string) (n int) {
	t.Helper()
	want := strings.Join(args, "\x00") + "\x00"
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		// The process may be gone.
		if b, err := os.ReadFile(file); err == nil && string(b) == want {
			n++
		}
	}
	return n
}

// TestToolCancelled: a cancel message ends a command at once. The output of the
// command stays on the stream.
func TestToolCancelled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inRealTime(t, func(h *harness) {
		h.agents = []configs.Agent{define("ops", nil, withTools(dir, "run_command"))}
		h.models["ops"] = turns(
			calls(use("run_command", "command", "echo begun; touch begun; sleep 1000 & wait")),
			joinsResults,
		)
		h.startWorker("w", workerOptions{Config: agentd.Config{Sandbox: agentd.NewSandbox()}})
		h.awaitReady()
		root := h.submit("ops", "do it")
		begun := func() bool { _, err := os.Stat(filepath.Join(dir, "begun")); return err == nil }
		h.eventually("the command has begun", begun)
		h.publish(root.Cancel(), "")
		o := h.awaitOutcome(root, time.Minute)
		if o.Kind != run.KindCancelled {
			t.Errorf("the run ended as %+v, want kind %s", o, run.KindCancelled)
		}
		tool := h.child(root, "ops", 0)
		h.eventually("the tool run has ended", func() bool { return len(h.outcomes(root.Reply(1, 0))) == 1 })
		late := false
		for _, m := range h.readAll(tool.All()) {
			late = late || strings.Contains(m.Subject, ".in.returned.") && strings.Contains(string(m.Body), `"begun\n"`)
		}
		if !late {
			t.Errorf("the output of the command is not on the stream:\n%s", h.dumpTree(root.Tree))
		}
		h.checkVerified()
	})
}

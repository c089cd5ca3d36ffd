package agentd_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// TestToolApproval: a turn that uses a tool of approve.tools waits for a
// person. An approval carries it out, with other arguments if it has some.
// After a denial the model reads the reason. A turn without such a tool does
// not wait. Without a decision the run fails at its deadline.
func TestToolApproval(t *testing.T) {
	t.Parallel()
	thorough(t)
	for _, test := range []struct{ name, decision, want, file string }{
		{"approved", `{"approve":true}`, "c0=wrote 3 bytes to a.txt", "one"},
		{
			"changed", `{"approve":true,"arguments":{"0":{"path":"a.txt","content":"other"}}}`,
			`c0=[A person approved of this call with other arguments: {"path":"a.txt","content":"other"}]` +
				"\nwrote 5 bytes to a.txt", "other",
		},
		{
			"denied", `{"approve":false,"reason":"not today"}`,
			"c0=Nothing of this turn was carried out: it was denied. not today", "",
		},
		{"undecided", "", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			withHarness(t, func(h *harness) {
				h.agents = []configs.Agent{
					define("mender", nil, withTools(dir, "list_directory", "write_file"), func(a *configs.Agent) {
						a.Approve = []string{"write_file"}
					}),
				}
				h.models["mender"] = turns(
					calls(use("list_directory", "path", ".")),
					calls(use("write_file", "path", "a.txt", "content", "one")),
					joinsResults,
				)
				h.startWorker("w", workerOptions{})
				h.awaitReady()
				root := h.submit("mender", "mend it")
				h.awaitRequests("mender", 2)
				time.Sleep(10 * time.Minute)
				if _, err := os.Stat(filepath.Join(dir, "a.txt")); err == nil {
					t.Error("the file was written before a person decided")
				}
				if test.decision != "" {
					h.publish(root.Approve(h.key("ann")), test.decision)
				}
				o := h.awaitOutcome(root, 2*time.Hour)
				if o.Result != test.want {
					t.Errorf("result %q, want %q", o.Result, test.want)
				}
				if timedOut := o.Kind == run.KindTimeout; timedOut != (test.decision == "") {
					t.Errorf("the run ended as %s %q, want a timeout: %t", o.Kind, o.Error, test.decision == "")
				}
				if b, _ := os.ReadFile(filepath.Join(dir, "a.txt")); string(b) != test.file {
					t.Errorf("the file is %q, want %q", b, test.file)
				}
				h.checkVerified()
			})
		})
	}
}

// TestToolApprovalUnproven: where the server proves no sender, no decision of
// an approver could count, and a run that may wait for one fails at its start.
// A run that needs no person goes on.
func TestToolApprovalUnproven(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		approvers := func(tools ...string) func(*configs.Agent) {
			return func(a *configs.Agent) { a.Approve, a.Approvers = tools, subjects.Approvers{"user:alice"} }
		}
		h.agents = []configs.Agent{
			define("mender", nil, withTools(t.TempDir(), "write_file"), approvers("write_file")),
			define("talker", nil, approvers()),
		}
		h.models["talker"] = says("hello")
		h.startWorker("w", workerOptions{Config: agentd.Config{Unproven: true}})
		h.awaitReady()
		h.expectFailed(h.submit("mender", "mend it"), run.KindError,
			"approve.by names users that the server has to prove, and this one proves none: "+
				"start workers on a bus whose users have permissions, and submit the task there")
		h.expectCompleted(h.submit("talker", "hello"), "hello")
	})
}

// TestToolApprovalUnattended: where no person can answer, a run with tools that
// a person approves fails at its start.
func TestToolApprovalUnattended(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("mender", nil, withTools(t.TempDir(), "write_file"), func(a *configs.Agent) {
				a.Approve = []string{"write_file"}
			}),
		}
		h.startWorker("w", workerOptions{Config: agentd.Config{Unattended: true}})
		h.awaitReady()
		h.expectFailed(h.submit("mender", "mend it"), run.KindError,
			"approve.tools names tools that a person approves, and nobody can answer here: "+
				"start workers on a bus that people can reach, and submit the task there")
	})
}

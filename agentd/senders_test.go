package agentd_test

import (
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// user returns a user of the bus with the role operator.
func (h *harness) user(name string) subjects.By {
	b, err := subjects.ParseBy("operator", name)
	if err != nil {
		h.tb.Fatal(err)
	}
	return b
}

// sign stores a message of a user, as a client does.
func (h *harness) sign(by subjects.By, subject, body string) {
	h.write(bus.Message{
		Subject: by.On(subject), Header: [][2]string{{subjects.HeaderSchema, subjects.Schema}}, Body: []byte(body),
	})
}

// TestSenders: two users submit the same id, which is one tree with the name of
// the first one. Of an agent with approvers, the decision of another user does
// not count, and neither does one without a proven sender. The approver's
// message is a trigger like any other.
func TestSenders(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("mender", nil, withTools(t.TempDir(), "write_file"), func(a *configs.Agent) {
				a.Approve, a.Approvers = []string{"write_file"}, subjects.Approvers{"user:alice"}
			}),
		}
		h.models["mender"] = turns(calls(use("write_file", "path", "a.txt", "content", "one")), joinsResults)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		alice, bob := h.user("alice"), h.user("bob")
		r := h.root("mender")
		h.sign(alice, r.Submit(), "mend it")
		h.awaitRequests("mender", 1)
		h.sign(bob, r.Submit(), "mend it")
		time.Sleep(time.Minute)
		made := h.readAll(r.Call())
		if len(made) != 1 || !strings.Contains(string(made[0].Body), `"by":{"role":"operator","user":"alice"}`) {
			t.Fatalf("%d calls of the root, want one by alice: %s", len(made), made[0].Body)
		}
		yes := `{"approve":true,"by":"alice"}`
		h.publish(r.Approve(h.key("unknown")), yes)
		h.publish(alice.On(r.Approve(h.key("bare"))), yes)
		h.sign(bob, r.Approve(h.key("bob")), yes)
		h.sign(bob, r.Approve(h.key("no")), `{"approve":false}`)
		time.Sleep(time.Minute)
		if n := len(h.requests("mender")); n != 1 {
			t.Fatalf("the model was asked %d times before the approver decided, want once", n)
		}
		began := time.Now()
		h.sign(alice, r.Approve(h.key("alice")), yes)
		h.expectCompleted(r, "c0=wrote 3 bytes to a.txt")
		h.tookAtMost(began, 10*time.Second)
		h.checkVerified()
	})
}

// TestSendersSteer: an interrupt with a sender aborts the request to the model,
// and mail with a sender wakes the run. The record of the sender of a cancel
// message ends nothing.
func TestSendersSteer(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil)}
		h.models["lead"] = turns(delayed(time.Hour, says("never")), says("done"))
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		alice := h.user("alice")
		r := h.submit("lead", "go")
		h.awaitRequests("lead", 1)
		began := time.Now()
		h.sign(alice, r.Cancel(), "")
		h.sign(alice, r.Interrupt(h.key("stop")), "")
		h.eventually("the run is idle", func() bool { return len(h.entries(r)) == 1 })
		h.tookAtMost(began, 10*time.Second)
		h.sign(alice, r.Mail(h.key("m")), `{"from":"user","text":"go on"}`)
		h.awaitRequests("lead", 2)
		h.tookAtMost(began, 20*time.Second)
		h.checkVerified()
	})
}

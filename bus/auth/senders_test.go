package auth_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/roles"
	"github.com/axebus/axe/subjects"
)

// TestSendersAreProven: an operator may not publish under the name of another
// one. The server stores a message there for it all the same: as the answer to
// a read or to a write, and as a scheduled message. None of them proves its
// sender, and a message that the user itself has sent does.
func TestSendersAreProven(t *testing.T) {
	dial := serve(t)
	provisioner := open(t, dial(roles.Provisioner))
	if err := provisioner.Provision(t.Context(), bus.Provision{}); err != nil {
		t.Fatal(err)
	}
	operator := open(t, dial(roles.Operator))
	if got := bus.By(operator).String(); got != "operator (operator)" {
		t.Errorf("the operator connects as %q", got)
	}
	if got := bus.By(open(t, dial(roles.Submitter))).String(); got != "submitter (submitter)" {
		t.Errorf("the submitter connects as %q", got)
	}
	const approve = "axe.run.lead.T1.r.in.approve."
	decision := bus.Message{
		Subject: approve + "own.by.operator.operator", Body: []byte(`{"approve":true}`),
		Header: [][2]string{{subjects.HeaderSchema, subjects.Schema}},
	}
	if _, err := operator.Write(t.Context(), decision); err != nil {
		t.Fatal(err)
	}
	forged := decision
	forged.Subject = approve + "forged.by.operator.alice"
	if _, err := operator.Write(t.Context(), forged); !bus.Forbidden(err) {
		t.Errorf("the operator writes as alice: %v, want a violation", err)
	}

	nc, _ := operator.NATS()
	schema := nats.Header{subjects.HeaderSchema: {subjects.Schema}}
	read := `{"last_by_subj":"` + decision.Subject + `"}`
	for _, m := range []*nats.Msg{
		{Subject: "$JS.API.DIRECT.GET.AXE_RUNS", Reply: approve + "read.by.operator.alice", Data: []byte(read)},
		{Subject: "$JS.API.STREAM.MSG.GET.AXE_RUNS", Reply: approve + "get.by.operator.alice", Data: []byte(read)},
		{
			Subject: approve + "again.by.operator.operator", Reply: approve + "answer.by.operator.alice",
			Header: schema, Data: decision.Body,
		},
		{
			Subject: "axe.timer.lead.T1.r.0", Data: decision.Body, Header: nats.Header{
				subjects.HeaderSchema:  {subjects.Schema},
				"Nats-Schedule":        {"@at " + time.Now().UTC().Format(time.RFC3339)},
				"Nats-Schedule-Target": {approve + "timer.by.operator.alice"},
			},
		},
	} {
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	observer := open(t, dial(roles.Observer))
	for _, key := range []string{"read", "get", "answer", "timer"} {
		subject := approve + key + ".by.operator.alice"
		m := awaitStored(t, observer, subject)
		if m.ProvesSender() {
			t.Errorf("%s proves alice, with the header %v and the body %s", subject, m.Header, m.Body)
		}
		if stored := bus.Written(bus.StoredHeader(m), m.Body); stored.ProvesSender() {
			t.Errorf("%s proves alice after an export, with the header %v", subject, stored.Header)
		}
	}
	if m := awaitStored(t, observer, decision.Subject); !m.ProvesSender() {
		t.Errorf("%s does not prove the operator, with the header %v", decision.Subject, m.Header)
	}
}

// awaitStored waits for a message under a subject.
func awaitStored(t *testing.T, c *bus.Conn, subject string) bus.Stored {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		m, ok, err := c.First(t.Context(), subject)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return m
		}
	}
	t.Fatalf("no message at %s", subject)
	return bus.Stored{}
}

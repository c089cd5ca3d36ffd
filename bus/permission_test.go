package bus

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// denyingT serves two users with the password x, and returns the URL. The user
// op may do everything. The user bound may not publish to a subject.
func denyingT(t *testing.T, subject string) (url string) {
	t.Helper()
	permissions := &server.Permissions{
		Publish:   &server.SubjectPermission{Deny: []string{subject}},
		Subscribe: &server.SubjectPermission{Allow: []string{">"}},
	}
	return natsT(t, &server.Options{
		JetStream: true, StoreDir: t.TempDir(),
		Users: []*server.User{
			{Username: "op", Password: "x"}, {Username: "bound", Password: "x", Permissions: permissions},
		},
	})
}

// TestForbidden: the server refuses a request for want of a permission. The
// request fails at once, and its error names the subject. The permitted
// requests before it succeed.
func TestForbidden(t *testing.T) {
	const submit = "axe.submit.lead.t1"
	for _, test := range []struct{ forbidden, want string }{
		{"$JS.API.STREAM.INFO.AXE_RUNS", `stream AXE_RUNS: nats: permissions violation: `},
		{"$JS.API.DIRECT.GET.AXE_RUNS", `nats: permissions violation: `},
		{submit, "write " + submit + ": nats: permissions violation: "},
	} {
		url := denyingT(t, test.forbidden)
		openT(t, Dial{URL: url, User: "op", Password: "x"}, true)
		c := openT(t, Dial{URL: url, User: "bound", Password: "x"}, false)
		began := time.Now()
		err := c.Provisioned(t.Context())
		if err == nil {
			_, _, err = c.First(t.Context(), "axe.run.lead.t1.r.call")
		}
		if err == nil {
			_, err = c.Write(t.Context(), Message{Subject: submit})
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.forbidden) {
			t.Errorf("got %v, want an error with %s and %s", err, test.want, test.forbidden)
		}
		if !Forbidden(err) || time.Since(began) > answerTimeout {
			t.Errorf("got %v after %v, want a violation within %v", err, time.Since(began), answerTimeout)
		}
	}
}

// TestTrimForbidden: a user without the permission to remove memory gets the
// violation, and does not wait for the end of its context.
func TestTrimForbidden(t *testing.T) {
	const purge = "$JS.API.STREAM.PURGE.KV_AXE_MEMORY"
	url := denyingT(t, purge)
	op := openT(t, Dial{URL: url, User: "op", Password: "x"}, true)
	agent := agentT(t, "lead")
	appendT(t, op.Memory(), agent, "one", "two")
	c := openT(t, Dial{URL: url, User: "bound", Password: "x"}, false)
	ctx, cancel := context.WithTimeout(t.Context(), answerTimeout)
	defer cancel()
	_, err := c.Memory().Trim(ctx, agent, 1)
	if !Forbidden(err) || !strings.Contains(err.Error(), purge) || ctx.Err() != nil {
		t.Errorf("got %v, context %v; want the violation of %s at once", err, ctx.Err(), purge)
	}
}

// violation returns the client library's error for a refused publish.
func violation(subject string) error {
	return fmt.Errorf("%w: Permissions Violation for Publish to %q", nats.ErrPermissionViolation, subject)
}

// TestForbiddenNamesTheRequest: a permission violation names a subject, and
// ends the request to that subject. If no request has the subject, it ends the
// requests of the client library, whose subjects are unknown. The violation of
// a message without an answer ends none.
func TestForbiddenNamesTheRequest(t *testing.T) {
	f := newInflight()
	named, a := f.begin(t.Context(), "a.b")
	library, l := f.begin(t.Context(), "")
	defer a.done()
	defer l.done()
	f.violated(violation("a"))
	if named.Err() != nil {
		t.Error("the request to a.b ended with the violation of a")
	}
	if library.Err() == nil || !Forbidden(l.reason(errBroken)) {
		t.Errorf("the library's request: got %v, want the violation", l.reason(errBroken))
	}
	library, again := f.begin(t.Context(), "")
	defer again.done()
	for _, unanswered := range []string{"_INBOX.x", "_INBOX_ann.x", "axe.live.part.lead.t1.r", "$JS.ACK.AXE_RUNS.x"} {
		if f.violated(violation(unanswered)) || library.Err() != nil {
			t.Errorf("a request of the library ended with the violation of a message to %s", unanswered)
		}
	}
	if !f.violated(violation("a.b")) || named.Err() == nil || !Forbidden(a.reason(errBroken)) {
		t.Errorf("the request to a.b: got %v, want the violation", a.reason(errBroken))
	}
	a.done()
	l.done()
	again.done()
	if f.violated(violation("a.b")) {
		t.Error("a violation ended a request, and none is open")
	}
}

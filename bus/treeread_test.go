package bus

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/subjects"
)

// allow returns the permissions of a user with inboxes of its own.
func allow(user string, publish ...string) *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: append(publish, "none")},
		Subscribe: &server.SubjectPermission{Allow: []string{subjects.Inboxes(user) + ".>"}},
	}
}

// restrictedT starts a server with two users: op may do everything, and sub has
// permissions to publish. It returns a connection of op, which serves reads of
// trees, and the Dial of sub.
func restrictedT(t *testing.T, publish ...string) (op *Conn, sub Dial) {
	t.Helper()
	url := natsT(t, &server.Options{
		JetStream: true, StoreDir: t.TempDir(),
		Users: []*server.User{
			{Username: "op", Password: "x"}, {Username: "sub", Password: "x", Permissions: allow("sub", publish...)},
		},
	})
	op = openT(t, Dial{URL: url, User: "op", Password: "x"}, true)
	if err := ServeTreeReads(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	return op, Dial{URL: url, User: "sub", Password: "x"}
}

// TestTreeReads: a user that may only ask the workers for reads of trees reads
// as any other: by the first message, the last one, the leader's last one, the
// counts, a scan, a large body, an artifact and the clock of a stream.
func TestTreeReads(t *testing.T) {
	op, dial := restrictedT(t, "axe.read.>")
	op.cfg.MaxBody = 10 << 20
	tree, err := subjects.ParseTree("T1")
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 2<<20)
	for _, m := range []Message{
		{Subject: "axe.run.lead.T1.r.call", Body: []byte("task")},
		{Subject: "axe.run.lead.T1.r.log", Body: []byte("one")},
		{Subject: "axe.run.lead.T1.r.log", Body: []byte("two")},
		{Subject: "axe.run.lead.T2.r.log", Body: []byte("another tree")},
		{Subject: "axe.result.lead.T1", Body: []byte(large)},
		{Subject: "axe.submit.lead.T1", Body: []byte("submission")},
	} {
		if _, err := op.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := ArtifactsOf(op, tree).Store(t.Context(), Artifact{Name: "a.txt"}, []byte("artifact"))
	if err != nil {
		t.Fatal(err)
	}

	c := openT(t, dial, false)
	if err := c.Provisioned(t.Context()); err != nil || !Restricted(c) || c.Replicas() != 1 {
		t.Fatalf("got %v, restricted %v, %d replicas; want a restricted connection", err, Restricted(c), c.Replicas())
	}
	space := c.Space()
	first, ok, err := c.First(t.Context(), "axe.run.lead.T1.r.log")
	if err != nil || !ok || string(first.Body) != "one" {
		t.Errorf("first: %s, %v, %v", first.Body, ok, err)
	}
	last, err := c.LastPerSubject(t.Context(), space.CallOf(tree, subjects.Root), "axe.run.lead.T1.r.log")
	if err != nil || len(last) != 2 || string(last[1].Body) != "two" {
		t.Errorf("last: %v, %v", last, err)
	}
	if seq, err := c.LastSeq(t.Context(), space.TreeOf(tree)); err != nil || seq != 3 {
		t.Errorf("last sequence %d, %v, want 3", seq, err)
	}
	all, err := c.ReadBySubject(t.Context(), space.TreeOf(tree), 0)
	if err != nil || len(all) != 3 {
		t.Errorf("by subject: %d messages, %v, want 3", len(all), err)
	}
	if all, err = c.ReadByScan(t.Context(), space.TreeOf(tree), 0); err != nil || len(all) != 3 {
		t.Errorf("by scan: %d messages, %v, want 3", len(all), err)
	}
	if m, ok, err := c.QueuedSubmission(t.Context(), space.SubmissionOf(tree)...); err != nil || !ok ||
		string(m.Body) != "submission" {
		t.Errorf("submission: %s, %v, %v", m.Body, ok, err)
	}
	result, ok, err := c.First(t.Context(), "axe.result.lead.T1")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if body, err := c.Load(t.Context(), result); err != nil || string(body) != large {
		t.Errorf("large body: %d bytes, %v, want %d", len(body), err, len(large))
	}
	var artifact strings.Builder
	a, err := ArtifactsOf(c, tree).Find(t.Context(), "a.txt")
	if err != nil || a.Digest != stored.Digest {
		t.Fatalf("artifact: %v, %v", a, err)
	}
	if err := ArtifactsOf(c, tree).Copy(t.Context(), &artifact, a); err != nil || artifact.String() != "artifact" {
		t.Errorf("artifact: %q, %v", artifact.String(), err)
	}
	clock := c.Clocks.Submissions()
	if passed, err := clock.Passed(t.Context(), clock.Now().Add(-time.Minute)); !passed || err != nil {
		t.Errorf("a minute ago has passed: %t, %v; want true", passed, err)
	}
	// A read of more than a tree takes the right to read the stream.
	if _, err := c.ReadByScan(t.Context(), space.Timers(), 0); !Forbidden(err) ||
		!strings.Contains(err.Error(), "$JS.API.DIRECT.GET.AXE_RUNS") {
		t.Errorf("all timers: %v, want a violation that names the subject", err)
	}
}

// TestTreeReadsRefuse: a request for a read of a tree gets no message of
// another one, no list of subjects, and no other use of JetStream. The answer
// goes to no subject but an inbox.
func TestTreeReadsRefuse(t *testing.T) {
	op, dial := restrictedT(t, ">")
	nc, _ := connectT(t, dial)
	for _, m := range []Message{
		{Subject: "axe.run.lead.T1.r.log", Body: []byte("mine")},
		{Subject: "axe.run.lead.T2.r.log", Body: []byte("secret")},
		{Subject: "axe.submit.lead.T2", Body: []byte("secret")},
	} {
		if _, err := op.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := subjects.ParseTree("T2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ArtifactsOf(op, tree).Store(t.Context(), Artifact{Name: "a"}, []byte("secret")); err != nil {
		t.Fatal(err)
	}
	meta := metaSubject(op.Space(), ArtifactObject(tree, "a"))
	const granted = "grant.UCWPRUE2QEV7B3RMJLYHN6FDXBPTIV4XMHLAHMNXJKLPYQMZQ2AY2S6T"
	for _, test := range []struct{ api, body string }{
		{"T1.DIRECT.GET.AXE_RUNS", `{"next_by_subj":"axe.run.lead.T2.r.log","seq":1}`},
		{"T1.DIRECT.GET.AXE_RUNS", `{"next_by_subj":"axe.run.lead.*.r.log","seq":1}`},
		{"T1.DIRECT.GET.AXE_RUNS", `{"next_by_subj":"axe.run.>","seq":1}`},
		{"T1.DIRECT.GET.AXE_RUNS", `{"next_by_subj":">","seq":1}`},
		{"T1.DIRECT.GET.AXE_RUNS", `{"seq":2}`},
		{"T1.DIRECT.GET.AXE_RUNS", ``},
		{"T1.DIRECT.GET.AXE_RUNS", `{"multi_last":["axe.run.*.T1.>","axe.run.*.T2.>"]}`},
		{"T1.DIRECT.GET.AXE_RUNS", `{"multi_last":[]}`},
		{"T1.DIRECT.GET.AXE_RUNS", `{"last_by_subj":"axe.run.lead.T2.r.log"}`},
		{"T1.DIRECT.GET.AXE_RUNS", `{"last_by_subj":"axe.run.lead.T1.>","next_by_subj":"axe.run.>"}`},
		{"T1.DIRECT.GET.AXE_RUNS", `{"up_to_time":"2026-01-01T00:00:00Z","next_by_subj":"axe.run.lead.T1.r.log"}`},
		{"T1.DIRECT.GET.AXE_RUNS.axe.run.lead.T2.r.log", ``},
		{"*.DIRECT.GET.AXE_RUNS", `{"next_by_subj":"axe.run.*.*.>","seq":1}`},
		{"_.DIRECT.GET.AXE_RUNS", `{"next_by_subj":"axe.run._.>","seq":1}`},
		{"T1.STREAM.MSG.GET.AXE_RUNS", `{"seq":2}`},
		{"T1.STREAM.MSG.GET.AXE_SUBMIT", `{"last_by_subj":"axe.submit.lead.T2"}`},
		{"T1.STREAM.MSG.GET.AXE_SUBMIT", `{"last_by_subj":"axe.submit.>"}`},
		{"T1.STREAM.MSG.GET.KV_AXE_AGENTS", `{"last_by_subj":"$KV.AXE_AGENTS.lead"}`},
		{"_.STREAM.MSG.GET.KV_AXE_AGENTS", `{"last_by_subj":"$KV.AXE_AGENTS.grant.*"}`},
		{"_.STREAM.MSG.GET.KV_AXE_AGENTS", `{"next_by_subj":"$KV.AXE_AGENTS.` + granted + `","seq":1}`},
		{"_.STREAM.MSG.GET.KV_AXE_AGENTS", `{"last_by_subj":"$KV.AXE_AGENTS.` + granted + `","seq":1}`},
		{"_.DIRECT.GET.KV_AXE_AGENTS", `{"next_by_subj":"$KV.AXE_AGENTS.` + granted + `","seq":1}`},
		{"_.STREAM.INFO.KV_AXE_AGENTS", ``},
		{"T1.STREAM.MSG.GET.OBJ_AXE_OBJECTS", `{"last_by_subj":"` + meta + `"}`},
		{"T1.STREAM.MSG.GET.OBJ_AXE_OBJECTS", `{"last_by_subj":"$O.AXE_OBJECTS.M.*"}`},
		{"T1.DIRECT.GET.OBJ_AXE_OBJECTS", `{"next_by_subj":"$O.AXE_OBJECTS.C.>","seq":1}`},
		{"T1.DIRECT.GET.OBJ_AXE_OBJECTS", `{"next_by_subj":"axe.run.lead.T1.r.log","seq":1}`},
		{"T1.STREAM.INFO.AXE_RUNS", `{"subjects_filter":">"}`},
		{"_.STREAM.INFO.AXE_RUNS", `{"subjects_filter":"axe.run.*.T1.>"}`},
		{"T1.STREAM.INFO.AXE_RUNS", `{"deleted_details":true}`},
		{"T1.STREAM.PURGE.AXE_RUNS", `{"filter":"axe.run.lead.T1.r.log"}`},
		{"T1.STREAM.MSG.DELETE.AXE_RUNS", `{"seq":1}`},
		{"T1.STREAM.NAMES", ``},
		{"T1.INFO", ``},
		{"T1.CONSUMER.CREATE.AXE_RUNS", `{}`},
		{"T1.STREAM.INFO.OTHER", ``},
	} {
		m, err := nc.Request("axe.read."+test.api, []byte(test.body), time.Second)
		if err != nil {
			t.Errorf("%s %s: %v, want a refusal", test.api, test.body, err)
			continue
		}
		if m.Header.Get("Status") != "403" || strings.Contains(string(m.Data), "secret") {
			t.Errorf("%s %s: got %v %s, want a refusal", test.api, test.body, m.Header, m.Data)
		}
	}
	// A reply subject that is no inbox gets nothing, and so does one that
	// may be a stream's.
	for _, reply := range []string{"axe.run.lead.T2.r.cancel", "axe.submit.lead.T3", "$JS.API.STREAM.PURGE.AXE_RUNS"} {
		body := []byte(`{"last_by_subj":"axe.run.lead.T1.r.log"}`)
		err := nc.PublishRequest("axe.read.T1.DIRECT.GET.AXE_RUNS", reply, body)
		if err = errors.Join(err, nc.Flush(), op.nc.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	// The worker answers requests in their order.
	if _, err := nc.Request("axe.read._.STREAM.INFO.AXE_RUNS", nil, time.Second); err != nil {
		t.Fatal(err)
	}
	if got, err := op.ReadByScan(t.Context(), "axe.run.>", 0); err != nil || len(got) != 2 {
		t.Errorf("the stream has %d messages, %v, want the two of before", len(got), err)
	}
}

// TestNoReader: without a worker the error says so, and names the missing
// permission.
func TestNoReader(t *testing.T) {
	url := natsT(t, &server.Options{
		JetStream: true, StoreDir: t.TempDir(),
		Users: []*server.User{{Username: "sub", Password: "x", Permissions: allow("sub", "axe.read.>")}},
	})
	c := openT(t, Dial{URL: url, User: "sub", Password: "x"}, false)
	err := c.Provisioned(t.Context())
	if !errors.Is(err, ErrNoReader) || !Forbidden(err) ||
		!strings.Contains(err.Error(), "$JS.API.STREAM.INFO.AXE_RUNS") {
		t.Errorf("got %v, want that no worker answers", err)
	}
}

// TestInboxes: a user with a name has inboxes of its own, if the server lets it
// subscribe to them. Otherwise it shares those of the client library, or those
// that it names. A user that may subscribe to none fails at once, with the
// subject in the error.
func TestInboxes(t *testing.T) {
	permit := func(inboxes string) *server.Permissions {
		return &server.Permissions{Subscribe: &server.SubjectPermission{Allow: []string{inboxes}}}
	}
	url := natsT(t, &server.Options{
		JetStream: true, StoreDir: t.TempDir(),
		Users: []*server.User{
			{Username: "all", Password: "x"},
			{Username: "own", Password: "x", Permissions: permit("_INBOX_own.>")},
			{Username: "old", Password: "x", Permissions: permit("_INBOX.>")},
			{Username: "odd.name", Password: "x", Permissions: permit("_INBOX.>")},
			{Username: "named", Password: "x", Permissions: permit("_INBOX_other.>")},
			{Username: "deaf", Password: "x", Permissions: permit("none")},
		},
	})
	openT(t, Dial{URL: url, User: "all", Password: "x"}, true)
	got := map[string]string{}
	for _, d := range []Dial{
		{User: "all"}, {User: "own"}, {User: "old"}, {User: "odd.name"}, {User: "named", InboxPrefix: "_INBOX_other"},
	} {
		d.URL, d.Password = url, "x"
		c := openT(t, d, false)
		if err := c.Provisioned(t.Context()); err != nil {
			t.Errorf("%s: %v", d.User, err)
		}
		got[d.User], _, _ = strings.Cut(c.nc.NewInbox(), ".")
	}
	want := map[string]string{
		"all": "_INBOX_all", "own": "_INBOX_own", "old": "_INBOX", "odd.name": "_INBOX", "named": "_INBOX_other",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inboxes (-want +got):\n%s", diff)
	}
	c := openT(t, Dial{URL: url, User: "deaf", Password: "x"}, false)
	began := time.Now()
	for range 2 {
		if err := c.Provisioned(t.Context()); !Forbidden(err) || !strings.Contains(err.Error(), `to "_INBOX`) {
			t.Errorf("deaf: got %v, want the violation", err)
		}
	}
	if time.Since(began) > answerTimeout/2 {
		t.Errorf("a violation took %v", time.Since(began))
	}
	const advice = `must be _INBOX or _INBOX_NAME, got "axe.run"`
	if err := refused(t, Dial{URL: url, InboxPrefix: "axe.run"}); !strings.Contains(err.Error(), advice) {
		t.Errorf("got %v, want advice", err)
	}
}

// TestSubscriptionViolation: the violation of a subscription ends no request.
// One of Watch is expected, and so is not logged.
func TestSubscriptionViolation(t *testing.T) {
	f := newInflight()
	library, l := f.begin(t.Context(), "")
	defer l.done()
	why := errors.New(`Permissions Violation for Subscription to "axe.live.>"`)
	err := errors.Join(nats.ErrPermissionViolation, why)
	if f.violated(err) || library.Err() != nil {
		t.Error("a request ended with the violation of a subscription")
	}
	f.view("axe.live.>")
	if !f.violated(err) || library.Err() != nil {
		t.Error("the violation of a view is not expected, or has ended a request")
	}
}

// TestEndedWatchesAreForgotten: the violation of a watch is expected for some
// seconds after its end. Nothing is left of it then.
func TestEndedWatchesAreForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Conn) {
		t.Helper()
		ctx, end := context.WithCancel(t.Context())
		for i := range 1000 {
			if err := c.Watch(ctx, fmt.Sprint("axe.live.", i/2), func(Stored) {}); err != nil {
				t.Fatal(err)
			}
		}
		end()
		synctest.Wait()
		left := func() int {
			c.inflight.mu.Lock()
			defer c.inflight.mu.Unlock()
			return len(c.inflight.views)
		}
		if n := left(); n != 500 {
			t.Errorf("%d subjects are noted at the end of the watches, want 500", n)
		}
		time.Sleep(2 * answerTimeout)
		if n := left(); n != 0 {
			t.Errorf("%d subjects are noted after the end of the watches, want 0", n)
		}
	})
}

// TestCredsName: the name of a user stands in the JWT of its creds file.
func TestCredsName(t *testing.T) {
	claims, err := json.Marshal(map[string]string{"name": "submitter"})
	if err != nil {
		t.Fatal(err)
	}
	jwt := "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".x"
	creds := "-----BEGIN NATS USER JWT-----\n" + jwt + "\n------END NATS USER JWT------\n"
	for content, want := range map[string]string{creds: "submitter", "nothing": "", "": ""} {
		if got := credsName(fileT(t, "u.creds", []byte(content))); got != want {
			t.Errorf("name %q, want %q", got, want)
		}
	}
}

package bus

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/axebus/axe/bus/grant"
	"github.com/axebus/axe/subjects"
)

// signingT starts a server, and returns a connection that signs with a new key
// and requires signatures. The key has a grant for the agent reader.
func signingT(t *testing.T) (c *Conn, key string, account nkeys.KeyPair) {
	t.Helper()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	if account, err = nkeys.CreateAccount(); err != nil {
		t.Fatal(err)
	}
	key, _ = user.PublicKey()
	signer, _ := account.PublicKey()
	url := natsT(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})
	c, err = Open(t.Context(), Config{Dial: Dial{URL: url}, SignKey: user, Signers: []string{signer}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Provision(t.Context(), Provision{}); err != nil {
		t.Fatal(err)
	}
	token, err := grant.Grant{Key: key, Agents: []subjects.Agent{agentT(t, "reader")}}.Sign(c.Space(), account)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := StoreGrant(t.Context(), c, token); err != nil {
		t.Fatal(err)
	}
	watchT(t, c)
	return c, key, account
}

// watchT follows the bucket of known agents until the test ends. It returns
// once the connection knows the present values.
func watchT(t *testing.T, c *Conn) {
	t.Helper()
	d, err := c.Directory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	caught, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.Watch(ctx, func(key string, _ []byte) { t.Errorf("the watch shows %s", key) }, func() { close(caught) })
	}()
	t.Cleanup(func() { stop(); <-ended })
	<-caught
}

// storeT stores a signed message, and reads it.
func storeT(t *testing.T, c *Conn, subject, body string) Stored {
	t.Helper()
	_, err := c.Write(t.Context(), Message{Subject: subject, Body: []byte(body), ID: subject, Sign: true})
	if err != nil {
		t.Fatal(err)
	}
	m, ok, err := c.First(t.Context(), subject)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return m
}

// TestSignatures: a signed message counts for the agent of the key's grant. A
// large body counts by its content, also when it is gone, and another content
// under its name does not.
func TestSignatures(t *testing.T) {
	c, key, _ := signingT(t)
	reader, other := agentT(t, "reader"), agentT(t, "other")
	small, large := "small", strings.Repeat("x", 2<<20)
	for subject, body := range map[string]string{"axe.result.reader.T1": small, "axe.result.reader.T2": large} {
		m := storeT(t, c, subject, body)
		if id := m.Header.Get("Nats-Msg-Id"); id == "" || id == subject {
			t.Errorf("%s has the id %q, want one that cannot be guessed", subject, id)
		}
		loaded, err := c.Load(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		isLarge := m.LargeBody() != ""
		if isLarge != (body == large) {
			t.Fatalf("%s is by reference: %v", subject, isLarge)
		}
		for _, tt := range []struct {
			body  []byte
			gone  bool
			agent subjects.Agent
			why   string
		}{
			{loaded, false, reader, ""},
			{loaded, false, other, "the key has no grant for the agent"},
			{append([]byte("y"), loaded...), false, reader, "the signature is not of this subject and body"},
			{nil, false, reader, "the signature is not of this subject and body"},
		} {
			got, err := c.Grants.Check(t.Context(), m, tt.body, tt.gone, tt.agent)
			if err != nil || got.Why != tt.why || got.OtherAgent != (tt.agent == other) ||
				tt.why != "" && got.Key != key {
				t.Errorf("%s, %d bytes: %+v, %v, want %q", subject, len(tt.body), got, err, tt.why)
			}
		}
		gone, err := c.Grants.Check(t.Context(), m, nil, true, reader)
		if err != nil || (gone.Why == "") != isLarge {
			t.Errorf("%s, without its object: %+v, %v", subject, gone, err)
		}
		moved := m
		moved.Subject = "axe.result.reader.T3"
		if got, err := c.Grants.Check(t.Context(), moved, loaded, false, reader); err != nil || got.Why == "" {
			t.Errorf("%s counts under another subject: %v", subject, err)
		}
	}
}

// TestGrantIsNotBroughtBack: the server stores an answer with an old grant
// under the key of the grant, as it does for a user that may only read. It is
// no grant.
func TestGrantIsNotBroughtBack(t *testing.T) {
	c, key, account := signingT(t)
	m := storeT(t, c, "axe.result.reader.T1", "x")
	old, err := grant.Grant{Key: key}.Sign(c.Space(), account)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(t.Context(), Message{Subject: "axe.run.reader.T1.r.log", Body: []byte(old)}); err != nil {
		t.Fatal(err)
	}
	before := lastAgentsT(t, c)
	read := &nats.Msg{
		Subject: "$JS.API.DIRECT.GET.AXE_RUNS", Reply: "$KV.AXE_AGENTS." + grantPrefix + key,
		Data: []byte(`{"last_by_subj":"axe.run.reader.T1.r.log"}`),
	}
	if err := c.nc.PublishMsg(read); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); lastAgentsT(t, c) == before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the server stores no answer")
		}
	}
	fresh, err := newGrants(c, c.cfg.Signers)
	if err != nil {
		t.Fatal(err)
	}
	got, err := fresh.Check(t.Context(), m, m.Body, false, agentT(t, "other"))
	if err != nil || got.Why != "the key has no grant" {
		t.Errorf("got %+v, %v, want no grant", got, err)
	}
	if all, err := ReadGrants(t.Context(), c, ""); err != nil || len(all) != 0 {
		t.Errorf("the list has %v, %v", all, err)
	}
}

// lastAgentsT is the last sequence of the bucket of known agents.
func lastAgentsT(t *testing.T, c *Conn) uint64 {
	t.Helper()
	info, err := c.Health.info(t.Context(), "KV_AXE_AGENTS")
	if err != nil {
		t.Fatal(err)
	}
	return info.State.LastSeq
}

// TestUnsignedBus: without a grant of its key, a connection signs nothing, and
// without signers everything counts.
func TestUnsignedBus(t *testing.T) {
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	url := natsT(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})
	c, err := Open(t.Context(), Config{Dial: Dial{URL: url}, SignKey: user})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Provision(t.Context(), Provision{}); err != nil {
		t.Fatal(err)
	}
	watchT(t, c)
	m := storeT(t, c, "axe.result.reader.T1", "x")
	if s := m.Header.Get(subjects.HeaderSignature); s != "" || m.Header.Get("Nats-Msg-Id") != m.Subject {
		t.Errorf("the message has the signature %q and the id %s", s, m.Header.Get("Nats-Msg-Id"))
	}
	got, err := c.Grants.Check(t.Context(), m, m.Body, false, agentT(t, "reader"))
	if err != nil || got != (Refusal{}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := Open(t.Context(), Config{Dial: Dial{URL: url}, Signers: []string{"me"}}); err == nil {
		t.Error("a signer without a key was taken")
	}
}

package grant_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/axebus/axe/bus/grant"
	"github.com/axebus/axe/subjects"
)

// An operator grants an agent to the key of a worker. A reader that knows the
// operator's public key counts the worker's outcomes for this agent alone.
func Example() {
	operator, _ := nkeys.CreateAccount()
	worker, _ := nkeys.CreateUser()
	key, _ := worker.PublicKey()
	reader, _ := subjects.ParseAgent("reader")
	lead, _ := subjects.ParseAgent("lead")

	token, _ := grant.Grant{Key: key, Agents: []subjects.Agent{reader}}.Sign(subjects.Space{}, operator)
	g, err := grant.Parse(subjects.Space{}, token)
	signer, _ := operator.PublicKey()
	fmt.Println(err, g.Signer == signer, g.Covers(reader), g.Covers(lead))
	// Output: <nil> true true false
}

// keys returns the key of an account and the public key of a user.
func keys(tb testing.TB) (account nkeys.KeyPair, user string) {
	tb.Helper()
	account, err := nkeys.CreateAccount()
	if err != nil {
		tb.Fatal(err)
	}
	key, err := nkeys.CreateUser()
	if err != nil {
		tb.Fatal(err)
	}
	user, err = key.PublicKey()
	if err != nil {
		tb.Fatal(err)
	}
	return account, user
}

// agents parses names.
func agents(tb testing.TB, names ...string) (all []subjects.Agent) {
	tb.Helper()
	for _, name := range names {
		a, err := subjects.ParseAgent(name)
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

// TestGrant: a signed grant reads as it was written, covers its agents and no
// others, and has ended from its end on.
func TestGrant(t *testing.T) {
	account, user := keys(t)
	signer, _ := account.PublicKey()
	ends := time.Now().Add(time.Hour).Truncate(time.Second)
	want := grant.Grant{Key: user, Agents: agents(t, "lead", "reader"), Ends: ends}
	token, err := want.Sign(subjects.Space{}, account)
	if err != nil {
		t.Fatal(err)
	}
	got, err := grant.Parse(subjects.Space{}, token+"\n")
	if err != nil {
		t.Fatal(err)
	}
	if age := time.Since(got.Signed); age < 0 || age > time.Minute {
		t.Errorf("the grant was signed %s ago", age)
	}
	want.Signer, want.Signed = signer, got.Signed
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b subjects.Agent) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	reader, other := agents(t, "reader")[0], agents(t, "other")[0]
	if !got.Covers(reader) || got.Covers(other) || !(grant.Grant{}).Covers(other) {
		t.Error("a grant must cover its agents alone, or all without any")
	}
	if got.EndedAt(ends.Add(-time.Second)) || !got.EndedAt(ends) || (grant.Grant{}).EndedAt(ends) {
		t.Error("a grant must end at its end, and one without an end never")
	}
}

// TestNoGrant: other JWTs, and grants for another bus, are refused. The token
// of a grant with another content is refused too.
func TestNoGrant(t *testing.T) {
	account, user := keys(t)
	other, err := subjects.NewSpace("other")
	if err != nil {
		t.Fatal(err)
	}
	good, err := grant.Grant{Key: user}.Sign(subjects.Space{}, account)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := grant.Grant{Key: user}.Sign(other, account)
	if err != nil {
		t.Fatal(err)
	}
	person, err := jwt.NewUserClaims(user).Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	selfMade, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.NewGenericClaims(user)
	claims.Audience, claims.Data["type"], claims.Data["agents"] = subjects.Space{}.Prefix(), "axe_grant", []any{}
	self, err := claims.Encode(selfMade)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	content, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(content, &fields); err != nil {
		t.Fatal(err)
	}
	fields["exp"] = 1
	if content, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	parts[1] = base64.RawURLEncoding.EncodeToString(content)
	for name, token := range map[string]string{
		"empty": "", "a card": `{"name":"lead"}`, "of a user": person, "self-made": self, "another bus": elsewhere,
		"changed": strings.Join(parts, "."), "cut": good[:len(good)-1],
	} {
		if g, err := grant.Parse(subjects.Space{}, token); err == nil {
			t.Errorf("%s: a grant %v, want an error", name, g)
		}
	}
	if _, err := (grant.Grant{Key: user}).Sign(subjects.Space{}, selfMade); err == nil {
		t.Error("a user has signed a grant")
	}
	if _, err := (grant.Grant{Key: "lead"}).Sign(subjects.Space{}, account); err == nil {
		t.Error("a grant for a name was signed")
	}
}

// FuzzParse: no token makes Parse panic, also not a signed one with any header
// and content.
func FuzzParse(f *testing.F) {
	account, user := keys(f)
	signer, _ := account.PublicKey()
	for _, head := range []string{"ed25519", "ed25519-nkey", "none"} {
		f.Add(`{"typ":"JWT","alg":"`+head+`"}`, `{"iss":"`+signer+`","sub":"`+user+`"}`)
	}
	f.Add(`{"typ":"JWT","alg":"ed25519-nkey"}`, `{"iss":"`+signer+`","sub":"`+user+`","nats":{"type":"axe_grant"}}`)
	f.Fuzz(func(_ *testing.T, head, content string) {
		encode := base64.RawURLEncoding.EncodeToString
		text := encode([]byte(head)) + "." + encode([]byte(content))
		for _, signed := range []string{text, encode([]byte(content))} {
			sig, err := account.Sign([]byte(signed))
			if err == nil {
				_, _ = grant.Parse(subjects.Space{}, text+"."+encode(sig))
			}
		}
	})
}

package bus

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/axebus/axe/subjects"
)

// TestBy: a connection has the user that its permissions pin, as the server
// tells it. It has none if they pin no user, if the server may not be asked,
// and for a user without permissions.
func TestBy(t *testing.T) {
	const pinned = "axe.submit.*.*.by.operator.alice"
	permitted := func(publish ...string) *server.Permissions {
		return &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: publish},
			Subscribe: &server.SubjectPermission{Allow: []string{">"}},
		}
	}
	url := natsT(t, &server.Options{
		JetStream: true, StoreDir: t.TempDir(),
		Users: []*server.User{
			{Username: "alice", Password: "x", Permissions: permitted(subjects.UserInfo, "axe.submit.*.*", pinned)},
			{Username: "old", Password: "x", Permissions: permitted(subjects.UserInfo, "axe.submit.*.*")},
			{Username: "mute", Password: "x", Permissions: permitted(pinned)},
			{Username: "op", Password: "x"},
		},
	})
	for user, want := range map[string]string{"alice": "alice (operator)", "old": "", "mute": "", "op": ""} {
		began := time.Now()
		c := openT(t, Dial{URL: url, User: user, Password: "x"}, false)
		if got := By(c); got.String() != want {
			t.Errorf("%s connects as %q, want %q", user, got, want)
		}
		if took := time.Since(began); took >= answerTimeout {
			t.Errorf("%s connected after %v, want less than %v", user, took, answerTimeout)
		}
	}
}

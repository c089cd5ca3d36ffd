package bus

import (
	"errors"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/axebus/axe/subjects"
)

// A user with inboxes of its own cannot be overheard: permissions of other
// users leave them out.

// inboxes returns the prefix of the connection's inboxes, "" for the library's
// own. Guessed says that it follows from the user's name, which the server may
// not expect.
func (d Dial) inboxes() (prefix string, guessed bool) {
	switch {
	case d.InboxPrefix != "":
		return d.InboxPrefix, false
	case d.sharesInbox || d.Server != nil:
		return "", false
	case d.User != "":
		prefix = subjects.Inboxes(d.User)
	case d.Creds != "":
		prefix = subjects.Inboxes(credsName(d.Creds))
	}
	return prefix, prefix != ""
}

// credsName returns the name in the JWT of a creds file, "" if it cannot be
// read. The connection itself says then why.
func credsName(file string) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	jwt, err := nkeys.ParseDecoratedJWT(content)
	if err != nil {
		return ""
	}
	return claimsOf(jwt).Name
}

// mayReceive reports whether the user may subscribe to the connection's
// inboxes. The server reports a violation before it answers the flush.
func mayReceive(nc *nats.Conn) bool {
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return true // the connection is gone: its user finds out
	}
	defer func() { _ = sub.Unsubscribe() }()
	if nc.FlushTimeout(answerTimeout) != nil {
		return true
	}
	_, err = sub.NextMsg(1)
	return !errors.Is(err, nats.ErrPermissionViolation)
}

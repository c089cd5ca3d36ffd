package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/natscontext"

	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/secret"
)

// Dial says how to reach a server. Its own fields win over the settings of its
// Context, and its credentials win over those inside a URL. Without any
// credentials, a connection to a server of this user on this machine uses that
// server's key (LocalKeyFile). As JSON, a Dial has the settings that another
// process can use, but for its secrets. Printed or logged, it names its server.
type Dial struct {
	// URL is a comma-separated list of the URLs of servers, which may have
	// users with passwords. If URL, Context and Server are empty, it is
	// nats://127.0.0.1:4222.
	URL string
	// Context is a context of the nats CLI: its name, or the absolute path
	// of its file.
	Context string
	// Server is in this process. It excludes URL and Context.
	Server *Server `json:"-"`

	// Wrap, if not nil, wraps each connection to Server. Tests use it to
	// delay what passes, or to cut the connection.
	Wrap func(net.Conn) net.Conn `json:"-"`

	// Creds is a file with a user's JWT and seed. At most one of Creds,
	// NKey, User and Token may be set.
	Creds string
	// NKey is a file with a user's seed.
	NKey  string
	User  string
	Token secret.Text
	// Password goes with User.
	Password secret.Text

	// InboxPrefix begins the subjects of answers to this connection, without
	// a dot at its end. Empty: _INBOX_ and the name of the user if User or
	// Creds is set and the server lets the user subscribe there. Otherwise
	// it is that of the Context, or _INBOX.
	InboxPrefix string

	// TLSCA, TLSCert and TLSKey are PEM files.
	TLSCA, TLSCert, TLSKey string

	// Name of the connection in the server's lists.
	Name string
	// Log may be nil: nothing is logged then.
	Log *slog.Logger `json:"-"`

	// Closed, if not nil, is called when the connection is closed for good:
	// by its owner, or because a server refused its credentials twice after
	// a reconnect.
	Closed func() `json:"-"`

	// keyless says that the server does not take the key of this user's
	// server: another server listens at its address.
	keyless bool
	// sharesInbox says that the user may not subscribe to inboxes of its
	// own.
	sharesInbox bool
	// probing says that a violation on the connection is expected.
	probing *atomic.Bool
	// requests are the open requests of the connection. They learn of its
	// breaks, of each attempt to connect, and of a message that the server
	// refused for want of a permission. A connection without them gets its
	// own.
	requests *inflight
}

// apiPrefix is the prefix of the JetStream API under the settings of a context,
// with a dot at its end.
func apiPrefix(of natscontext.Settings) string {
	switch {
	case of.JSAPIPrefix != "":
		return strings.TrimSuffix(of.JSAPIPrefix, ".") + "."
	case of.JSDomain != "":
		return "$JS." + of.JSDomain + ".API."
	}
	return jetstream.DefaultAPIPrefix
}

// dialRetryDelay is the pause between two attempts to connect.
const dialRetryDelay = time.Second

// closedTries is the number of times in a row that a server may close the
// connection during the TLS handshake or at its end. A server that is killed
// does so once. A server that refuses the client's certificate does so always.
const closedTries = 3

// connect makes a connection that reconnects for ever. It waits until ctx ends
// for a server that is not reachable yet. It returns an error at once if
// waiting cannot help. Api is the prefix of the JetStream API.
func (d Dial) connect(ctx context.Context) (_ *nats.Conn, api string, _ error) {
	if err := d.validate(); err != nil {
		return nil, "", fmt.Errorf("connect: %w", err)
	}
	log := cmp.Or(d.Log, slog.New(slog.DiscardHandler))
	d.requests = cmp.Or(d.requests, newInflight())
	closed := 0
	for waiting := false; ; waiting = true {
		where, nc, api, err := d.try(log)
		if closedInTLS(err) {
			closed++
		} else {
			closed = 0
		}
		switch {
		case err == nil:
			log.InfoContext(ctx, "connected", slog.String(keyURL, where))
			return nc, api, nil
		case closed == 0 && !mayComeUp(err), closed == closedTries:
			return nil, "", fmt.Errorf("connect to %s: %w", where, err)
		case !waiting:
			log.WarnContext(ctx, "waiting for the server", slog.String(keyURL, where), slog.Any(keyError, err))
		}
		if cause := pause.For(ctx, dialRetryDelay); cause != nil {
			return nil, "", fmt.Errorf("connect to %s: %w: %w", where, cause, err)
		}
	}
}

// try asks each server once. Where names the servers without credentials.
func (d Dial) try(log *slog.Logger) (where string, ours *nats.Conn, api string, err error) {
	// The option decide sets the real name.
	where = "NATS"
	d.probing = new(atomic.Bool)
	opts := append(d.options(log), d.decide(&where))
	inboxes, own := d.inboxes()
	if inboxes != "" {
		opts = append(opts, nats.CustomInboxPrefix(inboxes))
	}
	defer func() {
		if ours == nil || !own {
			return
		}
		d.probing.Store(true)
		if mayReceive(ours) {
			d.probing.Store(false)
			return
		}
		ours.Close()
		d.sharesInbox = true
		where, ours, api, err = d.try(log)
	}()
	if d.Context == "" {
		nc, err := nats.Connect("", opts...)
		if errors.Is(err, nats.ErrNkeysNotSupported) && !d.explicit() && !d.keyless {
			d.keyless = true
			return d.try(log)
		}
		return where, nc, jetstream.DefaultAPIPrefix, explainTimeout(err)
	}
	where = "context " + d.Context
	nc, of, err := natscontext.Connect(d.Context, opts...)
	return where, nc, apiPrefix(of), explainTimeout(clean(err))
}

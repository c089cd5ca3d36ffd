package bus

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/natscontext"

	"github.com/axebus/axe/internal/pause"
)

// Dial says how to reach a server. What it says itself wins over the settings
// of its Context, and its credentials over those inside a URL.
type Dial struct {
	// comma-separated; "" without Context and Server: nats://127.0.0.1:4222
	URL string
	// of the nats CLI: its name, or the absolute path of its file
	Context string
	// in this process; excludes URL and Context
	Server *Server

	// At most one of the first four. Password goes with User. file of a
	// user's JWT and seed
	Creds    string
	NKey     string // file of a user's seed
	User     string
	Token    string
	Password string

	TLSCA, TLSCert, TLSKey string // PEM files

	// of the connection, in the server's lists
	Name string
	Log  *slog.Logger // nil: discard

	// Closed, if not nil, is called when the connection is closed for good:
	// by its owner, or because a server that it came back to refused its
	// credentials twice.
	Closed func()

	// disconnected and reconnected, if not nil, are called when the
	// connection breaks, and when there is one again.
	disconnected, reconnected func()
}

// settings is what a context says about JetStream.
type settings struct {
	domain    string
	apiPrefix string
}

func (s *settings) jetStream(nc *nats.Conn) (jetstream.JetStream, error) {
	switch {
	case s.apiPrefix != "":
		return jetstream.NewWithAPIPrefix(nc, s.apiPrefix)
	case s.domain != "":
		return jetstream.NewWithDomain(nc, s.domain)
	}
	return jetstream.New(nc)
}

// prefix is that of the JetStream API, with a dot at its end.
func (s *settings) prefix() string {
	switch {
	case s.apiPrefix != "":
		return strings.TrimSuffix(s.apiPrefix, ".") + "."
	case s.domain != "":
		return "$JS." + s.domain + ".API."
	}
	return jetstream.DefaultAPIPrefix
}

const dialAgain = time.Second

// connect returns a connection that comes back for ever once it was there. A
// server that cannot be reached yet is waited for until ctx ends; what waiting
// cannot mend is returned at once.
func (d Dial) connect(ctx context.Context) (*nats.Conn, *settings, error) {
	if err := d.validate(); err != nil {
		return nil, nil, fmt.Errorf("connect: %w", err)
	}
	log := cmp.Or(d.Log, slog.New(slog.DiscardHandler))
	for waiting := false; ; waiting = true {
		where, nc, api, err := d.try(log)
		switch {
		case err == nil:
			log.InfoContext(ctx, "connected", slog.String(keyURL, where))
			return nc, api, nil
		case !mayComeUp(err):
			return nil, nil, fmt.Errorf("connect to %s: %w", where, err)
		case !waiting:
			log.WarnContext(ctx, "waiting for the server", slog.String(keyURL, where), slog.Any(keyError, err))
		}
		if cause := pause.For(ctx, dialAgain); cause != nil {
			return nil, nil, fmt.Errorf("connect to %s: %w: %w", where, cause, err)
		}
	}
}

// try asks each server once. Where it went is named without credentials.
func (d Dial) try(log *slog.Logger) (where string, _ *nats.Conn, _ *settings, _ error) {
	where = "NATS" // until decide knows better
	opts := append(d.options(log), d.decide(&where))
	if d.Context == "" {
		nc, err := nats.Connect("", opts...)
		return where, nc, &settings{}, err
	}
	where = "context " + d.Context
	nc, of, err := natscontext.Connect(d.Context, opts...)
	return where, nc, &settings{domain: of.JSDomain, apiPrefix: of.JSAPIPrefix}, clean(err)
}

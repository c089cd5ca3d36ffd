package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// setting is a flag whose default is an environment variable, as the nats CLI
// names it.
type setting struct {
	flag, env, help string
	value           *string
}

// DialFlags are the flags that say how to reach the bus.
type DialFlags struct {
	dial    bus.Dial
	prefix  string
	maxBody Size
	cmd     *cobra.Command
}

// where, who and tls are settings that belong together: where the command line
// has one of them, the environment has no say about the others.
func (d *DialFlags) where() []setting {
	return []setting{
		{"server", "NATS_URL", "URL of the NATS server, or several with commas", &d.dial.URL},
		{"context", "NATS_CONTEXT", "context of the nats CLI", &d.dial.Context},
	}
}

func (d *DialFlags) who() []setting {
	return []setting{
		{"creds", "NATS_CREDS", "file with a user's JWT and seed", &d.dial.Creds},
		{"nkey", "NATS_NKEY", "file with a user's seed", &d.dial.NKey},
		{"user", "NATS_USER", "user name", &d.dial.User},
		{"password", "NATS_PASSWORD", "password of the user", &d.dial.Password},
		{"token", "NATS_TOKEN", "token", &d.dial.Token},
	}
}

func (d *DialFlags) tls() []setting {
	return []setting{
		{"tls-ca", "NATS_CA", "PEM file with the authorities to trust", &d.dial.TLSCA},
		{"tls-cert", "NATS_CERT", "PEM file with the client's certificate", &d.dial.TLSCert},
		{"tls-key", "NATS_KEY", "PEM file with the client's key", &d.dial.TLSKey},
	}
}

func (d *DialFlags) space() []setting {
	return []setting{{"prefix", "AXE_PREFIX", "first token of all subjects, axe if there is none", &d.prefix}}
}

// Register adds the flags to a command and all below it.
func (d *DialFlags) Register(cmd *cobra.Command) {
	d.cmd = cmd
	for _, group := range [][]setting{d.where(), d.who(), d.tls(), d.space()} {
		for _, s := range group {
			cmd.PersistentFlags().StringVar(s.value, s.flag, "", fmt.Sprintf("%s (env %s)", s.help, s.env))
		}
	}
	cmd.PersistentFlags().Var(&d.maxBody, "max-body", "largest task or answer")
}

// Unused is the error of a command line that says how to reach a server though
// one in this process is used.
func (d *DialFlags) Unused() error {
	for _, group := range [][]setting{d.where(), d.who(), d.tls()} {
		for _, s := range group {
			if d.cmd.PersistentFlags().Changed(s.flag) {
				return Usage("--%s has no meaning for the server in this process", s.flag)
			}
		}
	}
	return nil
}

// MaxBody is the largest body that the flags allow, 0 if they do not say.
func (d *DialFlags) MaxBody() int64 { return int64(d.maxBody) }

// Explicit reports whether the command line itself names a server.
func (d *DialFlags) Explicit() bool { return d.said(d.where()) }

func (d *DialFlags) said(group []setting) bool {
	for _, s := range group {
		if d.cmd.PersistentFlags().Changed(s.flag) {
			return true
		}
	}
	return false
}

// Config is what the flags say, and the environment where they say nothing.
// With a server in this process neither where nor who matters.
func (d *DialFlags) Config(server *bus.Server, log *slog.Logger) (bus.Config, error) {
	groups := [][]setting{d.space()}
	if server == nil {
		groups = append(groups, d.where(), d.who(), d.tls())
	}
	for _, group := range groups {
		if d.said(group) {
			continue
		}
		for _, s := range group {
			*s.value = os.Getenv(s.env)
		}
	}
	space, err := subjects.NewSpace(d.prefix)
	if err != nil {
		return bus.Config{}, err
	}
	d.dial.Server = server
	d.dial.Name = d.cmd.Name()
	return bus.Config{Dial: d.dial, Space: space, MaxBody: int64(d.maxBody), Log: log}, nil
}

// noServerError is the cause of an Open that took longer than it may.
type noServerError time.Duration

// Error says how long nobody answered.
func (e noServerError) Error() string { return "no answer within " + time.Duration(e).String() }

// Open connects; a server that is not there yet is waited for, at most for a
// while (0: for ever). What waiting cannot mend is a failure of the
// configuration.
func Open(ctx context.Context, cfg bus.Config, atMost time.Duration) (*bus.Conn, error) {
	if atMost > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, atMost, noServerError(atMost))
		defer cancel()
	}
	conn, err := bus.Open(ctx, cfg)
	if err != nil && ctx.Err() == nil {
		err = Fail(CodeConfig, err)
	}
	return conn, err
}

// noStreams is how long a server without streams is given: a worker may be
// setting them up.
const noStreams = 3 * time.Second

// Ready waits a moment for the streams that workers set up, and returns
// bus.ErrNoStream without.
func Ready(ctx context.Context, conn *bus.Conn) error {
	for begin := time.Now(); ; {
		err := conn.Provisioned(ctx)
		if !errors.Is(err, bus.ErrNoStream) || time.Since(begin) > noStreams {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(noStreams / 10):
		}
	}
}

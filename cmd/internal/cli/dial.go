package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// setting is a flag with an environment variable as its default. The variables
// NATS_… are those of the nats CLI.
type setting struct {
	flag, env, help string
	value           *string
}

// DialFlags are the flags for the connection to the bus.
type DialFlags struct {
	dial    bus.Dial
	prefix  string
	maxBody Size
	cmd     *cobra.Command
}

// address is one group of settings. If the command line has a setting of a
// group, the environment sets none of that group.
func (d *DialFlags) address() []setting {
	return []setting{
		{"server", "NATS_URL", "URL of the NATS server, or several with commas", &d.dial.URL},
		{"context", "NATS_CONTEXT", "context of the nats CLI", &d.dial.Context},
	}
}

func (d *DialFlags) credentials() []setting {
	return []setting{
		{"creds", "NATS_CREDS", "file with a user's JWT and seed", &d.dial.Creds},
		{"nkey", "NATS_NKEY", "file with a user's seed", &d.dial.NKey},
		{"user", "NATS_USER", "user name", &d.dial.User},
		{"password", "NATS_PASSWORD", "password of the user", (*string)(&d.dial.Password)},
		{"token", "NATS_TOKEN", "token", (*string)(&d.dial.Token)},
	}
}

func (d *DialFlags) tls() []setting {
	return []setting{
		{"tls-ca", "NATS_CA", "PEM file with the authorities to trust", &d.dial.TLSCA},
		{"tls-cert", "NATS_CERT", "PEM file with the client's certificate", &d.dial.TLSCert},
		{"tls-key", "NATS_KEY", "PEM file with the client's key", &d.dial.TLSKey},
	}
}

func (d *DialFlags) inbox() []setting {
	const help = "first token of the subjects of answers, default _INBOX_USER"
	return []setting{{"inbox-prefix", "NATS_INBOX_PREFIX", help, &d.dial.InboxPrefix}}
}

func (d *DialFlags) space() []setting {
	return []setting{{"prefix", "AXE_PREFIX", "first token of all subjects, default axe", &d.prefix}}
}

// Register adds the flags to a command and all below it.
func (d *DialFlags) Register(cmd *cobra.Command) {
	d.cmd = cmd
	for _, s := range slices.Concat(d.address(), d.credentials(), d.inbox(), d.tls(), d.space()) {
		cmd.PersistentFlags().StringVar(s.value, s.flag, "", fmt.Sprintf("%s (env %s)", s.help, s.env))
	}
	cmd.PersistentFlags().Var(&d.maxBody, "max-body", "largest task or answer")
	_ = cmd.RegisterFlagCompletionFunc("context", completeContext) // the flag exists
}

// given returns the connection flags of the command line in the words of a
// shell, each with a space before it. A command with the same flags reaches the
// same bus. PASSWORD and TOKEN stand in place of secrets, which may get into
// the log of a terminal.
func (d *DialFlags) given() string {
	var b strings.Builder
	for _, s := range slices.Concat(d.address(), d.credentials(), d.inbox(), d.tls(), d.space()) {
		if !d.changed([]setting{s}) {
			continue
		}
		value := *s.value
		switch s.flag {
		case "server":
			value = withoutUsers(value)
		case "password", "token":
			value = strings.ToUpper(s.flag)
		}
		b.WriteString(" --" + s.flag + " " + Quoted(value))
	}
	return b.String()
}

// withoutUsers replaces the credentials in a list of URLs.
func withoutUsers(urls string) string {
	all := strings.Split(urls, ",")
	for i, u := range all {
		if at := strings.LastIndexByte(u, '@'); at >= 0 {
			begin := strings.Index(u, "://") + len("://")
			if begin < len("://") {
				begin = len(u) - len(strings.TrimLeft(u, " "))
			}
			all[i] = u[:begin] + "USER:PASSWORD" + u[at:]
		}
	}
	return strings.Join(all, ",")
}

// bareWord matches a word that a shell takes as it is.
var bareWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Quoted returns a text as one word of a shell.
func Quoted(text string) string {
	if bareWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// CheckUnused returns an error if the command line has a connection flag. It is
// for commands that use a server in their own process.
func (d *DialFlags) CheckUnused() error {
	for _, s := range slices.Concat(d.address(), d.credentials(), d.inbox(), d.tls()) {
		if d.cmd.PersistentFlags().Changed(s.flag) {
			return Usage("--%s does not apply to the server in this process", s.flag)
		}
	}
	return nil
}

// MaxBody returns the bound of a body in bytes, 0 if the flag is not set.
func (d *DialFlags) MaxBody() int64 { return int64(d.maxBody) }

// Prefix is the first token of all subjects, "" for the default.
func (d *DialFlags) Prefix() string {
	if d.changed(d.space()) {
		return d.prefix
	}
	return os.Getenv("AXE_PREFIX")
}

// Explicit reports whether the command line itself names a server.
func (d *DialFlags) Explicit() bool { return d.changed(d.address()) }

func (d *DialFlags) changed(group []setting) bool {
	return slices.ContainsFunc(group, func(s setting) bool { return d.cmd.PersistentFlags().Changed(s.flag) })
}

// Config makes the configuration from the flags and the environment. With a
// server in this process it takes only the prefix from the environment.
func (d *DialFlags) Config(server *bus.Server, log *slog.Logger) (bus.Config, error) {
	groups := [][]setting{d.space()}
	if server == nil {
		groups = append(groups, d.address(), d.credentials(), d.inbox(), d.tls())
	}
	for _, group := range groups {
		if d.changed(group) {
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
	cfg := bus.Config{Dial: d.dial, Space: space, MaxBody: int64(d.maxBody), Log: log}
	if server != nil {
		return cfg, nil // no other process writes there
	}
	global, err := configs.DefaultGlobal()
	if err != nil {
		// The file may require signatures.
		return cfg, Fail(CodeConfig, err)
	}
	if global.Outcomes.RequireSigned {
		cfg.Signers = global.Outcomes.Signers
	}
	return cfg, nil
}

// Open connects to the bus. It waits for a server that is not there yet, at
// most for the time atMost; 0 waits without a bound. Every other error is a
// configuration error.
func Open(ctx context.Context, cfg bus.Config, atMost time.Duration) (*bus.Conn, error) {
	if atMost > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, atMost, &noServerError{atMost})
		defer cancel()
	}
	conn, err := bus.Open(ctx, cfg)
	if err != nil && ctx.Err() == nil {
		err = Fail(CodeConfig, err)
	}
	return conn, err
}

// noServerError ends a wait for a server.
type noServerError struct{ after time.Duration }

// Error says how long the wait was.
func (e *noServerError) Error() string { return fmt.Sprintf("no answer within %s", e.after) }

// streamsTimeout bounds the wait for streams. A worker may be creating them.
const streamsTimeout = 3 * time.Second

// Ready waits at most streamsTimeout for the streams that workers create. It
// returns bus.ErrNoStream if they are still missing.
func Ready(ctx context.Context, conn *bus.Conn) error {
	for begin := time.Now(); ; {
		err := conn.Provisioned(ctx)
		waits := errors.Is(err, bus.ErrNoStream) || errors.Is(err, bus.ErrNoReader)
		if !waits || time.Since(begin) > streamsTimeout {
			return err
		}
		if err := pause.For(ctx, streamsTimeout/10); err != nil {
			return err
		}
	}
}

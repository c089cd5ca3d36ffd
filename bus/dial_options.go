package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/subjects"
)

// Keys of log attributes.
const (
	keyURL     = "url"
	keyError   = "error"
	keySubject = "subject"
)

func (d Dial) validate() error {
	credentials := 0
	for _, s := range []string{d.Creds, d.NKey, d.User, d.Token.Reveal()} {
		if s != "" {
			credentials++
		}
	}
	switch {
	case d.Server != nil && (d.URL != "" || d.Context != ""):
		return errors.New("a server in this process excludes a URL and a context")
	case credentials > 1:
		return errors.New("only one of creds, nkey, user and token may be set")
	case d.Password != "" && d.User == "":
		return errors.New("a password needs a user")
	case d.InboxPrefix != "" && !subjects.IsInbox(d.InboxPrefix+".x"):
		return fmt.Errorf("inbox prefix must be %[1]s or %[1]s_NAME, got %[2]q", subjects.InboxPrefix, d.InboxPrefix)
	case (d.TLSCert == "") != (d.TLSKey == ""):
		return errors.New("a TLS certificate needs its key, and a key its certificate")
	}
	return nil
}

// options are the options for every kind of connection.
func (d Dial) options(log *slog.Logger) []nats.Option {
	opts := []nats.Option{
		nats.Name(d.Name),
		nats.MaxReconnects(-1),
		nats.PermissionErrOnSubscribe(true),
		nats.ReconnectWait(500 * time.Millisecond),
		nats.ReconnectJitter(1500*time.Millisecond, 1500*time.Millisecond),
		// Nothing is buffered for a server that is away: a write must
		// not appear minutes after its writer gave up. A publish then
		// fails with ErrReconnectBufExceeded. It was certainly not
		// sent, so its writer may try again.
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			d.requests.disconnected()
			// Without an error the owner has closed the connection.
			if err != nil {
				log.Warn("disconnected", slog.Any(keyError, err))
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			d.requests.reconnected()
			log.Info("reconnected", slog.String(keyURL, d.at(nc)))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			if Forbidden(err) && (d.probing.Load() || d.requests.violated(err)) {
				return
			}
			attrs := []any{slog.Any(keyError, err)}
			if sub != nil {
				attrs = append(attrs, slog.String(keySubject, sub.Subject))
			}
			log.Warn("connection error", attrs...)
		}),
		nats.ClosedHandler(func(*nats.Conn) {
			if d.Closed != nil {
				d.Closed()
			}
		}),
	}
	// An in-process connection is never half-open.
	if d.Server == nil {
		opts = append(opts, nats.PingInterval(10*time.Second))
	}
	return opts
}

// decide returns the last option: what d sets replaces what a context sets. The
// option stores the addresses of the servers in where, for messages.
func (d Dial) decide(where *string) nats.Option {
	return func(o *nats.Options) error {
		if d.Server != nil {
			*where = inProcess
			o.InProcessServer = d
			if d.Server.key == nil {
				return nil
			}
			return withKey(o, d.Server.key)
		}
		if d.URL != "" {
			o.Servers = []string{d.URL}
		}
		servers, err := parseServers(o.Servers)
		if err != nil {
			return err
		}
		*where = servers.String()
		o.CustomDialer = dialer{d, o.CustomDialer, o.Timeout}
		explicit := d.explicit()
		if !explicit && d.Context == "" && !d.keyless {
			key, err := servers.localKey()
			if err != nil {
				return err
			}
			if key != nil {
				if err := withKey(o, key); err != nil {
					return err
				}
			}
		}
		if explicit {
			// Users inside a URL would win over options.
			servers.dropUsers()
		}
		if explicit || d.URL != "" && servers.haveUsers() {
			o.User = ""
			o.Password = ""
			o.Token = ""
			o.Nkey = ""
			o.UserJWT = nil
			o.SignatureCB = nil
		}
		o.Servers = servers.list()
		if err := d.secrets(o); err != nil {
			return err
		}
		return tryCredentials(o)
	}
}

// explicit reports whether d has credentials of its own.
func (d Dial) explicit() bool { return d.Creds+d.NKey+d.User != "" || d.Token != "" }

// ErrCredentials is wrapped by the error of a connection with credentials in a
// file that cannot be read.
var ErrCredentials = errors.New("credentials")

func (d Dial) secrets(o *nats.Options) error {
	var opts []nats.Option
	switch {
	case d.Creds != "":
		if err := nats.UserCredentials(d.Creds)(o); err != nil {
			return fmt.Errorf("%w: %w", ErrCredentials, err)
		}
	case d.NKey != "":
		opt, err := nats.NkeyOptionFromSeed(d.NKey)
		if err != nil {
			return fmt.Errorf("%w: nkey %s: %w", ErrCredentials, d.NKey, err)
		}
		opts = append(opts, opt)
	case d.User != "":
		opts = append(opts, nats.UserInfo(d.User, d.Password.Reveal()))
	case d.Token != "":
		opts = append(opts, nats.Token(d.Token.Reveal()))
	}
	if d.TLSCA != "" {
		opts = append(opts, nats.RootCAs(d.TLSCA))
	}
	if d.TLSCert != "" {
		opts = append(opts, nats.ClientCert(d.TLSCert, d.TLSKey))
	}
	for _, opt := range opts {
		if err := opt(o); err != nil {
			return err
		}
	}
	return nil
}

// tryCredentials reads the files that the connection will read. Otherwise a
// missing file would look like a missing server.
func tryCredentials(o *nats.Options) error {
	if o.UserJWT != nil {
		if _, err := o.UserJWT(); err != nil {
			return fmt.Errorf("%w: %w", ErrCredentials, err)
		}
	}
	if o.SignatureCB != nil {
		if _, err := o.SignatureCB(nil); err != nil {
			return fmt.Errorf("%w: %w", ErrCredentials, err)
		}
	}
	return nil
}

// at names the server of a connection, without credentials.
func (d Dial) at(nc *nats.Conn) string {
	if d.Server != nil {
		return inProcess
	}
	servers, err := parseServers([]string{nc.ConnectedUrl()})
	if err != nil {
		return ""
	}
	return servers.String()
}

// InProcessConn connects to the server in this process.
func (d Dial) InProcessConn() (net.Conn, error) {
	if d.requests != nil {
		d.requests.dialing()
	}
	conn, err := d.Server.srv.InProcessConn()
	if err != nil || d.Wrap == nil {
		return conn, err
	}
	return d.Wrap(conn), nil
}

// dialer announces each attempt to connect.
type dialer struct {
	d Dial
	// inner is the dialer of a context, for example of one with a proxy; nil
	// without one.
	inner   nats.CustomDialer
	timeout time.Duration
}

// Dial connects to an address.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	d.d.requests.dialing()
	if d.inner != nil {
		return d.inner.Dial(network, address)
	}
	direct := net.Dialer{Timeout: d.timeout}
	return direct.DialContext(context.Background(), network, address)
}

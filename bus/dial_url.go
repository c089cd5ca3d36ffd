package bus

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"
)

// inProcess stands in logs in place of a URL.
const inProcess = "in-process"

// servers is a parsed list of server URLs. Its String shows no credentials.
type servers []*url.URL

// parseServers splits and checks lists of URLs. Empty lists are the default
// URL. The error does not show a malformed URL, since any part of it may be a
// password.
func parseServers(lists []string) (servers, error) {
	var s servers
	for raw := range strings.SplitSeq(strings.Join(lists, ","), ",") {
		raw = strings.TrimSpace(raw)
		if raw == "" {
			continue
		}
		if !strings.Contains(raw, "://") {
			raw = "nats://" + raw
		}
		u, err := url.Parse(raw)
		if err != nil || !reachable(u) {
			return nil, fmt.Errorf("server URL %d: %w", len(s)+1, errMalformedURL)
		}
		s = append(s, u)
	}
	if len(s) == 0 {
		return parseServers([]string{nats.DefaultURL})
	}
	return s, nil
}

var errMalformedURL = errors.New(
	"malformed: must be [USER:PASSWORD@]HOST[:PORT], after nats://, tls://, ws:// or wss://",
)

func reachable(u *url.URL) bool {
	switch u.Scheme {
	case "nats", "tls":
		if strings.Trim(u.Path, "/") != "" {
			return false
		}
	case "ws", "wss":
	default:
		return false
	}
	port, err := strconv.Atoi(u.Port())
	return u.Hostname() != "" && u.RawQuery == "" && u.Fragment == "" &&
		(u.Port() == "" || err == nil && port <= 65535)
}

func (s servers) list() []string {
	l := make([]string, len(s))
	for i, u := range s {
		l[i] = u.String()
	}
	return l
}

func (s servers) String() string {
	hosts := make([]string, len(s))
	for i, u := range s {
		hosts[i] = u.Scheme + "://" + u.Host
	}
	return strings.Join(hosts, ",")
}

// Format writes the servers of a Dial for every verb of package fmt. A URL may
// have a password.
func (d Dial) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, d.shown()) }

// LogValue names the servers.
func (d Dial) LogValue() slog.Value { return slog.StringValue(d.shown()) }

// MarshalJSON leaves the users out of the URL.
func (d Dial) MarshalJSON() ([]byte, error) {
	type plain Dial
	if d.URL != "" {
		d.URL = Dial{URL: d.URL}.shown()
	}
	return json.Marshal(plain(d))
}

// shown names the servers, without credentials.
func (d Dial) shown() string {
	switch {
	case d.Server != nil:
		return inProcess
	case d.Context != "" && d.URL == "":
		return "context " + d.Context
	}
	list, err := parseServers([]string{d.URL})
	if err != nil {
		return errMalformedURL.Error()
	}
	return list.String()
}

func (s servers) haveUsers() bool {
	return slices.ContainsFunc(s, func(u *url.URL) bool { return u.User != nil })
}

func (s servers) dropUsers() {
	for _, u := range s {
		u.User = nil
	}
}

// clean removes a URL from an error of a library that could not parse it, for
// example a context's proxy. It adds advice to the error of an unknown context.
func clean(err error) error {
	if bad, ok := errors.AsType[*url.Error](err); ok && bad.Op == "parse" {
		return errMalformedURL
	}
	if err != nil && strings.HasPrefix(err.Error(), "unknown context") {
		return fmt.Errorf("%w; nats context ls lists the contexts of this machine", err)
	}
	return err
}

// explainTimeout adds the likely reason to the timeout of a read: a NATS server
// sends the first line, and another program took the connection and sent
// nothing. It returns every other error unchanged.
func explainTimeout(err error) error {
	op, ok := errors.AsType[*net.OpError](err)
	if ok && op.Op == "read" && op.Timeout() {
		return fmt.Errorf("the port is open, and no NATS server answers there: %w", err)
	}
	return err
}

// Refusals that pass, in the words of the server.
var (
	errTooMany     = errors.New("nats: maximum connections exceeded")
	errAuthTimeout = errors.New("nats: authentication timeout")
)

// mayComeUp reports whether a failed connection is worth another attempt. It is
// if no server answered, or the server was busy. It is not if the server
// refused the client, or the client does not trust the server.
func mayComeUp(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return false
	}
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		return true
	}
	if errors.Is(err, nats.ErrTLS) {
		return false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		// A "remote error" is a TLS alert after the handshake.
		return op.Op != "remote error"
	}
	passing := []error{
		nats.ErrNoServers, nats.ErrTimeout, nats.ErrStaleConnection, nats.ErrMaxAccountConnectionsExceeded,
		errTooMany, errAuthTimeout, io.EOF, io.ErrUnexpectedEOF,
	}
	return slices.ContainsFunc(passing, func(e error) bool { return errors.Is(err, e) })
}

// closedInTLS reports whether the server has closed the connection during the
// TLS handshake or at its end, without a reason.
func closedInTLS(err error) bool {
	closed := []error{io.EOF, io.ErrUnexpectedEOF, syscall.EPIPE, syscall.ECONNRESET}
	return errors.Is(err, nats.ErrTLS) && slices.ContainsFunc(closed, func(e error) bool { return errors.Is(err, e) })
}

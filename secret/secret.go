// Package secret has a type for keys, tokens and passwords. Printed, logged or
// encoded, it shows that there is a secret, and not which.
package secret

import (
	"fmt"
	"io"
	"log/slog"
)

// Text is a secret. An empty Text is none. As a key of a map it is a string to
// encoding/json, and shown.
type Text string

// redacted stands for every secret.
const redacted = "[redacted]"

// Reveal returns the secret itself.
func (t Text) Reveal() string { return string(t) }

// String returns "[redacted]", or "" for an empty Text.
func (t Text) String() string {
	if t == "" {
		return ""
	}
	return redacted
}

// Format writes String for every verb of package fmt.
func (t Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// LogValue returns String.
func (t Text) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText returns String. So JSON and TOML have no secret.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

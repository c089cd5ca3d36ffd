// Package secret has a type for keys, tokens and passwords, and a Redactor for
// other texts. Printed, logged or encoded as JSON, TOML or XML, a Text shows
// that there is a secret, and not which. Package fmt shows a Text in an
// unexported field, and encoding/gob shows one in any field.
package secret

import (
	"fmt"
	"io"
	"log/slog"
)

// Text is a secret. An empty Text is none. A Text that is a key of a map is
// shown in JSON and TOML.
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

// Format writes String. Package fmt does not call it for %p and %w, which show
// the secret: go vet reports both.
func (t Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// LogValue returns String.
func (t Text) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText returns String. So values in JSON and TOML have no secret.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

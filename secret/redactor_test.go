package secret_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/axebus/axe/secret"
)

// TestRedactor: a secret is hidden in texts, bytes, errors and logs, and errors
// stay the errors that they were. A short secret is left.
func TestRedactor(t *testing.T) {
	const hidden = "tok-0123456789"
	r := secret.NewRedactor(hidden, "short", "")
	const text = "401: Authorization: Bearer " + hidden + " is short"
	const want = "401: Authorization: Bearer [redacted] is short"
	if got := r.Text(text); got != want {
		t.Errorf("the text is %q, want %q", got, want)
	}
	if got := string(r.Bytes([]byte(text))); got != want {
		t.Errorf("the bytes are %q, want %q", got, want)
	}
	failed := r.Error(fmt.Errorf("%s: %w", text, io.ErrUnexpectedEOF))
	if !errors.Is(failed, io.ErrUnexpectedEOF) || failed.Error() != want+": unexpected EOF" {
		t.Errorf("the error is %q", failed)
	}
	if err := r.Error(io.EOF); err != io.EOF { //nolint:errorlint // the same error
		t.Errorf("an error without a secret became %v", err)
	}
	if r.Error(nil) != nil || r.Empty() || !secret.NewRedactor("short").Empty() {
		t.Error("no error became one, or the redactor counts short secrets")
	}
	var log bytes.Buffer
	l := r.Logger(slog.New(slog.NewTextHandler(&log, nil))).With(slog.String("with", text)).WithGroup("g")
	l.Info(text, slog.String("line", text), slog.Any("error", errors.New(text)), slog.Int("n", 1),
		slog.Group("more", slog.String("line", text)))
	if strings.Contains(log.String(), hidden) || strings.Count(log.String(), "[redacted]") != 5 {
		t.Errorf("the log is %s", log.String())
	}
}

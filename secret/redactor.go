package secret

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
)

// MinLength is the length in bytes from which a Redactor hides a secret. Shorter
// ones would be found in texts that have nothing to do with them.
const MinLength = 8

// Redactor hides secrets in texts of others, such as an answer that repeats the
// headers of its request.
type Redactor struct {
	secrets  []Text
	replacer *strings.Replacer
}

// NewRedactor returns a Redactor of secrets of at least MinLength.
func NewRedactor(secrets ...Text) *Redactor {
	r := &Redactor{}
	var pairs []string
	for _, s := range secrets {
		if len(s) >= MinLength {
			r.secrets = append(r.secrets, s)
			pairs = append(pairs, s.Reveal(), redacted)
		}
	}
	r.replacer = strings.NewReplacer(pairs...)
	return r
}

// Empty reports whether there is no secret to hide.
func (r *Redactor) Empty() bool { return len(r.secrets) == 0 }

// Text returns a text without the secrets.
func (r *Redactor) Text(s string) string { return r.replacer.Replace(s) }

// Bytes returns bytes without the secrets.
func (r *Redactor) Bytes(b []byte) []byte {
	for _, s := range r.secrets {
		b = bytes.ReplaceAll(b, []byte(s), []byte(redacted))
	}
	return b
}

// Error returns an error whose text has none of the secrets. It wraps err.
func (r *Redactor) Error(err error) error {
	if err == nil {
		return nil
	}
	text := r.Text(err.Error())
	if text == err.Error() {
		return err
	}
	return &redactedError{text, err}
}

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// Logger returns a logger that hides the secrets in messages, in strings and in
// errors.
func (r *Redactor) Logger(log *slog.Logger) *slog.Logger {
	if r.Empty() {
		return log
	}
	return slog.New(handler{log.Handler(), r})
}

// handler hides secrets from another handler.
type handler struct {
	slog.Handler
	r *Redactor
}

// Handle is that of slog.Handler.
func (h handler) Handle(ctx context.Context, rec slog.Record) error {
	out := slog.NewRecord(rec.Time, rec.Level, h.r.Text(rec.Message), rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, out)
}

// WithAttrs is that of slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	hidden := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		hidden[i] = h.attr(a)
	}
	return handler{h.Handler.WithAttrs(hidden), h.r}
}

// WithGroup is that of slog.Handler.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name), h.r} }

func (h handler) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch of := v.Any().(type) {
	case string:
		a.Value = slog.StringValue(h.r.Text(of))
	case error:
		a.Value = slog.AnyValue(h.r.Error(of))
	case []slog.Attr:
		all := make([]slog.Attr, len(of))
		for i, one := range of {
			all[i] = h.attr(one)
		}
		a.Value = slog.GroupValue(all...)
	}
	return a
}

package wire

import (
	"encoding/json"
	"strings"
	"unicode"
)

// secret is how long a key has to be for it to be one: local servers are given
// "x".
const secret = 8

// How much of a text an error may carry, in characters.
const (
	// of a body in no known format
	maxExcerpt = 200
	// of a message in a known one
	maxMessage = 1000
)

// reason is why a request was refused: the provider's own words, or how the
// body begins.
func (e *Endpoint) reason(body []byte) string {
	if message := described(body); message != "" {
		return e.line(message, maxMessage)
	}
	return e.line(string(body), maxExcerpt)
}

// line makes a text fit for an error: without the key, printable, on one line,
// not longer than limit.
func (e *Endpoint) line(s string, limit int) string {
	if len(e.key) >= secret {
		s = strings.ReplaceAll(s, e.key, "[key]")
	}
	// Enough for limit characters of four bytes, and for white space that
	// is about to go.
	s = s[:min(len(s), 16*maxMessage)]
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), blank), " ")
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}

func blank(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }

// described finds the text in {"error": {"message": "…"}} and {"error": "…"}.
// Servers that imitate one provider answer in the manner of another, so both
// are tried for all.
func described(body []byte) string {
	var outer struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &outer) != nil {
		return ""
	}
	var text string
	if json.Unmarshal(outer.Error, &text) == nil {
		return text
	}
	var inner struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(outer.Error, &inner) != nil {
		return ""
	}
	return inner.Message
}

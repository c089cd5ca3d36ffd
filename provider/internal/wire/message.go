package wire

import (
	"encoding/json"
	"strings"
	"unicode"
)

// minKeyLength is the length in bytes from which a key is a secret. Local
// servers get keys like "x", which would match in any text.
const minKeyLength = 8

// Bounds of the text in an error, in characters.
const (
	// maxExcerpt bounds the text of a body in an unknown format.
	maxExcerpt = 200
	// maxMessage bounds a provider's own message.
	maxMessage = 1000
)

// errorText returns the provider's message, or the beginning of the body.
func (e *Endpoint) errorText(body []byte) string {
	if message := errorMessage(body); message != "" {
		return e.printable(message, maxMessage)
	}
	return e.printable(string(body), maxExcerpt)
}

// printable returns a text for an error. It is one printable line of at most
// limit characters, without the key.
func (e *Endpoint) printable(s string, limit int) string {
	if len(e.key) >= minKeyLength {
		s = strings.ReplaceAll(s, e.key, "[key]")
	}
	// These bytes suffice for limit characters of four bytes, and for much
	// white space, which the next step removes.
	s = s[:min(len(s), 16*maxMessage)]
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), blank), " ")
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}

func blank(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }

// errorMessage returns the text in {"error": {"message": "…"}} or {"error":
// "…"}. A server that imitates one provider may send the errors of another, so
// every provider accepts both.
func errorMessage(body []byte) string {
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

package httpguard

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Role says which requests a token permits.
type Role string

// The roles.
const (
	// Read permits to read everything.
	Read Role = "read"
	// Submit permits to submit tasks and to wait for their outcomes.
	Submit Role = "submit"
	// Operate permits everything.
	Operate Role = "operate"
)

// roles are the roles of one token.
type roles []Role

func (r roles) permit(role Role) bool { return slices.Contains(r, role) || slices.Contains(r, Operate) }

// Tokens are the tokens of a server. The zero value has none.
type Tokens struct{ all []token }

// token is a token with its roles. Tokens are compared by their hashes.
type token struct {
	hash  [sha256.Size]byte
	roles roles
}

// None reports whether there are no tokens.
func (t Tokens) None() bool { return len(t.all) == 0 }

// add adds a token.
func add(t *Tokens, secret string, r roles) {
	t.all = append(t.all, token{sha256.Sum256([]byte(secret)), r})
}

// roles returns the roles of a token. The time of the comparison says nothing
// about the tokens.
func (t Tokens) roles(secret string) (found roles, known bool) {
	got := sha256.Sum256([]byte(secret))
	for _, one := range t.all {
		if subtle.ConstantTimeCompare(got[:], one.hash[:]) == 1 {
			found, known = one.roles, true
		}
	}
	return found, known
}

// OneToken returns one token with all roles, and no token for an empty text.
func OneToken(secret string) (t Tokens) {
	if secret != "" {
		add(&t, secret, roles{Operate})
	}
	return t
}

// ReadTokens reads the tokens of a file: one token, which has all roles, or a
// line for each token, with its roles before it:
//
//	# for the alerts
//	submit      9f2c…
//	read,submit 51ab…
//	operate     77d0…
//
// Empty lines and those that begin with # count for nothing. A file without a
// token is an error.
func ReadTokens(file string) (t Tokens, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return t, err
	}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		words := strings.Fields(string(line))
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		of := roles{Operate}
		if len(words) > 1 {
			if of, err = parseRoles(words[0]); err != nil {
				return Tokens{}, fmt.Errorf("%s:%d: %w", file, number, err)
			}
		}
		secret := words[len(words)-1]
		if _, twice := t.roles(secret); twice || len(words) > 2 || len(words) == 1 && !t.None() {
			return Tokens{}, fmt.Errorf("%s:%d: want one token alone, or ROLE TOKEN on each line, each token once",
				file, number)
		}
		add(&t, secret, of)
	}
	if t.None() {
		return Tokens{}, fmt.Errorf("%s has no token", file)
	}
	return t, nil
}

// parseRoles parses roles with commas between them.
func parseRoles(text string) (all roles, err error) {
	for name := range strings.SplitSeq(text, ",") {
		r := Role(name)
		if !slices.Contains([]Role{Read, Submit, Operate}, r) {
			return nil, fmt.Errorf("role must be read, submit or operate, got %q", name)
		}
		all = append(all, r)
	}
	return all, nil
}

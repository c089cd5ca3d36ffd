// Package grant is the form of a grant: an operator's statement that the
// outcomes of a worker's key count for some agents. It is a JWT of NATS, of the
// generic kind, that a key of an account or an operator has signed. Anyone can
// make such a key. A reader counts only the grants of signers that it trusts,
// so a forged grant is worth nothing. A writer of the bucket could store an old
// grant again, from before a revocation. So workers may not write grants.
//
//	token, err := grant.Grant{Key: worker, Agents: agents}.Sign(space, account)
package grant

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/axebus/axe/subjects"
)

// Grant says for which agents the outcomes of a key count.
type Grant struct {
	// Key is the worker's public key.
	Key string
	// Agents are the agents and toolsets. Empty: all.
	Agents []subjects.Agent
	// Signer is the public key of the account or the operator that has
	// signed the grant. Sign sets it.
	Signer string
	// Signed is the signer's time, in seconds. Sign sets it.
	Signed time.Time
	// Ends is the time from which on outcomes of the key do not count, in
	// seconds. Outcomes that were stored before go on counting. Zero:
	// never.
	Ends time.Time
}

// kind is the type of the JWT. The JWT of a user or an account is no grant.
const kind = "axe_grant"

// The fields of the JWT.
const (
	fieldKind   = "type"
	fieldAgents = "agents"
)

// header begins every JWT that NATS signs today. The library panics on some
// that have another one.
const header = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ."

// Errors of keys.
var (
	ErrKey    = errors.New("the key of a worker must be the public key of a user, U…")
	ErrSigner = errors.New("a grant must be signed by the key of an account or an operator")
)

// Sign returns the grant as a JWT, for the bus of a space.
func (g Grant) Sign(s subjects.Space, signer nkeys.KeyPair) (string, error) {
	if !nkeys.IsValidPublicUserKey(g.Key) {
		return "", ErrKey
	}
	public, err := signer.PublicKey()
	if err != nil {
		return "", err
	}
	if !IsSigner(public) {
		return "", ErrSigner
	}
	claims := jwt.NewGenericClaims(g.Key)
	claims.Audience = s.Prefix()
	if !g.Ends.IsZero() {
		claims.Expires = g.Ends.Unix()
	}
	names := make([]any, len(g.Agents))
	for i, a := range g.Agents {
		names[i] = a.String()
	}
	claims.Data[fieldKind], claims.Data[fieldAgents] = kind, names
	return claims.Encode(signer)
}

// IsSigner reports whether a key is the public key of an account or an
// operator.
func IsSigner(public string) bool {
	return nkeys.IsValidPublicAccountKey(public) || nkeys.IsValidPublicOperatorKey(public)
}

// Parse reads a grant for the bus of a space, and checks its signature. The
// caller decides whether the signer is to be trusted.
func Parse(s subjects.Space, token string) (Grant, error) {
	token = strings.TrimSpace(token)
	if !strings.HasPrefix(token, header) {
		return Grant{}, errors.New("the grant is no JWT of NATS")
	}
	claims, err := jwt.DecodeGeneric(token)
	switch {
	case err != nil:
		return Grant{}, fmt.Errorf("the grant cannot be read: %w", err)
	case claims.Data[fieldKind] != kind:
		return Grant{}, errors.New("the JWT is no grant")
	case !nkeys.IsValidPublicUserKey(claims.Subject):
		return Grant{}, ErrKey
	case !IsSigner(claims.Issuer):
		return Grant{}, ErrSigner
	case claims.Audience != s.Prefix():
		return Grant{}, fmt.Errorf("the grant is for the bus %q, and not for %q", claims.Audience, s.Prefix())
	}
	g := Grant{Key: claims.Subject, Signer: claims.Issuer, Signed: time.Unix(claims.IssuedAt, 0)}
	if claims.Expires != 0 {
		g.Ends = time.Unix(claims.Expires, 0)
	}
	names, ok := claims.Data[fieldAgents].([]any)
	if !ok {
		return Grant{}, errors.New("the grant names no agents")
	}
	for _, name := range names {
		text, _ := name.(string)
		a, err := subjects.ParseAgent(text)
		if err != nil {
			return Grant{}, fmt.Errorf("the grant's agents: %w", err)
		}
		g.Agents = append(g.Agents, a)
	}
	return g, nil
}

// Covers reports whether the grant is for an agent.
func (g Grant) Covers(a subjects.Agent) bool {
	return len(g.Agents) == 0 || slices.Contains(g.Agents, a)
}

// EndedAt reports whether the grant had ended at a time.
func (g Grant) EndedAt(at time.Time) bool { return !g.Ends.IsZero() && !at.Before(g.Ends) }

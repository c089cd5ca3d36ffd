// Package httpguard admits requests to the HTTP servers of axe. It keeps one
// invariant: a request that a server carries out comes from no page of another
// site, names no foreign host, and has a token with the role that its route
// needs. A server without tokens listens on this machine alone.
//
//	tokens, err := httpguard.ReadTokens("tokens")
//	...
//	guard := httpguard.Guard{Realm: "axe", Tokens: tokens}
//	l, err := httpguard.Listen(ctx, "127.0.0.1:9180", tokens)
//	...
//	mux.Handle("GET /v1/trees", guard.Require(httpguard.Read, list))
//	http.Serve(l, guard.CheckHost(guard.CheckOrigin(mux)))
package httpguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Guard checks requests. The zero value has no tokens, and admits every request
// of this machine that no page of another site makes.
type Guard struct {
	// Realm names the server in the challenge to a request without a token.
	Realm string
	// Tokens are the tokens that requests have. Without any, every request
	// has all roles.
	Tokens Tokens
	// Hosts are names of the server beside its addresses and localhost, for
	// example behind a proxy.
	Hosts []string
	// Refuse answers a request that is refused, with the status 401 or 403.
	// Nil answers with the text of the error.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, err error)
}

// The errors of requests that are refused.
var (
	errUnauthorized = errors.New("the request needs a bearer token of this server")
	errOrigin       = errors.New("the request comes from a page of another site")
)

func (g Guard) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	if g.Refuse != nil {
		g.Refuse(w, r, status, err)
		return
	}
	http.Error(w, err.Error(), status)
}

// CheckHost refuses a request to a local address with a Host header that names
// another host, with status 403. A page of another site makes such a request if
// the name of its site leads to this machine (DNS rebinding). A request to any
// other address needs a token, which such a page does not have.
func (g Guard) CheckHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if (at == nil || isLocal(at.String())) && !isLocal(r.Host) && !slices.Contains(g.Hosts, hostOf(r.Host)) {
			g.refuse(w, r, http.StatusForbidden, fmt.Errorf("%q is no host of this server", r.Host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf returns the host of an address with or without a port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return strings.ToLower(host)
	}
	return strings.ToLower(strings.Trim(address, "[]"))
}

// isLocal reports whether an address, with or without a port, leads to this
// machine alone.
func isLocal(address string) bool {
	host := hostOf(address)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// CheckOrigin refuses a request with any method that a page of another site
// makes, with status 403.
func (g Guard) CheckOrigin(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		checked := *r
		checked.Method = http.MethodPost // Check lets GET, HEAD and OPTIONS pass
		if protection.Check(&checked) != nil {
			g.refuse(w, r, http.StatusForbidden, errOrigin)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Require refuses the requests without a bearer token, with status 401, and
// those with a token that does not have the role, with status 403.
func (g Guard) Require(role Role, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.Tokens.None() {
			next.ServeHTTP(w, r)
			return
		}
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		roles, known := g.Tokens.roles(strings.TrimSpace(given))
		switch {
		case !strings.EqualFold(scheme, "Bearer") || !known:
			challenge := fmt.Sprintf("Bearer realm=%q", g.Realm)
			if given != "" {
				challenge += `, error="invalid_token"`
			}
			w.Header().Set("WWW-Authenticate", challenge)
			g.refuse(w, r, http.StatusUnauthorized, errUnauthorized)
		case !roles.permit(role):
			g.refuse(w, r, http.StatusForbidden, fmt.Errorf("the token has no role that permits this: want %s", role))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// ErrNotLocal is the error of Listen for an address that other machines may
// reach, without a token.
var ErrNotLocal = errors.New("other machines may reach the address, so it needs a token")

// Listen listens at an address. Without tokens the address has to be one of
// this machine alone: the error is ErrNotLocal for any other.
func Listen(ctx context.Context, address string, tokens Tokens) (net.Listener, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if tokens.None() && !isLocal(l.Addr().String()) {
		_ = l.Close()
		return nil, ErrNotLocal
	}
	return l, nil
}

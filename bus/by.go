package bus

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/subjects"
)

// By returns the user of a connection, if the server proves it to the readers
// of its messages: the user's permissions pin its name and its role. It is zero
// for permissions of an earlier version, and for a user without any.
func By(c *Conn) subjects.By { return c.by }

// byOf reads the permissions of a connection's user: from the JWT that the
// connection has sent to the server or, without a JWT, from the server. A
// server that does not tell a user its permissions has none that pin it.
func byOf(ctx context.Context, nc *nats.Conn, requests *inflight, space subjects.Space) subjects.By {
	switch {
	case nc.Opts.UserJWT != nil:
		jwt, err := nc.Opts.UserJWT()
		if err != nil {
			return subjects.By{} // the connection itself says why
		}
		return subjects.Pinned(space, claimsOf(jwt).NATS.Pub.Allow)
	case nc.Opts.InProcessServer != nil || nc.Opts.User+nc.Opts.Nkey == "":
		return subjects.By{}
	}
	ctx, request := requests.begin(ctx, subjects.UserInfo)
	defer request.done()
	m, err := nc.RequestWithContext(ctx, subjects.UserInfo, nil)
	if err != nil {
		return subjects.By{}
	}
	var info struct {
		Data struct {
			Permissions struct {
				Publish struct {
					Allow []string `json:"allow"`
				} `json:"publish"`
			} `json:"permissions"`
		} `json:"data"`
	}
	if json.Unmarshal(m.Data, &info) != nil {
		return subjects.By{}
	}
	return subjects.Pinned(space, info.Data.Permissions.Publish.Allow)
}

// userClaims are the claims of a user's JWT that clients read.
type userClaims struct {
	Name string `json:"name"`
	// Key is the public key of the user.
	Key  string `json:"sub"`
	NATS struct {
		Pub struct {
			Allow []string `json:"allow"`
		} `json:"pub"`
	} `json:"nats"`
}

// claimsOf reads the claims of a JWT. They are zero if it cannot be read: only
// the server checks it.
func claimsOf(jwt string) (claims userClaims) {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return claims
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return userClaims{}
	}
	return claims
}

package bus

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/subjects"
)

// By returns the user of a connection, if the server proves it to the readers
// of its messages: the permissions in the user's JWT pin its name and its role.
// It is zero for permissions of an earlier version, and without a JWT.
func By(c *Conn) subjects.By { return c.by }

// byOf reads the user of a connection from the JWT that the connection has sent
// to the server. The server checks every message, so it need not be asked.
func byOf(nc *nats.Conn, space subjects.Space) subjects.By {
	if nc.Opts.UserJWT == nil {
		return subjects.By{}
	}
	jwt, err := nc.Opts.UserJWT()
	if err != nil {
		return subjects.By{} // the connection itself says why
	}
	return space.Pinned(claimsOf(jwt).NATS.Pub.Allow)
}

// userClaims are the claims of a user's JWT that clients read.
type userClaims struct {
	Name string `json:"name"`
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

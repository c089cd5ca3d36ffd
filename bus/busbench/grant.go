package busbench

import (
	"context"

	"github.com/nats-io/nkeys"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/bus/grant"
)

// Granted is a grant for a new key, which a new account has signed.
type Granted struct {
	// Signer is the public key of the account, Seed the seed of the key.
	Signer, Seed string

	conn *bus.Conn
	key  string
}

// StoreGrant makes a key, and stores a grant for it. A worker that signs with
// the key may answer for any agent.
func StoreGrant(ctx context.Context, c *bus.Conn) (*Granted, error) {
	account, err := nkeys.CreateAccount()
	if err != nil {
		return nil, err
	}
	user, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	signer, err := account.PublicKey()
	if err != nil {
		return nil, err
	}
	key, err := user.PublicKey()
	if err != nil {
		return nil, err
	}
	seed, err := user.Seed()
	if err != nil {
		return nil, err
	}
	token, err := grant.Grant{Key: key}.Sign(c.Space(), account)
	if err != nil {
		return nil, err
	}
	_, err = bus.StoreGrant(ctx, c, token)
	return &Granted{Signer: signer, Seed: string(seed), conn: c, key: key}, err
}

// SignKey is the key of a seed, for bus.Config.SignKey; nil without a seed.
func SignKey(seed string) (nkeys.KeyPair, error) {
	if seed == "" {
		return nil, nil
	}
	return nkeys.FromSeed([]byte(seed))
}

// Remove removes the grant.
func (g *Granted) Remove(ctx context.Context) error {
	d, err := g.conn.Directory(ctx)
	if err != nil {
		return err
	}
	return d.Delete(ctx, "grant."+g.key, 0)
}

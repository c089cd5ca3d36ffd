package busbench

import (
	"context"
	"errors"

	"github.com/nats-io/nkeys"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/bus/grant"
)

// Granted is a grant for the key of a connection, which a new account signs.
type Granted struct {
	// Signer is the public key of the account.
	Signer string

	conn  *bus.Conn
	key   string
	token string
}

// NewGranted makes a grant for the key that a connection has proven to its
// server. It is not stored yet.
func NewGranted(c *bus.Conn) (*Granted, error) {
	nc, _ := c.NATS()
	if nc.Opts.Nkey == "" {
		return nil, errors.New("the connection has no key")
	}
	account, err := nkeys.CreateAccount()
	if err != nil {
		return nil, err
	}
	signer, err := account.PublicKey()
	if err != nil {
		return nil, err
	}
	token, err := grant.Grant{Key: nc.Opts.Nkey}.Sign(c.Space(), account)
	return &Granted{signer, c, nc.Opts.Nkey, token}, err
}

// Store stores the grant. Workers with the key sign their outcomes from now on.
func (g *Granted) Store(ctx context.Context) error {
	_, err := bus.StoreGrant(ctx, g.conn, g.token)
	return err
}

// Remove removes the grant.
func (g *Granted) Remove(ctx context.Context) error {
	d, err := g.conn.Directory(ctx)
	if err != nil {
		return err
	}
	return d.Delete(ctx, "grant."+g.key, 0)
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/bus/auth"
	"github.com/axebus/axe/bus/grant"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/subjects"
)

// granting is axe auth grant and its kin.
type granting struct {
	session *cli.SessionFlags
	agents  []string
	signer  string
	lasts   cli.Seconds
}

func authGrantCommand(f *cli.SessionFlags) *cobra.Command {
	g := &granting{session: f}
	cmd := &cobra.Command{
		Use: "grant KEY", Short: "Grant agents to the key of a worker", Args: cobra.ExactArgs(1),
		Long: `Grant some agents and toolsets, or all, to the key of a worker, in place of an
earlier grant of the key. Where outcomes have to be signed (require_signed in
config.toml), those of the worker count for these agents alone. A worker with a
grant signs its outcomes.

KEY is a worker's creds file, a file with its seed, or its public key. The grant
is signed with the key of an account or an operator. It is stored on the bus
with the role provisioner.`,
		Example: `  axe auth grant w1.creds --agents lead,reader --sign auth/keys/account.nk \
    --context axe-provisioner
  axe auth grant w2.nk --sign auth/keys/account.nk --for 30d \
    --context axe-provisioner`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.store(cmd, args[0], func(*bus.Conn, string) (of grant.Grant, err error) {
				if g.lasts > 0 {
					of.Ends = time.Now().Add(time.Duration(g.lasts))
				} else if cmd.Flags().Changed("for") {
					return of, cli.Usage("--for must be positive, got %s", &g.lasts)
				}
				for _, name := range g.agents {
					a, err := subjects.ParseAgent(name)
					if err != nil {
						return of, cli.Usage("--agents: %v", err)
					}
					of.Agents = append(of.Agents, a)
				}
				return of, nil
			})
		},
	}
	cmd.Flags().StringSliceVar(&g.agents, "agents", nil, "agents and toolsets (default all)")
	cmd.Flags().Var(&g.lasts, "for", "time after which outcomes of the key count no more (default never)")
	g.register(cmd)
	return cmd
}

func authRevokeCommand(f *cli.SessionFlags) *cobra.Command {
	g := &granting{session: f}
	cmd := &cobra.Command{
		Use: "revoke KEY", Short: "End the grant of a worker's key", Args: cobra.ExactArgs(1),
		Long: `End the grant of a worker's key now. Outcomes that were stored before go on
counting. The worker can still read and write what its user may: remove the user
from the server too.`,
		Example: `  axe auth revoke w1.creds --sign auth/keys/account.nk --context axe-provisioner`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.store(cmd, args[0], func(conn *bus.Conn, key string) (grant.Grant, error) {
				all, err := bus.ReadGrants(cmd.Context(), conn, key)
				if err != nil {
					return grant.Grant{}, err
				}
				if len(all) == 0 {
					return grant.Grant{}, fmt.Errorf("%s: %w", key, errNoGrant)
				}
				// A grant ends with a second. No outcome so far
				// is lost.
				all[0].Ends = time.Now().Add(time.Second)
				return all[0], nil
			})
		},
	}
	g.register(cmd)
	return cmd
}

var errNoGrant = errors.New("the key has no grant")

func (g *granting) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&g.signer, "sign", "", "file with the key that signs the grant, such as keys/account.nk")
	g.session.Output.Register(cmd, "text: a line; json: one object")
}

// store signs the grant that of returns for a key, and stores it.
func (g *granting) store(cmd *cobra.Command, arg string, of func(*bus.Conn, string) (grant.Grant, error)) error {
	if g.signer == "" {
		return cli.Usage("--sign is required: the key of the account, which axe auth init makes in keys/account.nk")
	}
	key, err := auth.WorkerKey(arg)
	if err != nil {
		return cli.Fail(cli.CodeConfig, err)
	}
	return g.connected(cmd, func(ctx context.Context, conn *bus.Conn) error {
		next, err := of(conn, key)
		if err != nil {
			return err
		}
		next.Key = key
		token, err := auth.SignGrant(conn.Space(), next, g.signer)
		if err != nil {
			return cli.Fail(cli.CodeConfig, err)
		}
		if next, err = bus.StoreGrant(ctx, conn, token); err != nil {
			return err
		}
		return g.print(cmd.OutOrStdout(), next)
	})
}

func (g *granting) connected(cmd *cobra.Command, fn func(context.Context, *bus.Conn) error) error {
	log, err := g.session.Logger()
	if err != nil {
		return err
	}
	return g.session.UseConn(cmd.Context(), log, func(conn *bus.Conn) error { return fn(cmd.Context(), conn) })
}

func authGrantsCommand(f *cli.SessionFlags) *cobra.Command {
	f.Looks = true
	g := &granting{session: f}
	cmd := &cobra.Command{
		Use: "grants", Short: "List the grants of workers' keys", Args: cobra.NoArgs,
		Long: `List the grants on the bus: the key of each worker, its agents, the end of the
grant and the key that has signed it. A reader counts only grants of the signers
in its config.toml.`,
		Example: `  axe auth grants --context axe-observer`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.connected(cmd, func(ctx context.Context, conn *bus.Conn) error {
				all, err := bus.ReadGrants(ctx, conn, "")
				if err != nil {
					return err
				}
				return g.print(cmd.OutOrStdout(), all...)
			})
		},
	}
	f.Output.Register(cmd, "text: a line for each grant; json: one object a line")
	return cmd
}

// grantLine is a grant as JSON.
type grantLine struct {
	Key string `json:"key"`
	// Agents is empty for all.
	Agents []string   `json:"agents"`
	Signer string     `json:"signer"`
	Signed time.Time  `json:"signed"`
	Ends   *time.Time `json:"ends,omitempty"`
}

func (g *granting) print(stdout io.Writer, all ...grant.Grant) error {
	lines := make([]grantLine, len(all))
	for i, of := range all {
		l := grantLine{Key: of.Key, Agents: []string{}, Signer: of.Signer, Signed: of.Signed}
		for _, a := range of.Agents {
			l.Agents = append(l.Agents, a.String())
		}
		if !of.Ends.IsZero() {
			l.Ends = &of.Ends
		}
		lines[i] = l
	}
	return list[grantLine]{"KEY\tAGENTS\tENDS\tSIGNER", func(l grantLine) string {
		ends := "never"
		if l.Ends != nil {
			ends = l.Ends.Local().Format(time.DateTime)
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s", l.Key, cmp.Or(strings.Join(l.Agents, ","), "all"), ends, l.Signer)
	}}.print(stdout, g.session.Output, lines)
}

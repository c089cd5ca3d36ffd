package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/roles"
)

// authCheck is axe auth check.
type authCheck struct {
	session *cli.SessionFlags
	scope   scopeFlags
	all     bool
}

func authCheckCommand(f *cli.SessionFlags) *cobra.Command {
	c := &authCheck{session: f}
	f.Looks = true
	cmd := &cobra.Command{
		Use: "check --role ROLE", Short: "Try the permissions of a user", Args: cobra.NoArgs,
		Long: `Connect as a user, and try every subject of a role and more than a hundred that
the role does not have. The command prints a line for each subject on which the
server and the role differ, and with --all for every subject. If they differ,
the exit code is 1.

The command changes nothing: streams and the JetStream API refuse its messages.`,
		Example: `  axe auth check --creds ci.creds --role submitter --agents lead
  axe auth check --context production --role worker --name w1 --all`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.scope.register(cmd)
	c.scope.registerDomain(cmd)
	cmd.Flags().BoolVar(&c.all, "all", false, "print every operation, not only those that differ")
	cmd.Flags().StringVar(&c.scope.creds, "as", "", "the same as --creds")
	f.Output.Register(cmd, "text: a line for each operation; json: one object a line")
	return cmd
}

// errDiffers is the error of a user whose permissions are not those of its
// role.
var errDiffers = errors.New("the permissions differ from those of the role")

func (c *authCheck) run(cmd *cobra.Command) error {
	if c.scope.role == "" {
		return cli.Usage("--role is required: %s", roles.Names())
	}
	if c.scope.creds != "" {
		if err := cmd.Flags().Set("creds", c.scope.creds); err != nil {
			return err
		}
	}
	c.scope.prefix = c.session.Prefix()
	users, err := c.scope.users()
	if err != nil {
		return err
	}
	// The violations are what the command looks for.
	return c.session.UseConn(cmd.Context(), slog.New(slog.DiscardHandler), func(conn *bus.Conn) error {
		return c.compare(cmd, conn, users[0])
	})
}

// compare compares the permissions of the connection with those of a user.
func (c *authCheck) compare(cmd *cobra.Command, conn *bus.Conn, u roles.User) error {
	report := authReport{out: cmd.OutOrStdout(), all: c.all, json: c.session.Output.JSON()}
	for _, o := range u.Role.Operations(c.scope.last) {
		try := bus.PermitsPublish
		if o.Subscribe {
			try = bus.PermitsSubscribe
		}
		permitted, err := try(cmd.Context(), conn, o.Subject)
		if err != nil {
			return err
		}
		if err := report.add(o, permitted); err != nil {
			return err
		}
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "axe: %s: %d operations are allowed, %d are refused, %d differ\n", u.Role,
		report.allowed, report.refused, report.differ)
	if report.differ > 0 {
		return cli.Fail(cli.CodeFailed, errDiffers)
	}
	return nil
}

// authReport prints the operations of a check and counts them.
type authReport struct {
	out                      io.Writer
	all, json                bool
	allowed, refused, differ int
}

// add takes an operation, and whether the server permits it.
func (r *authReport) add(o roles.Operation, permitted bool) error {
	verdict := "refused"
	if permitted {
		verdict = "allowed"
		r.allowed++
	} else {
		r.refused++
	}
	if permitted != o.Allowed {
		r.differ++
		verdict += ", and should not be"
	} else if !r.all {
		return nil
	}
	if r.json {
		return cli.PrintJSON(r.out, map[string]any{
			"operation": o.String(), "permitted": permitted, "expected": o.Allowed,
		})
	}
	_, err := fmt.Fprintf(r.out, "%-30s %s\n", verdict, o)
	return err
}

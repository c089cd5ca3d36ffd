package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus/auth"
	"github.com/axebus/axe/cmd/internal/cli"
)

func authTenantCommand() *cobra.Command {
	return group(&cobra.Command{Use: "tenant", Short: "Share a NATS system among tenants"}, authTenantAddCommand())
}

// tenantAdd is axe auth tenant add.
type tenantAdd struct {
	scope    scopeFlags
	tenant   auth.Tenant
	maxStore cli.Size
	contexts string
}

func authTenantAddCommand() *cobra.Command {
	a := &tenantAdd{maxStore: 20 << 30}
	cmd := &cobra.Command{
		Use: "add DIR NAME", Short: "Add a tenant to a system of axe auth init", Args: cobra.ExactArgs(2),
		Long: `Add a tenant to the system that axe auth init made in DIR. A tenant is an
account with streams, agents and users of its own. No message passes between
tenants, and they need not know each other.

The creds of the tenant's users are in DIR/tenants/NAME, and so are the keys for
more users. The server has the tenant after a reload of its configuration.`,
		Example: `  axe auth tenant add auth acme
  nats-server --signal reload
  axe provision --context axe-acme-provisioner
  agentd --agents ./agents --context axe-acme-worker

  axe auth tenant add /etc/axe/auth lab --max-store 2GiB --max-connections 50`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd, args[0], args[1]) },
	}
	flags := cmd.Flags()
	flags.Var(&a.maxStore, "max-store", "most bytes of the tenant's streams on disk")
	flags.Int64Var(&a.tenant.MaxConnections, "max-connections", 0,
		"most clients of the tenant at once, and as many submitters (default any number)")
	flags.StringVar(&a.tenant.OperatorKey, "operator-key", "", "key that signs accounts (default DIR/keys/operator.nk)")
	flags.StringVar(&a.contexts, "contexts", "", `beginning of the names of the contexts (default axe-NAME)`)
	flags.IntVar(&a.scope.partitions, "partitions", 1, "number of partitions of the tenant's bus")
	flags.StringVar(&a.scope.prefix, "prefix", "", "first token of all subjects (default axe)")
	a.scope.registerDomain(cmd)
	return cmd
}

func (a *tenantAdd) run(cmd *cobra.Command, dir, name string) error {
	if a.maxStore <= 0 {
		return cli.Usage("--max-store must be positive, got %s", &a.maxStore)
	}
	if a.tenant.MaxConnections < 0 {
		return cli.Usage("--max-connections must not be negative, got %d", a.tenant.MaxConnections)
	}
	users, err := a.scope.users()
	if err != nil {
		return err
	}
	url, err := auth.URLOf(dir)
	if err != nil {
		return cli.Fail(cli.CodeConfig, err)
	}
	a.tenant.Dir, a.tenant.Name, a.tenant.Users, a.tenant.Domain = dir, name, users, a.scope.domain
	a.tenant.MaxStore, a.tenant.Space = int64(a.maxStore), a.scope.last.Space
	if err := auth.Add(a.tenant); err != nil {
		return cli.Fail(cli.CodeConfig, err)
	}
	creds := filepath.Join(dir, auth.TenantDir(name))
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), creds); err != nil {
		return err
	}
	if a.contexts == "" {
		a.contexts = "axe-" + name
	}
	of := contexts{beginning: a.contexts, url: url, dir: creds}
	ca := filepath.Join(dir, auth.CAFile)
	if _, err := os.Stat(ca); !os.IsNotExist(err) {
		of.ca = ca
	}
	if err := of.write(users); err != nil {
		return err
	}
	of.printNext(cmd.ErrOrStderr(), "nats-server --signal reload")
	return nil
}

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus/auth"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/roles"
)

// authInit is axe auth init.
type authInit struct {
	scope     scopeFlags
	hosts     []string
	listen    string
	store     string
	maxStore  cli.Size
	room      cli.Size
	cert, key string
	contexts  string
}

func authInitCommand() *cobra.Command {
	i := &authInit{maxStore: 20 << 30}
	cmd := &cobra.Command{
		Use: "init DIR", Short: "Make the keys, users and configuration of a new NATS system", Args: cobra.ExactArgs(1),
		Long: `Make in DIR all that a NATS server for axe needs: keys, a certificate and its
authority, a user for each role with a creds file, and nats-server.conf with
comments. No file is readable for other users. For the nats CLI, and for
--context of axe, there is a context for each role.

The directory must be empty. Keep its keys/ apart: they sign users and accounts,
and neither the server nor its clients need them.`,
		Example: `  axe auth init auth
  nats-server -c auth/nats-server.conf
  axe provision --context axe-provisioner
  agentd --agents ./agents --context axe-worker
  axe submit lead "Review the bus package" --context axe-submitter

  axe auth init /etc/axe/auth --host bus.example.com --listen 0.0.0.0:4222`,
		RunE: func(cmd *cobra.Command, args []string) error { return i.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&i.hosts, "host", nil,
		"names and addresses of the server (default localhost and 127.0.0.1, or those of --server-cert)")
	flags.StringVar(&i.listen, "listen", "127.0.0.1:4222", "address of the server")
	flags.StringVar(&i.store, "store", "", "directory of the server's streams (default DIR/jetstream)")
	flags.Var(&i.maxStore, "max-store", "most bytes of the streams on disk")
	flags.Var(&i.room, "server-store",
		"most bytes of the streams of all tenants, which axe auth tenant adds (default --max-store)")
	flags.StringVar(&i.cert, "server-cert", "", "certificate of your own, a PEM file, instead of a new authority")
	flags.StringVar(&i.key, "server-key", "", "key of that certificate")
	flags.StringVar(&i.contexts, "contexts", "axe", `beginning of the names of the contexts, "" for none`)
	flags.IntVar(&i.scope.partitions, "partitions", 1, "number of partitions of the bus")
	flags.StringVar(&i.scope.prefix, "prefix", "", "first token of all subjects (default axe)")
	i.scope.registerDomain(cmd)
	return cmd
}

func (i *authInit) run(cmd *cobra.Command, dir string) error {
	if (i.cert == "") != (i.key == "") {
		return cli.Usage("--server-cert needs --server-key, and --server-key needs --server-cert")
	}
	if i.maxStore <= 0 {
		return cli.Usage("--max-store must be positive, got %s", &i.maxStore)
	}
	if i.room != 0 && i.room < i.maxStore {
		return cli.Usage("--server-store must be at least --max-store, got %s and %s", &i.room, &i.maxStore)
	}
	host, _, err := net.SplitHostPort(i.listen)
	if err != nil {
		return cli.Usage("--listen must be HOST:PORT, got %q", i.listen)
	}
	ip := net.ParseIP(host)
	if local := host == "localhost" || ip != nil && ip.IsLoopback(); !local && len(i.hosts) == 0 && i.cert == "" {
		return cli.Usage("--listen %s: --host is required, since clients check the name of the server", i.listen)
	}
	if len(i.hosts) == 0 && i.cert == "" {
		i.hosts = []string{"localhost", "127.0.0.1"}
	}
	if i.cert == "" && ip != nil && !ip.IsUnspecified() && !slices.Contains(i.hosts, host) {
		i.hosts = append(i.hosts, host)
	}
	users, err := i.scope.users()
	if err != nil {
		return err
	}
	if i.store == "" {
		i.store = filepath.Join(dir, "jetstream")
	}
	c := auth.Config{
		Dir: dir, Account: "AXE", Users: users, Space: i.scope.last.Space, Listen: i.listen, Hosts: i.hosts,
		CertFile: i.cert, KeyFile: i.key,
		StoreDir: i.store, MaxStore: int64(i.maxStore), ServerStore: int64(i.room), MaxPayload: 8 << 20,
		Domain: i.scope.domain,
	}
	url, err := c.URL()
	if err != nil && i.contexts != "" {
		return cli.Fail(cli.CodeConfig, err)
	}
	if err := auth.Make(c); err != nil {
		return cli.Fail(cli.CodeConfig, err)
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), filepath.Join(dir, auth.ConfFile)); err != nil {
		return err
	}
	if i.contexts == "" {
		return nil
	}
	ca := ""
	if c.CertFile == "" {
		ca = filepath.Join(c.Dir, auth.CAFile)
	}
	of := contexts{i.contexts, url, ca, c.Dir}
	if err := of.write(c.Users); err != nil {
		return err
	}
	of.printNext(cmd.ErrOrStderr(), "nats-server -c "+filepath.Join(dir, auth.ConfFile))
	return nil
}

// contexts are those of the nats CLI for the users of one account.
type contexts struct {
	// beginning is that of their names.
	beginning string
	url       string
	// ca is the file of the authority, or empty.
	ca string
	// dir has the users' creds.
	dir string
}

// write writes a context for each user.
func (c contexts) write(users []roles.User) error {
	dir, err := filepath.Abs(c.dir)
	if err != nil {
		return err
	}
	if c.ca != "" {
		if c.ca, err = filepath.Abs(c.ca); err != nil {
			return err
		}
	}
	var failed []error
	for _, u := range users {
		of := cli.NATSContext{
			Description: "axe: the user " + u.Name + " of " + dir, URL: c.url, CA: c.ca,
			Creds: filepath.Join(dir, auth.CredsFile(u.Name)), InboxPrefix: "_INBOX_" + u.Name,
		}
		failed = append(failed, of.Write(c.beginning+"-"+u.Name))
	}
	return errors.Join(failed...)
}

// printNext prints the commands that a person may want to give next: first, and
// one for each of the users.
func (c contexts) printNext(stderr io.Writer, first string) {
	printNext(stderr, first,
		"axe provision --context "+c.beginning+"-provisioner --grant "+filepath.Join(c.dir, auth.GrantFile("worker")),
		"agentd --agents DIR --context "+c.beginning+"-worker",
		"axe submit AGENT TEXT --context "+c.beginning+"-submitter")
}

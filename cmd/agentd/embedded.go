package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/cli"
)

// embedded holds the flags of the NATS server inside the worker.
type embedded struct {
	on     bool
	listen string
	store  string
	sync   string
	cmd    *cobra.Command
}

func (e *embedded) register(cmd *cobra.Command) {
	e.cmd = cmd
	cmd.Flags().BoolVar(&e.on, "embedded", false, "run a NATS server in this process, which others may join")
	cmd.Flags().StringVar(&e.listen, "listen", "127.0.0.1:4222",
		"address of the embedded server on this machine, port 0 for a free port; it admits only programs of this user")
	cmd.Flags().StringVar(&e.store, "store", "",
		"directory of the embedded server's streams (default $XDG_STATE_HOME/axe/jetstream)")
	cmd.Flags().StringVar(&e.sync, "sync", "always",
		"sync of the embedded server to disk: always, or an interval such as 2s")
}

// check rejects flags that contradict each other.
func (e *embedded) check(dial *cli.DialFlags) error {
	if e.on {
		if err := dial.CheckUnused(); err != nil {
			return err
		}
		return e.checkListen()
	}
	for _, flag := range []string{"listen", "store", "sync"} {
		if e.cmd.Flags().Changed(flag) {
			return cli.Usage("--%s needs --embedded", flag)
		}
	}
	return nil
}

// syncs returns how the server syncs. Of another server it is not known.
func (e *embedded) syncs() bus.Sync {
	switch {
	case !e.on:
		return bus.SyncUnknown
	case e.sync == "always":
		return bus.SyncAlways
	}
	return bus.SyncInterval
}

// serve starts the server. The caller closes it.
func (e *embedded) serve(log *slog.Logger) (*bus.Server, error) {
	if e.listen == "" {
		return nil, cli.Usage("--listen must be HOST:PORT")
	}
	cfg := bus.ServerConfig{
		Listen: e.listen, StoreDir: e.store, SyncAlways: e.sync == "always", Protected: true, Log: log,
	}
	if !cfg.SyncAlways {
		every, err := time.ParseDuration(e.sync)
		if err != nil || every <= 0 {
			return nil, cli.Usage("--sync must be always or a duration such as 2s, got %q", e.sync)
		}
		cfg.SyncInterval = every
	}
	state, err := bus.StateDir()
	if err != nil {
		return nil, cli.Fail(cli.CodeConfig, err)
	}
	if cfg.StoreDir == "" {
		cfg.StoreDir = filepath.Join(state, "jetstream")
	}
	server, err := bus.Serve(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w; --listen names another address, --store another directory", err)
	}
	fmt.Fprintf(os.Stderr, "%s: NATS server listens on %s, for programs of this user alone\n", name, server.URL())
	own := cli.NATSContext{Description: contextDescription, URL: server.URL(), NKey: server.KeyFile}
	if err := own.Write(contextName); err != nil {
		log.Warn("no context for the nats CLI: its flag --nkey takes the key of the server",
			slog.Any(keyError, err), slog.String(keyKey, server.KeyFile))
	}
	return server, nil
}

// The context that the nats CLI uses for the embedded server.
const (
	contextName        = "axe"
	contextDescription = "the embedded server of agentd"
)

// Keys of log attributes.
const (
	keyCause = "cause"
	keyError = "error"
	keyKey   = "key"
)

// checkListen refuses an address that other machines reach. The server in this
// process has no TLS, and one key for all.
func (e *embedded) checkListen() error {
	host, _, err := net.SplitHostPort(e.listen)
	if err != nil {
		return nil //nolint:nilerr // the server's own error is better
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return cli.Usage("--listen %s: other machines may reach this address, and the embedded server has no TLS and "+
		"no users; use --listen 127.0.0.1:4222, or a NATS server of its own, which axe auth init configures", e.listen)
}

package main

import (
	"fmt"
	"log/slog"
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
		"address of the embedded server, port 0 for a free port; the server does not ask for credentials")
	cmd.Flags().StringVar(&e.store, "store", "",
		"directory of the embedded server's streams (default $XDG_STATE_HOME/axe/jetstream)")
	cmd.Flags().StringVar(&e.sync, "sync", "always",
		"sync of the embedded server to disk: always, or an interval such as 2s")
}

// check rejects flags that contradict each other.
func (e *embedded) check(dial *cli.DialFlags) error {
	if e.on {
		return dial.CheckUnused()
	}
	for _, flag := range []string{"listen", "store", "sync"} {
		if e.cmd.Flags().Changed(flag) {
			return cli.Usage("--%s needs --embedded", flag)
		}
	}
	return nil
}

// serve starts the server. The caller closes it.
func (e *embedded) serve(log *slog.Logger) (*bus.Server, error) {
	if e.listen == "" {
		return nil, cli.Usage("--listen must be HOST:PORT")
	}
	cfg := bus.ServerConfig{Listen: e.listen, StoreDir: e.store, SyncAlways: e.sync == "always", Log: log}
	if !cfg.SyncAlways {
		every, err := time.ParseDuration(e.sync)
		if err != nil || every <= 0 {
			return nil, cli.Usage("--sync must be always or a duration such as 2s, got %q", e.sync)
		}
		cfg.SyncInterval = every
	}
	if cfg.StoreDir == "" {
		state := os.Getenv("XDG_STATE_HOME")
		if state == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return nil, cli.Usage("--store is required: there is no home directory to take a default from")
			}
			state = filepath.Join(home, ".local", "state")
		}
		cfg.StoreDir = filepath.Join(state, "axe", "jetstream")
	}
	server, err := bus.Serve(cfg)
	if err != nil {
		err = fmt.Errorf("%w; --listen names another address, --store another directory", err)
	}
	return server, err
}

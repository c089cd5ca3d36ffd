package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/httpguard"
)

// Flags are the flags of a command that serves the API.
type Flags struct {
	address   string
	tokenFile string
	hosts     []string
	cmd       *cobra.Command
	tokens    httpguard.Tokens
	listener  net.Listener
}

// Register adds the flags. The API is served at the default address, or without
// one only if the command line has an address.
func (f *Flags) Register(cmd *cobra.Command, byDefault string) {
	f.cmd = cmd
	cmd.Flags().StringVar(&f.address, "http", byDefault, "address of the HTTP API, port 0 for a free port")
	cmd.Flags().StringVar(&f.tokenFile, "http-token", "",
		"file with the bearer token of HTTP requests, or lines of ROLE TOKEN with roles read, submit and operate; "+
			"without it the address has to be one of this machine alone")
	cmd.Flags().StringSliceVar(&f.hosts, "http-host", nil,
		"name of the HTTP server behind a proxy on this machine; may be repeated")
}

// Serves reports whether the command serves the API.
func (f *Flags) Serves() bool { return f.address != "" }

// Check checks the flags and reads the tokens.
func (f *Flags) Check() (err error) {
	if !f.Serves() {
		for _, name := range []string{"http-token", "http-host"} {
			if f.cmd.Flags().Changed(name) {
				return cli.Usage("--%s needs --http", name)
			}
		}
		return nil
	}
	if f.cmd.Flags().Changed("http-token") {
		if f.tokens, err = httpguard.ReadTokens(f.tokenFile); err != nil {
			return cli.Fail(cli.CodeConfig, fmt.Errorf("--http-token: %w", err))
		}
	}
	return nil
}

// Listen listens at the address, and says so on standard error. Program is the
// name of the command.
func (f *Flags) Listen(ctx context.Context, program string) (err error) {
	f.listener, err = httpguard.Listen(ctx, f.address, f.tokens)
	if errors.Is(err, httpguard.ErrNotLocal) {
		return cli.Usage("--http %s: %w (--http-token); or use an address like 127.0.0.1:9180", f.address, err)
	}
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	at := f.listener.Addr()
	fmt.Fprintf(os.Stderr, "%s: page at http://%s/, HTTP API at http://%s/v1/\n", program, at, at)
	return nil
}

// Serve serves the API of a bus until ctx ends. Listen has to come before.
func (f *Flags) Serve(ctx context.Context, conn *bus.Conn, log *slog.Logger) error {
	s := New(Config{
		Client: client.New(conn), Conn: conn, Tokens: f.tokens, Hosts: f.hosts, Log: log,
		Prices: cli.Prices(f.cmd.Root().Name()),
	})
	return s.Serve(ctx, f.listener)
}

// Close closes the listener of a command that does not come to serve.
func (f *Flags) Close() {
	if f.listener != nil {
		_ = f.listener.Close()
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/httpguard"
	"github.com/axebus/axe/internal/mcpserver"
)

const (
	mcpLong = `Offer the agents of a bus as tools to an MCP host, such as Claude Code or an
editor. There is a tool for each agent that workers have announced. A call of a
tool submits a task to the agent, waits for the outcome of the whole tree, and
returns the answer.

Without --http the command serves one client on stdin and stdout, and ends with
stdin. With --http it serves any number of clients over streamable HTTP at the
path /mcp. Each request then needs a bearer token of the file --token-file, or
that in AXE_MCP_TOKEN. --no-token does without, at a local address alone.

The argument id of a tool, or an idempotency key in the request's _meta
(axe/idempotency-key), makes a call idempotent: a call with the id of earlier
work waits for that work, and never runs it twice. A call that the client
cancels cancels its tree. A tree whose client is lost goes on.

Exit codes: 0 stdin ended or a signal came, 1 the bus or the address cannot be
used, 2 usage.`

	mcpExamples = `  axe mcp --server nats://127.0.0.1:4222
  axe mcp --agents 'lead,review-*' --context prod
  axe mcp --http 127.0.0.1:8765 --no-token
  AXE_MCP_TOKEN=$TOKEN axe mcp --http 0.0.0.0:8765
  claude mcp add axe -- axe mcp --server nats://127.0.0.1:4222`

	// tokenVariable has the token if no file has it.
	tokenVariable = "AXE_MCP_TOKEN"
)

// mcpServer holds the flags of axe mcp.
type mcpServer struct {
	session   cli.SessionFlags
	agents    []string
	http      string
	tokenFile string
	noToken   bool
	detach    bool
	stderr    io.Writer
}

func mcpCommand() *cobra.Command {
	m := &mcpServer{session: cli.SessionFlags{Name: name}}
	cmd := &cobra.Command{
		Use: "mcp", Short: "Offer the agents of a bus as MCP tools", Long: mcpLong, Example: mcpExamples,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m.stderr = cmd.ErrOrStderr()
			return m.run(cmd.Context())
		},
	}
	m.session.Register(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&m.agents, "agents", nil,
		"agents to offer, with commas between them; * and ? are wildcards; all agents by default")
	flags.BoolVar(&m.detach, "detach-on-cancel", false, "leave the tree alone when the client cancels its call")
	flags.StringVar(&m.http, "http", "", "address to serve streamable HTTP at, instead of stdin and stdout")
	flags.StringVar(&m.tokenFile, "token-file", "",
		"file with the bearer token that each HTTP request needs (env "+tokenVariable+")")
	flags.BoolVar(&m.noToken, "no-token", false, "admit every HTTP request; for a local address alone")
	return cmd
}

func (m *mcpServer) run(ctx context.Context) error {
	tokens, err := m.tokens()
	if err != nil {
		return err
	}
	log, err := m.session.Logger()
	if err != nil {
		return err
	}
	return m.session.Use(ctx, func(ses *cli.Session) error {
		server, err := mcpserver.New(mcpserver.Config{
			Conn: ses.Conn, Agents: m.agents, DetachOnCancel: m.detach, Explain: explain(ses.Conn),
			Version: cli.ReadBuild(name).Version, Log: log,
		})
		if err != nil {
			return cli.Usage("--agents: %w", err)
		}
		if m.http == "" {
			return server.ServePipe(ctx, os.Stdin, os.Stdout)
		}
		return m.serveHTTP(ctx, server, tokens)
	})
}

// serveHTTP serves HTTP at the address of the flag, and says where on stderr.
func (m *mcpServer) serveHTTP(ctx context.Context, server *mcpserver.Server, tokens httpguard.Tokens) error {
	l, err := httpguard.Listen(ctx, m.http, tokens)
	if errors.Is(err, httpguard.ErrNotLocal) {
		return cli.Usage("--no-token needs a local address, such as 127.0.0.1:8765, got --http %s", m.http)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(m.stderr, "%s: MCP at http://%s%s\n", name, l.Addr(), mcpserver.Path)
	return server.ServeHTTP(ctx, l, tokens)
}

// tokens returns the bearer tokens, none if none is needed.
func (m *mcpServer) tokens() (none httpguard.Tokens, _ error) {
	switch {
	case m.http == "" && (m.tokenFile != "" || m.noToken):
		return none, cli.Usage("--token-file and --no-token need --http")
	case m.http == "":
		return none, nil
	case m.noToken && m.tokenFile != "":
		return none, cli.Usage("--no-token excludes --token-file")
	case m.noToken:
		return none, nil
	case m.tokenFile != "":
		tokens, err := httpguard.ReadTokens(m.tokenFile)
		if err != nil {
			return none, cli.Fail(cli.CodeConfig, fmt.Errorf("--token-file: %w", err))
		}
		return tokens, nil
	}
	token := strings.TrimSpace(os.Getenv(tokenVariable))
	if token == "" {
		return none, cli.Usage("--http needs a token: --token-file, or %s; --no-token does without at a local address",
			tokenVariable)
	}
	return httpguard.OneToken(token), nil
}

// explain returns the text of a failed outcome, as the commands print it.
func explain(conn *bus.Conn) func(context.Context, run.Outcome) string {
	return func(ctx context.Context, o run.Outcome) string {
		if err := cli.Explain(ctx, conn, cli.Failed(o), o); err != nil {
			return err.Error()
		}
		return ""
	}
}

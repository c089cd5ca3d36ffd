package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
)

// Config configures a server. Only Conn is required.
type Config struct {
	// Conn is the connection to the bus. The caller closes it.
	Conn *bus.Conn
	// Agents are the names of the agents that are offered. They may have
	// the wildcards of path.Match. Empty: all agents are offered.
	Agents []string
	// DetachOnCancel leaves a tree alone when the client cancels its call.
	DetachOnCancel bool
	// Explain returns the text of a failed outcome for a person. Nil: the
	// error of the outcome.
	Explain func(context.Context, run.Outcome) string
	// ReturnTime is the time for which a call with a key may lose its
	// client over HTTP, before the loss counts as a cancellation. Zero: 10
	// seconds.
	ReturnTime time.Duration
	// Version is the version of the program. Empty: "unknown".
	Version string
	// Log gets the protocol's events. Nil: they are dropped.
	Log *slog.Logger
}

// Keys of log attributes.
const (
	keyTree  = "tree"
	keyError = "error"
)

// Server offers the agents of one bus. Its method ServePipe or ServeHTTP is
// called once.
type Server struct {
	cfg    Config
	client *client.Client
	mcp    *mcp.Server
	calls  *attachments
	// offered has the description of each agent that is offered. The
	// goroutine that watches the agents owns it.
	offered map[string]string
}

// validate checks the configuration, and returns it with its defaults.
func (c Config) validate() (Config, error) {
	for _, pattern := range c.Agents {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return c, fmt.Errorf("agents %q: want names, which may have the wildcards * and ?", pattern)
		}
	}
	if c.ReturnTime < 0 {
		return c, fmt.Errorf("the return time must not be negative, got %s", c.ReturnTime)
	}
	if c.Explain == nil {
		c.Explain = func(_ context.Context, o run.Outcome) string { return o.Error }
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.ReturnTime = cmp.Or(c.ReturnTime, 10*time.Second)
	c.Version = cmp.Or(c.Version, "unknown")
	return c, nil
}

// instructions tell the host's model how the tools behave.
const instructions = "Each tool is an agent that works on its own. Give it everything that it needs in task and " +
	"context: it sees nothing of this conversation. A call may take minutes. " +
	"To come back to a call that was lost, call the same tool again with the same task and the same id."

// New returns a server. The error names a pattern of Agents that is malformed,
// or a negative ReturnTime.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, client: client.New(cfg.Conn), calls: newAttachments(), offered: map[string]string{}}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "axe", Title: "Agents of axe", Version: cfg.Version},
		&mcp.ServerOptions{
			Instructions: instructions,
			Logger:       cfg.Log,
			SchemaCache:  mcp.NewSchemaCache(),
			// A proxy must not show the agents to clients without a
			// token.
			SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" },
			// The list may be empty at the start.
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
		})
	return s, nil
}

// ServePipe serves one client over a pair of streams, a message on each line.
// It returns nil when the client has closed a stream, and when ctx ends. Trees
// whose calls are in flight go on. ServePipe closes both streams.
func (s *Server) ServePipe(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	err := s.watched(ctx, func(ctx context.Context) error {
		return s.serve(ctx, &mcp.IOTransport{Reader: in, Writer: out})
	})
	if errors.Is(err, io.ErrClosedPipe) || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// serve serves one client until it leaves or ctx ends.
func (s *Server) serve(ctx context.Context, t mcp.Transport) error {
	// A context that ends would count as the cancellation of every call.
	requests := newBusy()
	session, err := s.mcp.Connect(context.WithoutCancel(ctx), counted{t, requests}, nil)
	if err != nil {
		return err
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		err = session.Wait()
	}()
	select {
	case <-left:
		return err
	case <-ctx.Done():
		s.calls.stop()
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer stop()
		requests.wait(ctx)
		closed := session.Close()
		<-left // its error is the end by Close
		return closed
	}
}

// watched calls serve with a list of agents that is complete and stays current.
// It returns when serve has returned and all work of the server has ended, and
// nil if ctx ends before serve is called. An agents' bucket that cannot be
// watched ends serve.
func (s *Server) watched(ctx context.Context, serve func(context.Context) error) error {
	dir, err := s.cfg.Conn.Directory(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var watcher sync.WaitGroup
	var watchErr error
	caught := make(chan struct{})
	watcher.Go(func() {
		if err := dir.Watch(ctx, s.cardChanged, func() { close(caught) }); ctx.Err() == nil {
			watchErr = err
			stop()
		}
	})
	select {
	case <-caught:
		err = serve(ctx)
	case <-ctx.Done():
	}
	stop()
	s.calls.stop()
	watcher.Wait()
	s.calls.wait()
	return errors.Join(err, watchErr)
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider/catalog"
)

// WorkerFlags are the flags of a worker, in agentd and in axe run alike.
type WorkerFlags struct {
	Agents string        // directory of the agents
	Model  string        // in place of every agent's own
	Slots  int           // model calls at once
	Name   string        // "": made of the host's name and the process's id
	Limit  time.Duration // the longest that a tree may take
	Grace  time.Duration // what model calls get when the worker drains
}

// Register adds the flags that all workers have.
func (f *WorkerFlags) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Model, "model", "", "provider/model in place of every agent's own (env AXE_MODEL)")
	cmd.Flags().IntVar(&f.Slots, "slots", agentd.DefaultSlots, "model calls at once")
}

// Config is the worker's configuration. A model that cannot be opened is an error here already.
func (f *WorkerFlags) Config(log *slog.Logger) (agentd.Config, error) {
	f.Model = cmp.Or(f.Model, os.Getenv("AXE_MODEL"))
	if f.Slots < 1 {
		return agentd.Config{}, Usage("--slots %d: want 1 or more", f.Slots)
	}
	if f.Limit < 0 || f.Grace < 0 {
		return agentd.Config{}, Usage("a duration is negative")
	}
	scripts := cmp.Or(os.Getenv("AXE_SCRIPT_DIR"), filepath.Join(f.Agents, "scripts"))
	models := catalog.New(catalog.Config{MaxConns: f.Slots, ScriptDir: scripts})
	if f.Model != "" {
		if _, _, err := models.Open(f.Model); err != nil {
			return agentd.Config{}, Fail(CodeConfig, err)
		}
	}
	return agentd.Config{
		Name: cmp.Or(f.Name, workerName()), Open: models.Open, Model: f.Model, Slots: f.Slots,
		Timeout: f.Limit, Grace: f.Grace, Log: log,
	}, nil
}

// workerName is one that no other worker has.
func workerName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "worker"
	}
	safe := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, host)
	return safe[:min(len(safe), 40)] + "-" + strconv.Itoa(os.Getpid())
}

// Work runs a worker for the agents of a directory until ctx ends, and drains it then. It serves what
// the directory holds at any time. The end of ctx is no error, the loss of the directory's watch is.
func Work(ctx context.Context, conn *bus.Conn, cfg agentd.Config, dir string) error {
	w, err := agentd.New(conn, cfg)
	if err != nil {
		return err
	}
	defs := definitions{dir: dir, log: cfg.Log}
	watching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watched := make(chan error, 1)
	go func() { // ended by stop, waited for below
		err := configs.Watch(watching, dir, 0, func(agents []configs.Agent, err error) {
			good, broken := defs.take(agents, err)
			if err := w.Serve(good, broken...); err != nil {
				cfg.Log.ErrorContext(ctx, "agents are not served", slog.Any(keyError, err))
			}
		})
		stop(err)
		watched <- err
	}()
	err = w.Run(watching)
	stop(nil)
	lost := <-watched
	if err == nil && ctx.Err() == nil {
		err = lost
	}
	return err
}

// Provision sets up the streams where they are missing. A cluster that has not found together yet does
// not answer, and is waited for.
func Provision(ctx context.Context, conn *bus.Conn, p bus.Provision, log *slog.Logger) error {
	for {
		err := conn.Provision(ctx, p)
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return because(ctx, err)
		}
		log.WarnContext(ctx, "waiting for jetstream", slog.Any(keyError, err))
	}
}

// Drained is the failure of a worker that ended: none if a signal ended it.
func Drained(err error) error {
	if _, ok := errors.AsType[SignalError](err); ok {
		return nil
	}
	return err
}

// Readable is the error of a directory that cannot be read. What is wrong with the files in it is left
// to whoever serves them.
func Readable(dir string) error {
	_, err := configs.LoadDir(dir)
	for _, wrong := range Wrong(err) {
		if wrong.File == dir {
			return wrong
		}
	}
	return nil
}

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
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/memory"
	"github.com/axebus/axe/agentd/ratelimit"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/catalog"
)

// WorkerFlags are the flags of a worker, in agentd and in axe run alike, and
// what follows from them.
type WorkerFlags struct {
	Agents string // directory of the agents
	// in place of every agent's own; "": AXE_MODEL says
	Model string
	Slots int // model calls at once
	// "": made of the host's name and the process's id
	Name string
	// the longest that a tree may take
	Timeout time.Duration
	// what model calls get when the worker drains
	Grace time.Duration
	// changes the definition of roots; nil leaves it
	Root func(configs.Agent) configs.Agent
	// at which a wrong file among the agents is logged
	Others slog.Level
	// on a bus that goes with this process: nothing is kept there
	Alone bool

	models *catalog.Catalog
	global configs.Global
	worker atomic.Pointer[agentd.Worker] // that Work runs
}

// Register adds the flags that all workers have.
func (f *WorkerFlags) Register(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.Slots, "slots", agentd.DefaultSlots, "model calls at once")
}

// Load checks the flags and reads config.toml. A model that cannot be opened is
// an error here already.
func (f *WorkerFlags) Load(log *slog.Logger) error {
	f.Model = cmp.Or(f.Model, os.Getenv("AXE_MODEL"))
	f.Name = cmp.Or(f.Name, workerName())
	if f.Slots < 1 {
		return Usage("--slots %d: want 1 or more", f.Slots)
	}
	if f.Timeout < 0 || f.Grace < 0 {
		return Usage("a duration is negative")
	}
	var err error
	if f.models, f.global, err = Models(f.Agents, f.Slots, log); err != nil {
		return err
	}
	if f.Model != "" {
		_, _, err = f.models.Open(f.Model)
	}
	return err
}

// Models opens models as a machine's config.toml and environment say. A file
// with a key in it that others may read is warned of.
func Models(agents string, slots int, log *slog.Logger) (*catalog.Catalog, configs.Global, error) {
	global, err := configs.DefaultGlobal()
	if err != nil {
		return nil, global, err
	}
	if global.Exposed {
		log.Warn("config.toml holds a key and others may read it: chmod 600", slog.String(keyFile, global.File))
	}
	settings := make(map[string]catalog.Settings, len(global.Providers))
	for name, p := range global.Providers {
		settings[name] = catalog.Settings{APIKey: p.APIKey, BaseURL: p.BaseURL}
	}
	scripts := cmp.Or(os.Getenv("AXE_SCRIPT_DIR"), filepath.Join(agents, "scripts"))
	return catalog.New(catalog.Config{MaxConns: slots, ScriptDir: scripts, Settings: settings}), global, nil
}

// Open opens a model as the worker does.
func (f *WorkerFlags) Open(model string) (p provider.Provider, name string, err error) {
	return f.models.Open(model)
}

// Override is a definition as the worker has it for all runs of an agent.
func (f *WorkerFlags) Override(a configs.Agent) configs.Agent {
	a.Model = cmp.Or(f.Model, a.Model)
	return a
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

// Work runs a worker for the agents of the directory until ctx ends, and drains
// it then. It serves what the directory holds at any time. The end of ctx is no
// error, the loss of the directory's watch is. Load comes before.
func (f *WorkerFlags) Work(ctx context.Context, conn *bus.Conn, log *slog.Logger) error {
	w, err := agentd.New(conn, agentd.Config{
		Name: f.Name, Open: f.models.Open, Model: f.Model, Root: f.Root, Slots: f.Slots, Memory: f.Memory(conn), RateLimit: f.limit, Unattended: f.Alone,
		Timeout: f.Timeout, Grace: f.Grace, Log: log,
	})
	if err != nil {
		return err
	}
	f.worker.Store(w)
	defs := definitions{dir: f.Agents, log: log, level: f.Others}
	watchers := supervisors{conn: conn, log: log, told: map[[2]string]bool{}}
	watching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watched := make(chan error, 1)
	go func() { // ended by stop, waited for below
		err := configs.Watch(watching, f.Agents, 0, func(agents []configs.Agent, err error) {
			good, broken := defs.take(ctx, agents, err)
			if err := w.Serve(good, broken...); err != nil {
				log.ErrorContext(ctx, "agents are not served", slog.Any(keyError, err))
			}
			// there the run itself is looked at
			if !f.Alone {
				watchers.check(watching, good)
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

// limit is what config.toml says of a model's provider.
func (f *WorkerFlags) limit(model string) (account string, _ ratelimit.Settings) {
	vendor, _, _ := strings.Cut(model, "/")
	p := f.global.Providers[vendor]
	s := ratelimit.Settings{
		Concurrent: p.MaxConcurrent,
		Requests:   p.RequestsPerMinute,
		Tokens:     p.TokensPerMinute,
		RetryAfter: p.RespectRetryAfter,
	}
	if !s.On() {
		return "", s
	}
	return f.models.Account(model), s
}

// Memory is where the worker keeps agents' memory, nil if that is on a bus and
// this is none that lasts.
func (f *WorkerFlags) Memory(conn *bus.Conn) memory.Store {
	if f.Alone {
		conn = nil
	}
	return Memory(f.global, conn)
}

// Quiet waits, for so long at most, until the worker has nothing in hand: after
// an outcome is stored, it may have something to remember.
func (f *WorkerFlags) Quiet(ctx context.Context, atMost time.Duration) {
	w := f.worker.Load()
	if w == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), atMost)
	defer cancel()
	_ = w.WaitIdle(ctx)
}

// provisionAgain is the pause before the streams are looked for once more.
const provisionAgain = 500 * time.Millisecond

// Provision sets up the streams where they are missing. A cluster that has not
// found together yet does not answer, nor does a server that has just gone
// away: they are waited for.
func Provision(ctx context.Context, conn *bus.Conn, p bus.Provision, log *slog.Logger) error {
	for {
		err := conn.Provision(ctx, p)
		if err == nil || ctx.Err() != nil || !bus.Lost(err) {
			return because(ctx, err)
		}
		log.WarnContext(ctx, "waiting for jetstream", slog.Any(keyError, err))
		_ = bus.Pause(ctx, provisionAgain)
	}
}

// Drained is the failure of a worker that ended: none if a signal ended it.
func Drained(err error) error {
	if _, ok := errors.AsType[SignalError](err); ok {
		return nil
	}
	return err
}

// Readable is the error of a directory that cannot be read. What is wrong with
// the files in it is left to whoever serves them.
func Readable(dir string) error {
	_, err := configs.LoadDir(dir)
	for _, wrong := range Wrong(err) {
		if wrong.File == dir {
			return wrong
		}
	}
	return nil
}

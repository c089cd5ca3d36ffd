package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/check"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/price"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/catalog"
	"github.com/axebus/axe/subjects"
)

// WorkerFlags are the flags of a worker, for agentd and axe run.
type WorkerFlags struct {
	// Agents is the directory of the agents.
	Agents string
	// Model replaces the model of every agent. Empty takes AXE_MODEL.
	Model string
	// Slots is the number of model calls at once.
	Slots int
	// ToolSlots is the number of tools at once.
	ToolSlots int
	// Sandbox is "on", or "off" for commands that run without one.
	Sandbox string
	// ActiveAgents is the number of agents beyond which the worker pulls
	// only for those with work. 0 is the default of agentd.
	ActiveAgents int
	// Insecure permits files with keys that other users may read.
	Insecure InsecureConfig
	// Name names the worker. Empty makes a name of the host and the process
	// id.
	Name string
	// Timeout is the time limit of a submitted tree. 0 is the default of
	// agentd.
	Timeout time.Duration
	// Grace is the time that model calls in flight have when the worker
	// drains. 0 is the default of agentd.
	Grace time.Duration
	// Root changes the definitions of root agents. Nil changes none.
	Root func(configs.Agent) configs.Agent
	// FileErrorLevel is the log level of an invalid file.
	FileErrorLevel slog.Level
	// Ephemeral is set on a bus that ends with this process. No memory is
	// kept there, and only the person at its terminal can answer.
	Ephemeral bool
	// Attended says that this process asks the person at its terminal.
	Attended bool
	// Metrics count the work of each worker of Work. It may be nil.
	Metrics *agentd.Metrics
	// Serving is called by each worker of Work when it serves. It may be
	// nil.
	Serving func()

	models *catalog.Catalog
	global configs.Global
	worker atomic.Pointer[agentd.Worker] // the worker of Work
	// answers are remembered from one worker of the process to the next.
	answers *agentd.Answers
}

// RegisterAgents adds the flag for the directory of the agents to a command and
// all below it. Its default is AgentsDir(byDefault).
func RegisterAgents(cmd *cobra.Command, dir *string, byDefault string) {
	cmd.PersistentFlags().StringVar(dir, "agents", AgentsDir(byDefault),
		"directory of the agents, one TOML file each (env AXE_AGENTS)")
}

// AgentsDir returns the directory in AXE_AGENTS, or else byDefault.
func AgentsDir(byDefault string) string { return cmp.Or(os.Getenv("AXE_AGENTS"), byDefault) }

// The values of --sandbox.
const (
	SandboxOn  = "on"
	SandboxOff = "off"
)

// sandbox returns the sandbox of the worker's commands.
func (f *WorkerFlags) sandbox() *agentd.Sandbox {
	if f.Sandbox == SandboxOff {
		return agentd.NoSandbox()
	}
	return agentd.NewSandbox()
}

// Register adds the flags that agentd and axe run share.
func (f *WorkerFlags) Register(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.Slots, "slots", agentd.DefaultSlots, "model calls at once")
	cmd.Flags().IntVar(&f.ToolSlots, "tool-slots", agentd.DefaultToolSlots, "tools at work at once")
	cmd.Flags().StringVar(&f.Sandbox, "sandbox", SandboxOn,
		`"on" holds the agents' commands in a sandbox; "off" gives them all rights of this process`)
	f.Insecure.Register(cmd)
}

// Load checks the flags and reads config.toml. It returns an error if Model
// cannot be opened.
func (f *WorkerFlags) Load(log *slog.Logger) error {
	f.Model = cmp.Or(f.Model, os.Getenv("AXE_MODEL"))
	f.Name = cmp.Or(f.Name, workerName())
	f.answers = agentd.NewAnswers()
	if f.Slots < 1 {
		return Usage("--slots must be positive, got %d", f.Slots)
	}
	if f.ToolSlots < 0 {
		return Usage("--tool-slots must not be negative, got %d", f.ToolSlots)
	}
	if f.Sandbox != "" && f.Sandbox != SandboxOn && f.Sandbox != SandboxOff {
		return Usage("--sandbox must be on or off, got %q", f.Sandbox)
	}
	if f.ActiveAgents < 0 {
		return Usage("--active-agents must not be negative, got %d", f.ActiveAgents)
	}
	if f.Timeout < 0 || f.Grace < 0 {
		return Usage("--timeout and --grace must not be negative, got %s and %s",
			(*Seconds)(&f.Timeout), (*Seconds)(&f.Grace))
	}
	var err error
	if f.models, f.global, err = Models(f.Agents, f.Slots, f.Insecure, log); err != nil {
		return err
	}
	if f.Model != "" {
		_, _, err = f.models.Open(f.Model)
	}
	return err
}

// InsecureConfig is the flag --insecure-config.
type InsecureConfig bool

// Register adds the flag to a command.
func (i *InsecureConfig) Register(cmd *cobra.Command) {
	cmd.Flags().BoolVar((*bool)(i), "insecure-config", false,
		"take keys from config.toml, or from its api_key_file, though other users may read the file")
}

// check refuses files with keys that other users may read.
func (i *InsecureConfig) check(global configs.Global, log *slog.Logger) error {
	for _, file := range global.Exposed {
		if !*i {
			return Fail(CodeConfig, fmt.Errorf("%s holds an API key and other users may read it: chmod 600 %s, or "+
				"give --insecure-config", file, file))
		}
		log.Warn("other users may read a file with an API key", slog.String(keyFile, file))
	}
	return nil
}

// Models returns the models of this machine's config.toml and environment. It
// refuses files with keys that other users may read, unless insecure is set.
func Models(
	agents string, slots int, insecure InsecureConfig, log *slog.Logger,
) (*catalog.Catalog, configs.Global, error) {
	global, err := configs.DefaultGlobal()
	if err != nil {
		return nil, global, err
	}
	if err := insecure.check(global, log); err != nil {
		return nil, global, err
	}
	settings := make(map[string]catalog.Settings, len(global.Providers))
	for name, p := range global.Providers {
		settings[name] = catalog.Settings{
			APIKey: p.APIKey, APIKeyFile: p.APIKeyFile, APIKeyCommand: p.APIKeyCommand,
			BaseURL: p.BaseURL, IdleTimeout: idleTimeout(p),
		}
	}
	slowdown, err := scriptSlowdown()
	if err != nil {
		return nil, global, err
	}
	scripts := cmp.Or(os.Getenv("AXE_SCRIPT_DIR"), filepath.Join(agents, "scripts"))
	return catalog.New(catalog.Config{
		MaxConns: slots, ScriptDir: scripts, ScriptSlowdown: slowdown, Settings: settings,
	}), global, nil
}

// idleTimeout returns a provider's idle timeout in the form of a catalog: there
// 0 is the default, and a negative one is none.
func idleTimeout(p configs.Provider) time.Duration {
	if p.IdleTimeout == 0 {
		return -1
	}
	return time.Duration(p.IdleTimeout) * time.Second
}

// scriptSlowdown returns the factor by which offline models are slowed down.
func scriptSlowdown() (int, error) {
	const name = "AXE_SCRIPT_SLOWDOWN"
	text := cmp.Or(os.Getenv(name), "1")
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1000 {
		return 0, Usage("%s must be 1 to 1000, got %q", name, text)
	}
	return n, nil
}

// Open opens a model in the same way as the worker.
func (f *WorkerFlags) Open(model string) (p provider.Provider, name string, err error) {
	return f.models.Open(model)
}

// workerName makes a name of the last 40 bytes of the host's name and of the
// process id. The names of an orchestrator's hosts differ at their ends, and
// all workers may have process id 1 there.
func workerName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "worker"
	}
	return subjects.WorkerOf(host[max(0, len(host)-40):]).String() + "-" + strconv.Itoa(os.Getpid())
}

// Prices are those of config.toml. Load comes before.
func (f *WorkerFlags) Prices() price.Table { return f.global.Prices }

// Work runs a worker for the agents of the directory until ctx ends, then
// drains it. The worker follows changes of the directory. The end of ctx is no
// error. A directory that cannot be read at first is an error; later the worker
// logs it and keeps its agents. The caller calls Load first.
func (f *WorkerFlags) Work(ctx context.Context, conn *bus.Conn, log *slog.Logger) error {
	trees := log
	if f.Ephemeral && !log.Enabled(ctx, slog.LevelInfo) {
		// The command itself says how its tree ended.
		trees = slog.New(slog.DiscardHandler)
	}
	w, err := agentd.New(conn, agentd.Config{
		Name: f.Name, Open: f.models.Open, Model: f.Model, Root: f.Root, RateLimit: f.rateLimit, Slots: f.Slots,
		ToolSlots: f.ToolSlots, Sandbox: f.sandbox(), ActiveAgents: f.ActiveAgents, Answers: f.answers,
		Serving: f.Serving, Metrics: f.Metrics, Prices: f.global.Prices,
		Memory: f.Memory(conn), Unattended: f.Ephemeral && !f.Attended, Unproven: f.Ephemeral,
		Timeout: f.Timeout, Grace: f.Grace, Log: log,
		TreeLog: trees,
	})
	if err != nil {
		return err
	}
	f.worker.Store(w)
	defs := definitions{dir: f.Agents, log: log, level: f.FileErrorLevel}
	var seen map[check.Finding]bool
	watching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watched := make(chan error, 1)
	go func() { // ended by stop, waited for below
		err := configs.Watch(watching, f.Agents, 0, func(read configs.Definitions, err error) {
			good, broken := defs.merge(ctx, read, err)
			if err := w.Serve(good, broken...); err != nil {
				log.ErrorContext(ctx, "serving agents failed", slog.Any(keyError, err))
			}
			// axe run checks the agents of its own tree.
			if !f.Ephemeral {
				seen = logFindings(watching, log, f.findings(watching, conn, good, broken), seen)
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

// findings checks the agents that the worker serves. It asks the bus for agents
// of other workers.
func (f *WorkerFlags) findings(
	ctx context.Context, conn *bus.Conn, defs configs.Definitions, broken []agentd.Broken,
) []check.Finding {
	names := make([]string, len(broken))
	for i, b := range broken {
		names[i] = b.Name.String()
	}
	return check.Agents(defs.Agents, f.checkConfig(defs.Toolsets, names, Elsewhere(ctx, conn, func(error) {})))
}

// rateLimit returns the account and the rate limit of a model's provider, as
// config.toml sets them.
func (f *WorkerFlags) rateLimit(model string) (account string, _ agentd.RateLimit) {
	vendor, _, _ := strings.Cut(model, "/")
	p := f.global.Providers[vendor]
	s := agentd.RateLimit{
		Concurrent: p.MaxConcurrent, Requests: p.RequestsPerMinute, Tokens: p.TokensPerMinute,
		RetryAfter: p.RespectRetryAfter,
	}
	if !s.On() {
		return "", s
	}
	return f.models.Account(model), s
}

// Memory returns the worker's memory store. It is nil if the memory is on a bus
// and this bus is ephemeral.
func (f *WorkerFlags) Memory(conn *bus.Conn) memory.Store {
	if f.Ephemeral {
		conn = nil
	}
	return Memory(f.global, conn)
}

// WaitIdle waits until the worker has no work in hand, at most for the time
// atMost. After an outcome is stored, the worker may still write memory.
func (f *WorkerFlags) WaitIdle(ctx context.Context, atMost time.Duration) {
	w := f.worker.Load()
	if w == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), atMost)
	defer cancel()
	_ = w.WaitIdle(ctx)
}

// Works returns when the worker of this process is not locked up, and at once
// if there is none yet.
func (f *WorkerFlags) Works() {
	if w := f.worker.Load(); w != nil {
		agentd.Works(w)
	}
}

// provisionRetryDelay is the pause before another attempt to create the
// streams.
const provisionRetryDelay = 500 * time.Millisecond

// Provision creates missing streams. It retries while the server does not
// answer: a cluster without a leader, or a server that restarts.
func Provision(ctx context.Context, conn *bus.Conn, p bus.Provision, log *slog.Logger) error {
	for {
		err := conn.Provision(ctx, p)
		if err == nil || ctx.Err() != nil || !bus.Lost(err) {
			return withCause(ctx, err)
		}
		log.WarnContext(ctx, "waiting for jetstream", slog.Any(keyError, err))
		_ = pause.For(ctx, provisionRetryDelay)
	}
}

// IgnoreSignal returns nil in place of a SignalError: a signal is the normal
// end of a worker.
func IgnoreSignal(err error) error {
	if _, ok := errors.AsType[SignalError](err); ok {
		return nil
	}
	return err
}

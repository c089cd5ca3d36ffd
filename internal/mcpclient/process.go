package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/configs"
)

const (
	// grace is the time that a process has to end after its input was
	// closed, and again after SIGTERM.
	grace = 2 * time.Second
	// drain is the time in which the output of a process that has ended is
	// read. A stranger may hold the pipe open.
	drain = time.Second
	// pingTime is the time that a process has to answer a ping, after a
	// call without an answer.
	pingTime = 30 * time.Second
)

// process is an MCP server that the worker starts. It is a server.
type process struct {
	def configs.Toolset
	log *slog.Logger
	// grace and pingTime are the constants of those names, and limit is
	// maxMessage, except in tests.
	grace, pingTime time.Duration
	limit           int

	cmd    *exec.Cmd
	pipes  pipes
	stderr *lineLog
	ending sync.Once
	// hangs says that the process was ended since it did not answer.
	hangs atomic.Bool
	// exited is closed when no process of the group is left.
	exited chan struct{}
	state  error
	// work counts the goroutines of the process.
	work sync.WaitGroup
}

// pipes are the worker's ends.
type pipes struct{ in, out, err *os.File }

func newProcess(def configs.Toolset, log *slog.Logger) *process {
	return &process{
		def:      def,
		log:      log,
		grace:    grace,
		pingTime: pingTime,
		limit:    maxMessage,
		stderr:   &lineLog{log: log, ended: make(chan struct{})},
		exited:   make(chan struct{}),
	}
}

// Connect starts the process.
func (p *process) Connect(ctx context.Context) (mcp.Connection, error) {
	started := make(chan error)
	p.work.Go(func() { p.run(ctx, started) })
	if err := <-started; err != nil {
		p.cmd = nil
		return nil, fmt.Errorf("start %s: %w", p.def.Command[0], err)
	}
	p.work.Go(func() { p.stderr.readFrom(p.pipes.err) })
	c := newStdio(p)
	p.work.Go(c.writeAll)
	return c, nil
}

// run starts the process, sends the error on started, and waits for the end of
// the process. It keeps its thread until then, for dieWithParent.
func (p *process) run(ctx context.Context, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.start(ctx)
	started <- err
	if err == nil {
		p.reap()
	}
}

// start starts the program in a group of its own. The context bounds its start
// alone.
func (p *process) start(ctx context.Context) error {
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), p.def.Command[0], p.def.Command[1:]...)
	p.cmd.Dir = p.def.Workdir
	p.cmd.Env = environment(p.def.Env)
	p.cmd.SysProcAttr = ownGroup()
	var theirs [3]*os.File
	defer func() { closeAll(theirs[:]...) }()
	var err error
	if theirs[0], p.pipes.in, err = os.Pipe(); err != nil {
		return err
	}
	if p.pipes.out, theirs[1], err = os.Pipe(); err == nil {
		p.pipes.err, theirs[2], err = os.Pipe()
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirs[0], theirs[1], theirs[2]
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		closeAll(p.pipes.in, p.pipes.out, p.pipes.err)
	}
	return err
}

// closeAll closes the files that are open.
func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// environment is the environment of a server: PATH, HOME, LANG, TERM, and the
// variables that its definition names.
func environment(names []string) []string {
	env := []string{}
	for _, name := range append([]string{"PATH", "HOME", "LANG", "TERM"}, names...) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// reap waits for the process, and kills the rest of its group.
func (p *process) reap() {
	p.state = p.cmd.Wait()
	killGroup(p.cmd.Process)
	end := time.Now().Add(drain)
	_ = p.pipes.out.SetReadDeadline(end)
	_ = p.pipes.err.SetReadDeadline(end)
	close(p.exited)
}

// stop closes the input of the process. Then it sends SIGTERM and SIGKILL to
// its group, each after the grace.
func (p *process) stop() {
	if p.cmd == nil {
		return
	}
	p.ending.Do(func() {
		_ = p.pipes.in.Close()
		if !p.endsWithin(p.grace) {
			terminateGroup(p.cmd.Process)
		}
		if !p.endsWithin(p.grace) {
			killGroup(p.cmd.Process)
		}
	})
	p.work.Wait()
	closeAll(p.pipes.out, p.pipes.err)
}

// hang ends the process, since it does not answer.
func (p *process) hang() {
	p.hangs.Store(true)
	p.stop()
}

// endsWithin waits for the end of the process. It reports whether it has ended.
func (p *process) endsWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.exited:
		return true
	case <-t.C:
		return false
	}
}

// failure is how the process has ended, with the last lines of its standard
// error. Of a process that lives it has the lines alone.
func (p *process) failure() error {
	said := p.stderr.last()
	if p.hangs.Load() {
		return fmt.Errorf("the server did not answer, not even a ping within %v", p.pingTime)
	}
	select {
	case <-p.exited:
	default:
		if said == "" {
			return nil
		}
		return errors.New("it wrote: " + said)
	}
	state := "exit status 0"
	if p.state != nil {
		state = p.state.Error()
	}
	if said == "" {
		return fmt.Errorf("the server has ended (%s)", state)
	}
	return fmt.Errorf("the server has ended (%s); it wrote: %s", state, said)
}

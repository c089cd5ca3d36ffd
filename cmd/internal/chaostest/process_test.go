package chaostest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// errOver refuses to start a process while the test ends.
var errOver = errors.New("the test is over")

// group is the process group of all children. Its leader outlives the test by a
// moment and ends the others.
type group struct {
	leader int
	log    *journal
	mu     sync.Mutex
	alive  map[*process]bool
	over   bool // no process may start
}

// newGroup makes a group without processes. Its leader ends with the test.
func newGroup(t *testing.T, log *journal) *group {
	t.Helper()
	keeper := exec.Command(os.Args[0]) //nolint:noctx // ends with the pipe
	keeper.Env = append(os.Environ(), roleEnv+"=keeper")
	keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := keeper.StdinPipe()
	if err == nil {
		err = keeper.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	g := &group{leader: keeper.Process.Pid, log: log, alive: map[*process]bool{}}
	t.Cleanup(func() {
		g.killAll()
		_ = pipe.Close()
		_ = keeper.Wait()
	})
	return g
}

// killAll ends the remaining processes, so that the files of the test can be
// removed.
func (g *group) killAll() {
	g.mu.Lock()
	g.over = true
	left := slices.Collect(maps.Keys(g.alive))
	g.mu.Unlock()
	for _, p := range left {
		p.cont()
		p.kill()
	}
}

// process is a child process.
type process struct {
	name string
	cmd  *exec.Cmd
	// wanted is set before the test ends the process. Any other end is a
	// failure.
	wanted atomic.Bool
	// spoke is closed after the process's first line of output. By then the
	// process handles signals.
	spoke chan struct{}
	ended chan struct{} // closed after its end
	err   error         // the error of its end
}

// start runs a command in the group. Its standard error goes to the journal.
func (g *group) start(name string, cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.leader}
	cmd.WaitDelay = time.Second
	p := &process{name: name, cmd: cmd, spoke: make(chan struct{}), ended: make(chan struct{})}
	cmd.Stderr = g.log.of(name, func() { close(p.spoke) })
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return nil, fmt.Errorf("start %s: %w", name, errOver)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	g.alive[p] = true
	// This goroutine ends with the process, which killAll waits for.
	go func() {
		p.err = cmd.Wait()
		g.mu.Lock()
		delete(g.alive, p)
		g.mu.Unlock()
		close(p.ended)
	}()
	return p, nil
}

// kill sends SIGKILL and waits for the end.
func (p *process) kill() {
	p.wanted.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// drain sends SIGTERM and waits for an orderly end. After the time atMost it
// kills the process and returns an error.
func (p *process) drain(atMost time.Duration) error {
	p.wanted.Store(true)
	select {
	case <-p.spoke:
	case <-p.ended:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("drain %s: %w", p.name, err)
	}
	select {
	case <-p.ended:
		if p.err != nil {
			return fmt.Errorf("drain %s: %w", p.name, p.err)
		}
		return nil
	case <-time.After(atMost):
		p.kill()
		return fmt.Errorf("drain %s: it had not ended after %s", p.name, atMost)
	}
}

// stop freezes the process until cont is called.
func (p *process) stop() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// cont ends a freeze.
func (p *process) cont() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

package chaostest

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// slots is the number of model calls that a worker makes at once.
const slots = 16

// workerPool is a constant number of workers. A worker that ends is replaced at
// once.
type workerPool struct {
	group  *group
	places []*place
	// prefix begins the names of the workers.
	prefix string
	// unexpectedEnds is the number of workers that ended though the test
	// did not end them.
	unexpectedEnds atomic.Int64
	// lastWords holds a string: the last output of the newest of them.
	lastWords atomic.Value
}

// place holds one worker after the other. proc is the present worker, and gen
// the number of workers so far.
type place struct {
	pool    *workerPool
	number  int
	command func(name string) *exec.Cmd
	proxy   *proxy // nil: a direct connection

	// fault is held while a fault strikes the worker in this place.
	fault sync.Mutex
	mu    sync.Mutex
	gen   int
	proc  *process
}

// agentd is the command of a worker, without the server's address.
type agentd struct {
	file, agents string
	model        string // the model's address
	nodes        int
	partitions   int
	ackWait      time.Duration
	args         []string
	// before is the program of an earlier version, or "".
	before string
	// env is added to the environment.
	env []string
}

// named returns the command of a worker with this name.
func (a agentd) named(name string, args ...string) *exec.Cmd {
	args = append(append(args, a.args...),
		"--agents", a.agents,
		"--name", name,
		"--slots", strconv.Itoa(slots),
		"--ack-wait", a.ackWait.String(),
		"--replicas", strconv.Itoa(a.nodes),
		"--partitions", strconv.Itoa(a.partitions),
		"--log-format", "text",
	)
	cmd := exec.Command(a.file, args...) //nolint:noctx // the group ends it
	cmd.Env = append(append(os.Environ(), "AXE_OLLAMA_BASE_URL="+a.model+"/"+name), a.env...)
	return cmd
}

// newPool makes the places of all workers, the first of them behind proxies.
func (a agentd) newPool(t *testing.T, g *group, s *servers, proxied int) *workerPool {
	t.Helper()
	c := &workerPool{group: g}
	for i := range workers {
		url := s.urls()
		b := &place{pool: c, number: i}
		if i < proxied {
			b.proxy = newProxy(t, s.nodes[0].addr())
			url = "nats://" + b.proxy.Addr().String()
		}
		b.command = func(name string) *exec.Cmd { return a.versioned(b.gen).named(name, "--server", url) }
		c.places = append(c.places, b)
	}
	return c
}

// fill starts a new worker in the place of the worker after, which has ended,
// unless another goroutine has done so. after is nil for the first worker.
func (b *place) fill(after *process) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.proc != after {
		return nil
	}
	b.gen++
	name := fmt.Sprintf("%sw%d-%d", b.pool.prefix, b.number, b.gen)
	p, err := b.pool.group.start(name, b.command(name))
	if err != nil {
		return err
	}
	b.proc = p
	go b.replaceAfterEnd(p) // ends soon after the process
	return nil
}

// replaceAfterEnd replaces a worker that ends of its own accord, as a
// supervisor of processes would.
func (b *place) replaceAfterEnd(p *process) {
	<-p.ended
	if p.wanted.Load() {
		return
	}
	b.pool.unexpectedEnds.Add(1)
	b.pool.group.log.log("%s gave up: %v", p.name, p.err)
	// By the end of the test the journal may have dropped this output.
	b.pool.lastWords.Store(b.pool.group.log.said(p.name))
	time.Sleep(200 * time.Millisecond)
	_ = b.fill(p)
}

// each calls a function with each worker.
func (c *workerPool) each(do func(*process)) {
	for _, b := range c.places {
		do(b.worker())
	}
}

// worker returns the present worker of the place.
func (b *place) worker() *process {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.proc
}

// take finds a place that no fault strikes at this moment, from a number on. If
// proxied is set, the place has a proxy. take locks the place's fault, and the
// caller unlocks it. take returns nil if there is no such place.
func (c *workerPool) take(from int, proxied bool) *place {
	for i := range c.places {
		b := c.places[(from+i)%len(c.places)]
		if (!proxied || b.proxy != nil) && b.fault.TryLock() {
			return b
		}
	}
	return nil
}

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

// slots is how many model calls a worker makes at once.
const slots = 16

// crew is a constant number of workers: who ends is replaced at once.
type crew struct {
	group  *group
	berths []*berth
	// string: what the last of them has said
	why atomic.Value
	// workers that ended though nobody ended them
	gaveUp atomic.Int64
}

// berth is the place of one worker after the other.
type berth struct {
	crew    *crew
	number  int
	command func(name string) *exec.Cmd
	proxy   *proxy // nil: it reaches the server itself

	// held while somebody does something to who is here
	fault sync.Mutex
	mu    sync.Mutex
	gen   int
	proc  *process
}

// agentd is the command of a worker, without what it says of the server.
type agentd struct {
	file, agents string
	model        string // where it is asked
	nodes, parts int
	ackWait      time.Duration
}

func (a agentd) named(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(
		a.file,
		append(
			args,
			"--agents",
			a.agents,
			"--name",
			name,
			"--slots",
			strconv.Itoa(slots), //nolint:noctx // the group ends it
			"--ack-wait",
			a.ackWait.String(),
			"--replicas",
			strconv.Itoa(a.nodes),
			"--partitions",
			strconv.Itoa(a.parts),
			"--log-format",
			"text",
		)...)
	cmd.Env = append(os.Environ(), "AXE_OLLAMA_BASE_URL="+a.model+"/"+name)
	return cmd
}

// newCrew makes berths, the first of them behind proxies.
func newCrew(t *testing.T, g *group, a agentd, s *servers, proxied int) *crew {
	t.Helper()
	c := &crew{group: g}
	for i := range workers {
		url := s.urls()
		b := &berth{crew: c, number: i}
		if i < proxied {
			b.proxy = newProxy(t, s.nodes[0].addr())
			url = "nats://" + b.proxy.Addr().String()
		}
		b.command = func(name string) *exec.Cmd { return a.named(name, "--server", url) }
		c.berths = append(c.berths, b)
	}
	return c
}

// fill puts a new worker in the place of one that has ended, unless somebody
// else was quicker.
func (b *berth) fill(after *process) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.proc != after {
		return nil
	}
	b.gen++
	name := fmt.Sprintf("w%d-%d", b.number, b.gen)
	p, err := b.crew.group.start(name, b.command(name))
	if err != nil {
		return err
	}
	b.proc = p
	go b.mind(p) // ends a moment after the process
	return nil
}

// mind replaces a worker that ends of its own accord, as whatever supervises it
// would.
func (b *berth) mind(p *process) {
	<-p.ended
	if p.wanted.Load() {
		return
	}
	b.crew.gaveUp.Add(1)
	b.crew.group.log.say("%s gave up: %v", p.name, p.err)
	// the journal will have forgotten it
	b.crew.why.Store(b.crew.group.log.said(p.name))
	time.Sleep(200 * time.Millisecond)
	_ = b.fill(p)
}

func (b *berth) worker() *process {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.proc
}

// take finds a berth to which nobody does anything, from one on; with a proxy
// if it is to have one. The caller unlocks its fault.
func (c *crew) take(from int, proxied bool) *berth {
	for i := range c.berths {
		b := c.berths[(from+i)%len(c.berths)]
		if (!proxied || b.proxy != nil) && b.fault.TryLock() {
			return b
		}
	}
	return nil
}

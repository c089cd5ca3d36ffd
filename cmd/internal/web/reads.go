package web

import (
	"context"
	"sync"
	"time"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/subjects"
)

const (
	// readAge is the time for which a read answers other requests.
	readAge = time.Second
	// countAge is the same for statistics, which read much.
	countAge = 5 * time.Second
)

// shared answers equal requests that come within an age with one read. Failed
// reads are not kept. The zero value is not usable: see newShared.
type shared[K comparable, V any] struct {
	age  time.Duration
	read func(context.Context, K) (V, error)

	mu    sync.Mutex
	calls map[K]*call[V]
}

// call is a read that is being made, or was made.
type call[V any] struct {
	began time.Time
	done  chan struct{}
	value V
	err   error
}

func newShared[K comparable, V any](age time.Duration, read func(context.Context, K) (V, error)) *shared[K, V] {
	return &shared[K, V]{age: age, read: read, calls: map[K]*call[V]{}}
}

// get returns the value of a key. The first request of a key reads it for all
// others, and goes on if its client is gone.
func (s *shared[K, V]) get(ctx context.Context, key K) (V, error) {
	s.mu.Lock()
	c := s.calls[key]
	if c == nil || time.Since(c.began) > s.age {
		for k, old := range s.calls {
			if time.Since(old.began) > s.age {
				delete(s.calls, k)
			}
		}
		c = &call[V]{began: time.Now(), done: make(chan struct{})}
		s.calls[key] = c
		s.mu.Unlock()
		reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		c.value, c.err = s.read(reading, key)
		close(c.done)
		if c.err != nil {
			s.drop(key, c)
		}
		return c.value, c.err
	}
	s.mu.Unlock()
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		var none V
		return none, context.Cause(ctx)
	}
}

// drop forgets a read.
func (s *shared[K, V]) drop(key K, c *call[V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[key] == c {
		delete(s.calls, key)
	}
}

// forget forgets all reads.
func (s *shared[K, V]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.calls)
}

// treesKey is a query of a list of trees in a form that can be compared.
type treesKey struct {
	agent    subjects.Agent
	statuses string
	since    time.Duration
	all      bool
	n        int
	before   subjects.Tree
}

// held are the turns and calls that wait for a person.
type held struct {
	Turns []cli.HeldTurnLine `json:"turns"`
	Calls []cli.HeldCallLine `json:"calls"`
}

// reads are the reads of the bus that several clients share.
type reads struct {
	trees     *shared[treesKey, client.TreePage]
	snapshots *shared[subjects.Tree, *client.Snapshot]
	held      *shared[subjects.Tree, held]
	agents    *shared[struct{}, []cli.AgentLine]
	workers   *shared[struct{}, []cli.WorkerLine]
	counts    *shared[time.Duration, client.Statistics]
}

func newReads(s *Server) reads {
	return reads{
		trees:     newShared(readAge, s.readTrees),
		snapshots: newShared(readAge, s.Snapshot),
		held:      newShared(readAge, s.readHeld),
		agents: newShared(readAge, func(ctx context.Context, _ struct{}) ([]cli.AgentLine, error) {
			return cli.Agents(ctx, s.conn)
		}),
		workers: newShared(readAge, func(ctx context.Context, _ struct{}) ([]cli.WorkerLine, error) {
			return cli.Workers(ctx, s.conn)
		}),
		counts: newShared(countAge, s.readCounts),
	}
}

// forget makes the next reads ask the bus.
func (r reads) forget() {
	r.trees.forget()
	r.snapshots.forget()
	r.held.forget()
	r.agents.forget()
	r.workers.forget()
}

package agentd

import (
	"sync"
	"time"

	"github.com/axebus/axe/subjects"
)

// cache keeps the folds of runs that wait, up to a number of bytes and for a
// while. Whatever is in it may be dropped: a run that is not there is read
// again.
//
// It is two generations. What is put goes to the young one. When that holds
// half of the bytes, and every keptFor, it becomes the old one, and what that
// was is dropped.
type cache struct {
	mu         sync.Mutex
	max        int
	young, old generation
	// runs while there is something to age
	aging *time.Timer
}

// generation is part of a cache.
type generation struct {
	runs map[subjects.Run]*history
	size int
}

// keptFor is how long a run stays at least, unless others need the room, and
// half of how long it stays at most: one that is idle for days costs a worker
// nothing.
const keptFor = 30 * time.Second

// What a run takes in memory was measured (TestCacheCountsWhatItHolds): so much
// itself, so much for each message, and its bytes and some.
const (
	weightOfRun     = 2048
	weightOfMessage = 640
)

func weight(body int) int { return weightOfMessage + body + body*3/10 }

func newCache(limit int) *cache {
	c := &cache{max: limit}
	c.aging = time.AfterFunc(keptFor, c.age)
	c.aging.Stop()
	return c
}

// take removes a run from the cache and returns it, nil if it is not there.
func (c *cache) take(r subjects.Run) *history {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.young.take(r); h != nil {
		return h
	}
	return c.old.take(r)
}

func (g *generation) take(r subjects.Run) *history {
	h := g.runs[r]
	if h != nil {
		delete(g.runs, r)
		g.size -= weightOfRun + h.size
	}
	return h
}

// put keeps a run that waits.
func (c *cache) put(h *history) {
	size := weightOfRun + h.size
	if h.state.Seq == 0 || h.state.Ended() || size > c.max/2 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young.size+size > c.max/2 {
		c.turn()
	}
	if c.young.runs == nil && c.old.runs == nil {
		c.aging.Reset(keptFor)
	}
	if c.young.runs == nil {
		c.young.runs = map[subjects.Run]*history{}
	}
	c.young.runs[h.run] = h
	c.young.size += size
}

// turn begins a new generation.
func (c *cache) turn() { c.young, c.old = generation{}, c.young }

// age begins a new generation while there is one before it.
func (c *cache) age() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn()
	if c.old.runs != nil {
		c.aging.Reset(keptFor)
	}
}

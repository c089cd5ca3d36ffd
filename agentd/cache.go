package agentd

import (
	"sync"
	"time"

	"github.com/axebus/axe/subjects"
)

// cache keeps folded states of waiting runs, up to a number of bytes and for a
// while. It is safe to drop anything: a run that is missing is read again.
//
// It has two generations. put adds to the young generation. When that holds
// half of the bytes, and every cachePeriod, it becomes the old generation, and
// the old one is dropped.
type cache struct {
	mu    sync.Mutex
	max   int
	young generation
	old   generation
	// aging runs while the cache is not empty.
	aging *time.Timer
}

// generation is a half of a cache.
type generation struct {
	runs map[subjects.Run]*loadedRun
	size int
}

// cachePeriod is the age of a generation. A run stays for one period at least,
// unless others need the room, and for two at most: a run that is idle for days
// costs a worker nothing.
const cachePeriod = 30 * time.Second

// The memory of a run in bytes is runWeight and, for each message,
// messageWeight and 130 % of its body. Counted by their bodies alone, 60,000
// waiting runs once took 660 MiB within a limit of 64.
// TestCacheCountsWhatItHolds compares the figures with the heap.
const (
	runWeight     = 2048
	messageWeight = 640
)

// weight returns the memory of a message with a body of so many bytes.
func weight(body int) int { return messageWeight + body + body*3/10 }

func newCache(limit int) *cache {
	c := &cache{max: limit}
	c.aging = time.AfterFunc(cachePeriod, c.age)
	c.aging.Stop()
	return c
}

// take removes a run from the cache and returns it. It returns nil if the run
// is missing.
func (c *cache) take(r subjects.Run) *loadedRun {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.young.take(r); h != nil {
		return h
	}
	return c.old.take(r)
}

func (g *generation) take(r subjects.Run) *loadedRun {
	h := g.runs[r]
	if h != nil {
		delete(g.runs, r)
		g.size -= runWeight + h.size
	}
	return h
}

// put keeps a waiting run. It drops a run that has ended, that was not read, or
// that needs more than half of the cache.
func (c *cache) put(h *loadedRun) {
	size := runWeight + h.size
	if h.state.Seq == 0 || h.state.Ended() || size > c.max/2 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young.size+size > c.max/2 {
		c.nextGeneration()
	}
	if c.young.runs == nil && c.old.runs == nil {
		c.aging.Reset(cachePeriod)
	}
	if c.young.runs == nil {
		c.young.runs = map[subjects.Run]*loadedRun{}
	}
	c.young.runs[h.run] = h
	c.young.size += size
}

// clear drops all runs.
func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.young, c.old = generation{}, generation{}
}

// nextGeneration drops the old generation. The caller holds the lock.
func (c *cache) nextGeneration() {
	c.old = c.young
	c.young = generation{}
}

// age begins a new generation, and again after each cachePeriod until the cache
// is empty.
func (c *cache) age() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextGeneration()
	if c.old.runs != nil {
		c.aging.Reset(cachePeriod)
	}
}

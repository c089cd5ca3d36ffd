package agentd

import (
	"sync"

	"github.com/axebus/axe/subjects"
)

// cache keeps the folds of runs that wait, up to a number of bytes. Whatever is in it may be dropped:
// a run that is not there is read again.
type cache struct {
	mu   sync.Mutex
	max  int
	size int
	runs map[subjects.Run]*history
}

func newCache(limit int) *cache { return &cache{max: limit, runs: map[subjects.Run]*history{}} }

// take removes a run from the cache and returns it, nil if it is not there.
func (c *cache) take(r subjects.Run) *history {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.runs[r]
	if h != nil {
		delete(c.runs, r)
		c.size -= h.size
	}
	return h
}

// put keeps a run that waits. Others make room for it, no matter which.
func (c *cache) put(h *history) {
	if h.state.Seq == 0 || h.state.Ended() || h.size > c.max {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[h.run] = h
	c.size += h.size
	for r, old := range c.runs {
		if c.size <= c.max {
			return
		}
		if r != h.run {
			delete(c.runs, r)
			c.size -= old.size
		}
	}
}

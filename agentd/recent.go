package agentd

import (
	"sync"
	"time"
)

// recent keeps the values that were put last, up to a number of bytes and for a
// while. It is safe for concurrent use.
//
// It has two generations. put adds to the young generation. It becomes the old
// one after every period, and when a new value would take it above half of the
// bytes. The former old one is then dropped.
type recent[K comparable, V any] struct {
	mu sync.Mutex
	// max is the largest size of both generations together, in bytes.
	max   int
	young generation[K, V]
	old   generation[K, V]
	// period is the time after which the young generation becomes the old
	// one. So a value stays for one period at least, unless others need the
	// room, and for two at most.
	period time.Duration
	// aging is the timer of the period's end; nil before the first value. It
	// stops at the end of a period in which nothing was put.
	aging *time.Timer
}

// generation has the values of a period, or of a part of one.
type generation[K comparable, V any] struct {
	values map[K]sized[V]
	// size is that of all values, in bytes.
	size int
}

// sized is a value and its memory in bytes.
type sized[V any] struct {
	value V
	size  int
}

func newRecent[K comparable, V any](limit int, period time.Duration) recent[K, V] {
	return recent[K, V]{max: limit, period: period}
}

// take removes a value and returns it; ok is false if it is missing.
func (c *recent[K, V]) take(key K) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.remove(key)
}

// remove is take for a caller that holds the lock.
func (c *recent[K, V]) remove(key K) (v V, ok bool) {
	if v, ok = c.young.take(key); !ok {
		v, ok = c.old.take(key)
	}
	return v, ok
}

func (g *generation[K, V]) take(key K) (V, bool) {
	v, ok := g.values[key]
	if ok {
		delete(g.values, key)
		g.size -= v.size
	}
	return v.value, ok
}

// put keeps a value of so many bytes in place of an earlier one of its key. It
// drops a value that needs more than half of the room.
func (c *recent[K, V]) put(key K, v V, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
	if size > c.max/2 {
		return
	}
	if c.young.size+size > c.max/2 {
		c.nextGeneration()
	}
	switch {
	case c.aging == nil:
		c.aging = time.AfterFunc(c.period, c.age)
	case c.young.values == nil && c.old.values == nil:
		c.aging.Reset(c.period)
	}
	if c.young.values == nil {
		c.young.values = map[K]sized[V]{}
	}
	c.young.values[key] = sized[V]{v, size}
	c.young.size += size
}

// clear drops all values.
func (c *recent[K, V]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.young, c.old = generation[K, V]{}, generation[K, V]{}
}

// nextGeneration drops the old generation. The caller holds the lock.
func (c *recent[K, V]) nextGeneration() {
	c.old = c.young
	c.young = generation[K, V]{}
}

// age begins a new generation, and again after each period until one ends in
// which nothing was put.
func (c *recent[K, V]) age() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextGeneration()
	if c.old.values != nil {
		c.aging.Reset(c.period)
	}
}

package agentd

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestRecentKeepsTheLastValue: a value that is put in place of an older one is
// the only one of its key, also if the older one is of the old generation, and
// if the new one is too large to be kept.
func TestRecentKeepsTheLastValue(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{0, time.Minute} {
		for _, size := range []int{10, 51} {
			synctest.Test(t, func(t *testing.T) {
				c := newRecent[string, int](100, time.Minute)
				c.put("k", 1, 10)
				time.Sleep(pause)
				synctest.Wait()
				c.put("k", 2, size)
				v, ok := c.take("k")
				if kept := size <= 50; ok != kept || kept && v != 2 {
					t.Errorf("after %v: a value of %d bytes is taken as %d, %t", pause, size, v, ok)
				}
				if v, ok := c.take("k"); ok {
					t.Errorf("after %v: the older value %d is left beside one of %d bytes", pause, v, size)
				}
			})
		}
	}
}

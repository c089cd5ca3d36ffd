package agentd

import (
	"time"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// cache keeps folded states of waiting runs, up to a number of bytes and for a
// while. It is safe to drop anything: a run that is missing is read again.
type cache struct {
	recent[subjects.Run, *loadedRun]
}

// cachePeriod is the age of a generation. A run stays for one period at least,
// unless others need the room, and for two at most: a run that is idle for days
// costs a worker nothing.
const cachePeriod = 30 * time.Second

// The memory of a run in bytes is runWeight and, for each message,
// messageWeight and 130 % of its body. An inherited conversation is added
// (weightOf). Counted by their bodies alone, 60,000 waiting runs once took 660
// MiB within a limit of 64. TestCacheCountsWhatItHolds compares the figures
// with the heap.
const (
	runWeight     = 2048
	messageWeight = 640
)

// weight returns the memory of a message with a body of so many bytes.
func weight(body int) int { return messageWeight + body + body*3/10 }

// weightOf returns the memory of an inherited conversation. Its messages are
// smaller than those of a fold. They are counted by their texts, and by 128
// bytes for each message, 64 for each result and 400 for each call. A call has
// its arguments twice.
func weightOf(ms []provider.Message) (sum int) {
	for _, m := range ms {
		sum += 128 + len(m.Content)
		for _, r := range m.ToolResults {
			sum += 64 + len(r.Content)
		}
		for _, c := range m.ToolCalls {
			sum += 400 + 2*len(c.Raw)
		}
	}
	return sum
}

func newCache(limit int) *cache {
	return &cache{newRecent[subjects.Run, *loadedRun](limit, cachePeriod)}
}

// put keeps a waiting run. It drops a run that has ended, that was not read, or
// that needs more than half of the cache.
func (c *cache) put(h *loadedRun) {
	if h.state.Seq != 0 && !h.state.Ended() {
		c.recent.put(h.run, h, runWeight+h.size)
	}
}

package agentd

import (
	"maps"
	"sync"
	"time"
)

// intake decides how many calls a worker asks for, and from where: of all
// sources together for no more than it has free slots. Those that had calls
// lately, the busy ones, get what the others do not need.
type intake struct {
	mu   sync.Mutex
	busy map[source]time.Time // when there was a call last
}

// busyFor is how long after a call a source counts as busy.
const busyFor = 5 * time.Second

// mostAtOnce is how many calls one request asks for at most.
const mostAtOnce = 32

func newIntake() *intake { return &intake{busy: map[source]time.Time{}} }

// had notes a call.
func (i *intake) had(from source, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.busy[from] = now
}

// share is how many calls of a source a standing request may ask for, with so
// many sources and slots to spare. Each may ask for one while there are slots
// for all. With fewer slots only the busy ones may, and leave one slot to those
// that are asked in turn.
func (i *intake) share(from source, now time.Time, sources, spare int) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	busy := i.count(now)
	_, itself := i.busy[from]
	switch {
	case spare >= sources && !itself:
		return 1
	case spare >= sources:
		return min(mostAtOnce, 1+(spare-sources)/busy)
	case itself:
		return min(mostAtOnce, (spare-1)/busy)
	}
	return 0
}

// Bounds of the pause after a source had no call for the last slot: all
// together are not asked more often than once in pollEvery.
const (
	pollAtLeast = 2 * time.Millisecond
	pollAtMost  = 100 * time.Millisecond
	pollEvery   = 2 * time.Millisecond
)

// pause is how long a source of so many is left alone that had no call for the
// last slot: for as long as it has had none, within bounds, so that it is asked
// at twice that time again.
func (i *intake) pause(from source, now time.Time, sources int) (d time.Duration, longest bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	most := max(pollAtMost, time.Duration(sources)*pollEvery)
	last, busy := i.busy[from]
	if d = now.Sub(last); !busy || d >= most {
		return most, true
	}
	return max(d, pollAtLeast), false
}

// count forgets who is not busy any more, and counts the others.
func (i *intake) count(now time.Time) int {
	maps.DeleteFunc(i.busy, func(_ source, last time.Time) bool { return now.Sub(last) > busyFor })
	return len(i.busy)
}

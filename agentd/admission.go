package agentd

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/axebus/axe/subjects"
)

// slots bounds the model calls in flight. Work under way (a run with all its
// outcomes) comes before new calls: it waits here in line, and a worker pulls a
// new call only while a slot is free.
type slots struct {
	mu   sync.Mutex
	free int
	// waiting has the channels of the waiting goroutines, the oldest first.
	waiting []chan struct{}
	// available is closed while a slot is free.
	available chan struct{}
}

func newSlots(n int) *slots {
	s := &slots{free: n, available: make(chan struct{})}
	close(s.available)
	return s
}

// tryTake takes a slot if one is free.
func (s *slots) tryTake() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 {
		return false
	}
	s.free--
	s.signal()
	return true
}

// take waits for a slot, in line.
func (s *slots) take(ctx context.Context) error {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.signal()
		s.mu.Unlock()
		return nil
	}
	granted := make(chan struct{})
	s.waiting = append(s.waiting, granted)
	s.mu.Unlock()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, granted); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else {
		s.put() // it was granted meanwhile
	}
	return context.Cause(ctx)
}

// give frees a slot.
func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put()
}

// put hands a slot to the first in line. The caller holds the lock.
func (s *slots) put() {
	if len(s.waiting) > 0 {
		close(s.waiting[0])
		s.waiting = s.waiting[1:]
		return
	}
	s.free++
	s.signal()
}

// signal renews available after a change of free. The caller holds the lock.
func (s *slots) signal() {
	switch s.free {
	case 0:
		s.available = make(chan struct{})
	case 1:
		select {
		case <-s.available: // a slot was free before
		default:
			close(s.available)
		}
	}
}

// spare returns the number of free slots.
func (s *slots) spare() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}

// waitFree waits until a slot is free. It does not take the slot.
func (s *slots) waitFree(ctx context.Context) error {
	s.mu.Lock()
	c := s.available
	s.mu.Unlock()
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// source is the consumers of an agent on one partition. Calls and inbound
// messages come from there.
type source struct {
	agent     subjects.Agent
	partition int
}

// admission decides how many calls a worker requests, and from which sources.
// At any moment the shares of all sources add up to no more than the free
// slots. A request that was sent before may ask for more. A source that had
// calls lately is busy: it gets the slots that the others do not need. With an
// equal share for each source, however idle, a
// worker with a dozen agents reached 0.35 of the rate of raw requests, and its
// processors were half idle.
type admission struct {
	mu sync.Mutex
	// busy has the time of the last call of each busy source.
	busy map[source]time.Time
}

// busyWindow is the time after a call in which a source counts as busy.
const busyWindow = 5 * time.Second

// maxPerRequest is the largest number of calls that one request asks for.
const maxPerRequest = 32

func newAdmission() *admission { return &admission{busy: map[source]time.Time{}} }

// received notes a call.
func (a *admission) received(from source, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy[from] = now
}

// share returns the number of calls that a standing request for a source may
// ask for, given the number of sources and of free slots. With a slot for each
// source, each may ask for at least one. With fewer slots only the busy sources
// may ask, and they leave one slot for polling the others in turn.
func (a *admission) share(from source, now time.Time, sources, spare int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	busy := a.countBusy(now)
	_, isBusy := a.busy[from]
	switch {
	case spare >= sources && !isBusy:
		return 1
	case spare >= sources:
		return min(maxPerRequest, 1+(spare-sources)/busy)
	case isBusy:
		return min(maxPerRequest, max(0, spare-1)/busy)
	}
	return 0
}

// Bounds of the pause before a source that had no call is polled again. The
// upper bound is at least maxPollPause, and grows with the number of sources:
// all idle sources together are polled at most once in pollInterval.
const (
	minPollPause = 2 * time.Millisecond
	maxPollPause = 100 * time.Millisecond
	pollInterval = 2 * time.Millisecond
)

// pollPause returns the time until a source without a call is polled again. It
// is as long as the source has had no call, within bounds. Longest reports that
// the source has reached the upper bound.
func (a *admission) pollPause(from source, now time.Time, sources int) (d time.Duration, longest bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	upper := max(maxPollPause, time.Duration(sources)*pollInterval)
	last, busy := a.busy[from]
	if d = now.Sub(last); !busy || d >= upper {
		return upper, true
	}
	return max(d, minPollPause), false
}

// countBusy forgets the sources that are no longer busy, and counts the others.
// The caller holds the lock.
func (a *admission) countBusy(now time.Time) int {
	maps.DeleteFunc(a.busy, func(_ source, last time.Time) bool { return now.Sub(last) > busyWindow })
	return len(a.busy)
}

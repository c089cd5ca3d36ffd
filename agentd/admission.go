package agentd

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/axebus/axe/bus"
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
// calls lately is busy: the busy sources get the slots that the others do not
// need, in proportion to the calls that wait there. With an equal share for
// each source, however idle, a worker with a dozen agents reached 0.35 of the
// rate of raw requests, and its processors were half idle.
type admission struct {
	mu   sync.Mutex
	busy map[source]demand
}

// demand is what the last call of a busy source told.
type demand struct {
	last time.Time
	// waiting is the number of calls that the server had yet to deliver.
	waiting int
}

// weight is the part of the spare slots that a source gets, relative to the
// others. Calls beyond the next request do not count: a flood of calls to one
// agent leaves slots to the others. Calls that waited before demandWindow do
// not count either, because another worker may have taken them.
func (d demand) weight(now time.Time) int {
	if now.Sub(d.last) > demandWindow {
		return 1
	}
	return 1 + min(d.waiting, maxPerRequest)
}

const (
	// busyWindow is the time after a call in which a source counts as busy.
	busyWindow = 5 * time.Second
	// demandWindow is the time after a call in which the calls that waited
	// then count.
	demandWindow = bus.PullExpiry
	// maxPerRequest is the largest number of calls that one request asks
	// for.
	maxPerRequest = 32
)

func newAdmission() *admission { return &admission{busy: map[source]demand{}} }

// received notes a call, and how many more wait at the server.
func (a *admission) received(from source, waiting int, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy[from] = demand{now, waiting}
}

// share returns the number of calls that a standing request for a source may
// ask for, given the number of sources and of free slots. With a slot for each
// source, each may ask for at least one. With fewer slots only the busy sources
// may ask, and they leave one slot for polling the others in turn.
func (a *admission) share(from source, now time.Time, sources, spare int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(now)
	own, isBusy := a.busy[from]
	if spare < sources {
		if !isBusy {
			return 0
		}
		sources, spare = len(a.busy), spare-1
	}
	switch {
	case spare < sources:
		return 0
	case !isBusy:
		return 1
	}
	total := 0
	for _, d := range a.busy {
		total += d.weight(now)
	}
	return min(maxPerRequest, 1+(spare-sources)*own.weight(now)/total)
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
	known, busy := a.busy[from]
	if d = now.Sub(known.last); !busy || d >= upper {
		return upper, true
	}
	return max(d, minPollPause), false
}

// forget removes the sources that are no longer busy. The caller holds the
// lock.
func (a *admission) forget(now time.Time) {
	maps.DeleteFunc(a.busy, func(_ source, d demand) bool { return now.Sub(d.last) > busyWindow })
}

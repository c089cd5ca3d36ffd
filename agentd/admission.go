package agentd

import (
	"context"
	"sync"
)

// slots bounds the model calls in flight. Work under way (a run with all its
// replies) comes before new calls: it waits in line here, while calls are not
// even pulled when there is no room.
type slots struct {
	mu    sync.Mutex
	free  int
	line  []chan struct{} // who waits, oldest first
	roomy chan struct{}   // closed while there is room
}

func newSlots(n int) *slots {
	s := &slots{free: n, roomy: make(chan struct{})}
	close(s.roomy)
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
	s.turn()
	return true
}

// take waits for a slot, in line.
func (s *slots) take(ctx context.Context) error {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.turn()
		s.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	s.line = append(s.line, mine)
	s.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !leave(&s.line, mine) {
		s.put() // it was handed over meanwhile
	}
	return context.Cause(ctx)
}

// give frees a slot: for the first in line, or for whoever comes.
func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put()
}

func (s *slots) put() {
	if len(s.line) > 0 {
		close(s.line[0])
		s.line = s.line[1:]
		return
	}
	s.free++
	s.turn()
}

// turn renews the signal after a change of free.
func (s *slots) turn() {
	switch s.free {
	case 0:
		s.roomy = make(chan struct{})
	case 1:
		select {
		case <-s.roomy: // there was room before
		default:
			close(s.roomy)
		}
	}
}

// spare is the number of free slots.
func (s *slots) spare() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}

// room waits until a slot is free.
func (s *slots) room(ctx context.Context) error {
	s.mu.Lock()
	c := s.roomy
	s.mu.Unlock()
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

package mcpserver

import (
	"context"
	"sync"
	"time"

	"github.com/axebus/axe/subjects"
)

// attachments knows the calls in flight, and the trees whose client is gone for
// a moment. It is safe for concurrent use.
type attachments struct {
	mu sync.Mutex
	// stopped says that the server stops.
	stopped bool
	calls   map[*attachment]bool
	// leaving has a timer for each tree that is cancelled unless its client
	// comes back.
	leaving map[subjects.Tree]*time.Timer
	// cancelling counts the timers in leaving and their functions at work.
	cancelling sync.WaitGroup
}

// attachment is one call in flight.
type attachment struct {
	// tree is zero until the call's task is stored, for a call without a
	// key.
	tree subjects.Tree
	// session is the id of the client's session, "" without one.
	session string
	// end ends the call.
	end context.CancelCauseFunc
}

func newAttachments() *attachments {
	return &attachments{calls: map[*attachment]bool{}, leaving: map[subjects.Tree]*time.Timer{}}
}

// attach adds a call, until detach is called, once or more often. Its tree will
// not be cancelled for want of a client. A call that comes while the server
// stops ends at once.
func (s *attachments) attach(a *attachment) (detach func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[a] = true
	s.stay(a.tree)
	if s.stopped {
		a.end(errStopping)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, a)
	}
}

// setTree sets the tree of a call.
func (s *attachments) setTree(a *attachment, tree subjects.Tree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.tree = tree
}

// stay stops the timer of a tree. The caller holds the lock.
func (s *attachments) stay(tree subjects.Tree) {
	if timer := s.leaving[tree]; timer != nil {
		delete(s.leaving, tree)
		if timer.Stop() {
			s.cancelling.Done()
		}
	}
}

// leave calls cancel after a time, unless a call attaches to the tree before,
// or the server stops.
func (s *attachments) leave(tree subjects.Tree, after time.Duration, cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stay(tree)
	if s.stopped {
		return
	}
	s.cancelling.Add(1)
	s.leaving[tree] = time.AfterFunc(after, func() {
		defer s.cancelling.Done()
		if !s.attached(tree) {
			cancel()
		}
	})
}

// attached forgets the timer of a tree, and reports whether a call is attached
// to the tree.
func (s *attachments) attached(tree subjects.Tree) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leaving, tree)
	for a := range s.calls {
		if a.tree == tree {
			return true
		}
	}
	return false
}

// endSession ends the calls of a session.
func (s *attachments) endSession(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.calls {
		if a.session == id {
			a.end(errLeft)
		}
	}
}

// stop ends all calls, and those that come later. It cancels no tree.
func (s *attachments) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for a := range s.calls {
		a.end(errStopping)
	}
	for tree := range s.leaving {
		s.stay(tree)
	}
}

// wait waits for the cancellations that have begun. It is called after stop.
func (s *attachments) wait() { s.cancelling.Wait() }

package web

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/axebus/axe/internal/pause"
)

const (
	// gatherTime collects the changes of a tree before a write, so that a
	// watcher of a wide tree gets few parts.
	gatherTime = 50 * time.Millisecond
	// beatInterval is the time between two comments on a stream. A proxy
	// ends a connection that is silent for long.
	beatInterval = 15 * time.Second
	// firstTime bounds the wait for the first look at a tree: until then the
	// answer may be an error. A tree that is not found is an error.
	firstTime = 5 * time.Second
	// retryDelay is the time after which a client comes back, in
	// milliseconds.
	retryDelay = 2000
	// maxWatchers bounds the watchers of one server.
	maxWatchers = 1000
)

// events streams the changes of a tree as server-sent events, until the tree
// has ended: "run" has the line of a run that has changed, without an id, and
// "event" an event of a stored message, with an id. After Last-Event-ID only
// later events come, and the lines of all runs. The last is "end", or "problem"
// with an error. A server that drains sends neither.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	if err := s.admitWatcher(); err != nil {
		return err
	}
	defer s.watchers.Add(-1)
	lasts(w)
	tree := treeOf(r)
	f := s.feeds.join(tree) //nolint:contextcheck // other watchers share it
	defer s.feeds.leave(tree, f)
	if err := s.begun(r, f); err != nil {
		return err
	}
	out := &stream{w: w, buf: bufio.NewWriter(w)}
	at := place{after: parseEventID(r.Header.Get("Last-Event-ID"))}
	beat := time.NewTicker(beatInterval)
	defer beat.Stop()
	for first := true; ; first = false {
		n := f.read(&at)
		if first && n.ended && n.err == nil && at.after.seq > 0 && len(n.events) == 0 {
			w.WriteHeader(http.StatusNoContent) // a browser does not come back
			return nil
		}
		if first {
			out.begin()
		}
		if !out.news(n) || n.ended {
			return nil
		}
		for waiting := true; waiting; {
			select {
			case <-n.changed:
				if pause.For(r.Context(), gatherTime) != nil {
					return nil
				}
				waiting = false
			case <-beat.C:
				if !out.beat() {
					return nil
				}
			case <-s.drain:
				return nil
			case <-r.Context().Done():
				return nil
			}
		}
	}
}

// errManyWatchers is the error of a stream beyond maxWatchers.
var errManyWatchers = fmt.Errorf("the server has %d streams of events already", maxWatchers)

// admitWatcher counts a watcher.
func (s *Server) admitWatcher() error {
	if s.watchers.Add(1) > maxWatchers {
		s.watchers.Add(-1)
		return &failure{http.StatusServiceUnavailable, "many_watchers", errManyWatchers}
	}
	return nil
}

// begun waits until a feed has the whole of its tree, for firstTime at most. It
// returns the error of a tree that cannot be followed, or of a server that
// drains.
func (s *Server) begun(r *http.Request, f *feed) error {
	late := time.NewTimer(firstTime)
	defer late.Stop()
	for {
		f.mu.Lock()
		looked, ended, err, changed := f.looked, f.ended, f.err, f.changed
		f.mu.Unlock()
		if looked || ended {
			return err
		}
		select {
		case <-changed:
		case <-late.C:
			return nil
		case <-s.drain:
			return &failure{http.StatusServiceUnavailable, "ending", errors.New("the server is about to end")}
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
}

// stream writes server-sent events.
type stream struct {
	w   http.ResponseWriter
	buf *bufio.Writer
}

// begin writes the headers.
func (o *stream) begin() {
	o.w.Header().Set("Content-Type", "text/event-stream")
	o.w.Header().Set("X-Accel-Buffering", "no") // nginx passes each part on
	o.w.WriteHeader(http.StatusOK)
	fmt.Fprintf(o.buf, "retry: %d\n\n", retryDelay)
}

// news writes a part of a feed. It returns false if the client is gone.
func (o *stream) news(n news) bool {
	for _, data := range n.lines {
		fmt.Fprintf(o.buf, "event: run\ndata: %s\n\n", data)
	}
	for _, e := range n.events {
		fmt.Fprintf(o.buf, "id: %s\nevent: event\ndata: %s\n\n", e.id, e.data)
	}
	switch {
	case n.err != nil:
		f := asFailure(n.err)
		data, _ := json.Marshal(problem{http.StatusText(f.status), f.status, f.Error(), f.code})
		fmt.Fprintf(o.buf, "event: problem\ndata: %s\n\n", data)
	case n.ended && !n.stopped:
		fmt.Fprint(o.buf, "event: end\ndata: {}\n\n")
	}
	return o.flush()
}

// beat writes a comment.
func (o *stream) beat() bool {
	fmt.Fprint(o.buf, ": the stream is open\n\n")
	return o.flush()
}

func (o *stream) flush() bool {
	extend(o.w, writeTimeout)
	return o.buf.Flush() == nil && http.NewResponseController(o.w).Flush() == nil
}

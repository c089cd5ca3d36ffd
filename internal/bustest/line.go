package bustest

import (
	"bytes"
	"io"
	"net"
	"sync"
	"time"
)

// Line is a connection to a server that lies far away. Its Wrap is for
// bus.Dial. In a bubble of testing/synctest its time is virtual.
//
//	line := &bustest.Line{RoundTrip: 300 * time.Millisecond}
//	conn, err := bus.Open(ctx, bus.Config{Dial: bus.Dial{Server: s, Wrap: line.Wrap}})
type Line struct {
	// RoundTrip is the delay of both directions together. Data that follows
	// other data does not wait for it.
	RoundTrip time.Duration
	// Sent, if not nil, sees each piece of data that the client sends, and
	// may change its bytes.
	Sent func(piece []byte)

	mu   sync.Mutex
	held time.Time
}

// Hold keeps back for d all data for the client, as if the client was stopped.
func (l *Line) Hold(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = time.Now().Add(d)
}

// heldUntil returns the time until which data for the client is kept back.
func (l *Line) heldUntil() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Wrap returns the client's end of a line to the server.
func (l *Line) Wrap(server net.Conn) net.Conn {
	near, client := net.Pipe()
	go l.pass(server, near, func(piece []byte) time.Time {
		if l.Sent != nil {
			l.Sent(piece)
		}
		return time.Time{}
	})
	go l.pass(near, server, func([]byte) time.Time { return l.heldUntil() })
	return client
}

// maxUnderWay is the number of pieces of data that a line holds.
const maxUnderWay = 1 << 16

// pass copies data until one of the connections ends, and then ends both. A
// piece arrives after half a round trip, and not before the time that held
// returns.
func (l *Line) pass(to io.WriteCloser, from io.ReadCloser, held func(piece []byte) time.Time) {
	type piece struct {
		data []byte
		at   time.Time
	}
	underWay := make(chan piece, maxUnderWay)
	var arriving sync.WaitGroup
	arriving.Go(func() {
		for p := range underWay {
			time.Sleep(time.Until(p.at))
			if _, err := to.Write(p.data); err != nil {
				_ = from.Close()
			}
		}
		_ = to.Close()
	})
	for buf := make([]byte, 32<<10); ; {
		n, err := from.Read(buf)
		if n > 0 {
			p := piece{bytes.Clone(buf[:n]), time.Now().Add(l.RoundTrip / 2)}
			if until := held(p.data); until.After(p.at) {
				p.at = until
			}
			underWay <- p
		}
		if err != nil {
			break
		}
	}
	close(underWay)
	arriving.Wait()
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/history"
	"github.com/axebus/axe/internal/verify"
	"github.com/axebus/axe/subjects"
)

// reading feeds a checker from the stream.
type reading struct {
	conn    *bus.Conn
	checker *verify.Checker
	meter   *meter // nil without a terminal
	origins bus.Origins
	// now is the message that the checker is fed.
	now bus.Stored
	// failed is the error of a question about now.
	failed error
}

// refuses is verify.Config.Refuses.
func (r *reading) refuses(ctx context.Context) func(subjects.Run, verify.Message) string {
	if !r.conn.Grants.Required() {
		return nil
	}
	runs := history.New(r.conn)
	return func(of subjects.Run, _ verify.Message) string {
		refusal, err := runs.Refusal(ctx, of, r.now)
		r.failed = errors.Join(r.failed, err)
		return refusal.Why
	}
}

// feedAll reads the whole stream.
func (r *reading) feedAll(ctx context.Context) error {
	for m, err := range r.conn.Scan(ctx, r.conn.Space().All(), 0) {
		if err == nil {
			err = r.feed(ctx, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// feedTree reads one tree.
func (r *reading) feedTree(ctx context.Context, tree subjects.Tree) error {
	ms, err := bus.ReadTree(ctx, r.conn, tree)
	if err == nil && len(ms) == 0 {
		err = fmt.Errorf("%w: %s", client.ErrUnknownTree, tree)
	}
	if err != nil {
		return err
	}
	for _, m := range ms {
		if err := r.feed(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) feed(ctx context.Context, m bus.Stored) error {
	body, err := r.conn.Load(ctx, m)
	gone := errors.Is(err, bus.ErrObjectGone) || errors.Is(err, bus.ErrTooLarge)
	if err != nil && !gone {
		return err
	}
	r.now = m
	if err := r.origins.LookAhead(ctx, r.conn, m); err != nil {
		return err
	}
	origin := r.origins.Of(r.conn.Space(), m)
	r.checker.Add(verify.Message{
		Subject: m.Subject, Seq: origin.Seq, Time: origin.Time, Shift: r.shift(m), Header: m.Header.Get,
		Body: body, Gone: gone, Fence: origin.Fence, Fenced: origin.Fenced,
		Unproven: !m.ProvesSender(), Answer: m.IsAnswer(),
	})
	if r.meter != nil {
		r.meter.read()
	}
	return r.failed
}

// checkArtifacts compares the artifacts that outcomes name with the stored
// ones.
func (r *reading) checkArtifacts(ctx context.Context) error {
	if !r.checker.NamesArtifacts() {
		return nil
	}
	aged, err := bus.ObjectsAged(ctx, r.conn)
	if err != nil {
		return err
	}
	return r.checker.CheckArtifacts(func(tree subjects.Tree, name string) (string, error) {
		a, err := bus.ArtifactsOf(r.conn, tree).Find(ctx, name)
		if errors.Is(err, bus.ErrNoArtifact) {
			return "", nil
		}
		return a.Digest, err
	}, aged)
}

// shift is the sum of the steps of the server's clock since a message was
// stored.
func (r *reading) shift(m bus.Stored) time.Duration {
	at, err := r.conn.Space().Parse(m.Subject)
	if err != nil {
		return 0
	}
	return r.conn.Clocks.Of(at.Run).Shift(m)
}

// meter shows the progress of a long read on a line of the terminal.
type meter struct {
	w     io.Writer
	n     uint64 // messages read
	all   uint64 // messages on the streams, at most
	drawn time.Time
}

func (m *meter) read() {
	m.n++
	if now := time.Now(); now.Sub(m.drawn) > 200*time.Millisecond {
		m.drawn = now
		fmt.Fprintf(m.w, "\r\x1b[Kmessage %s of %s", thousands(int(m.n)), thousands(int(m.all)))
	}
}

// clear erases the line.
func (m *meter) clear() {
	if !m.drawn.IsZero() {
		fmt.Fprint(m.w, "\r\x1b[K")
	}
}

// verdict summarises a report on one line.
func verdict(r verify.Report) string {
	s := fmt.Sprintf("%s, %s, %s: ", counted(r.Trees, "tree"), counted(r.Runs, "run"), counted(r.Messages, "message"))
	if n := r.Violations(); n > 0 {
		s += counted(n, "violation")
	} else {
		s += "nothing is wrong"
	}
	if n := len(r.Findings) - r.Violations(); n > 0 {
		s += ", " + counted(n, "note")
	}
	if r.WastedRequests > 0 {
		wasted := (time.Duration(r.WastedMS) * time.Millisecond).Round(time.Second / 10)
		s += fmt.Sprintf("; %s wasted (%v)", counted(r.WastedRequests, "model request"), wasted)
	}
	if r.UnderWay > 0 {
		s += fmt.Sprintf("; %s under way: %s", counted(r.UnderWay, "tree"), underWay(r))
	}
	return s
}

// shownUnderWay bounds the trees under way that the verdict names.
const shownUnderWay = 10

// underWay names the trees under way.
func underWay(r verify.Report) string {
	shown := r.UnderWayTrees[:min(len(r.UnderWayTrees), shownUnderWay)]
	s := strings.Join(shown, ", ")
	if more := r.UnderWay - len(shown); more > 0 {
		s += fmt.Sprintf(" and %s more", thousands(more))
	}
	return s
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return thousands(n) + " " + what
}

// thousands writes a number with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

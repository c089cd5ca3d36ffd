// Package history reads runs from the bus, and folds their messages. Workers
// and clients fold the same bodies by the same rules, so that they cannot
// disagree about the state of a run.
//
//	s, err := history.New(conn).State(ctx, r)
package history

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// Reader reads runs over one connection. It keeps nothing between reads and is
// safe for concurrent use.
type Reader struct{ conn *bus.Conn }

// New makes a reader of an open connection, which stays the caller's to close.
func New(conn *bus.Conn) Reader { return Reader{conn} }

// State folds all messages of a run that are stored by now. The run's own
// outcome is not one of them. The state of a run that was not called is in the
// phase run.None. The error wraps run.ErrCorrupt if the run cannot be folded.
func (r Reader) State(ctx context.Context, of subjects.Run) (run.State, error) {
	var s run.State
	for e, err := range r.Events(ctx, of) {
		if err == nil {
			s, err = s.Apply(e)
		}
		if err != nil {
			return run.State{}, err
		}
	}
	return s, nil
}

// Events yields the events of a run in stream order, as State folds them. It
// ends after an error.
func (r Reader) Events(ctx context.Context, of subjects.Run) iter.Seq2[run.Event, error] {
	return func(yield func(run.Event, error) bool) {
		ms, err := r.Latest(ctx, of, "")
		if err != nil {
			yield(nil, err)
			return
		}
		for f, err := range r.Fold(ctx, of, run.State{}, ms) {
			if f.Event == nil && err == nil {
				continue
			}
			if !yield(f.Event, err) || err != nil {
				return
			}
		}
	}
}

// Folded is a message with its event, and the state of its run after it. The
// event is nil if the message says nothing to the fold.
type Folded struct {
	Message bus.Stored
	Event   run.Event
	State   run.State
}

// Fold folds messages of a run, in stream order, into its state. A message of
// the run without an event counts as read all the same: the state's Seq moves
// up to it. A message of another subject changes nothing. Fold ends after an
// error; the state is then that before the message.
func (r Reader) Fold(ctx context.Context, of subjects.Run, s run.State, ms []bus.Stored) iter.Seq2[Folded, error] {
	return func(yield func(Folded, error) bool) {
		for i, m := range ms {
			after, e, err := r.apply(ctx, of, s, m, ms[i+1:])
			if err == nil {
				s = after
			}
			if !yield(Folded{m, e, s}, err) || err != nil {
				return
			}
		}
	}
}

// apply folds one message. Later are the messages after it, as far as they were
// read.
func (r Reader) apply(
	ctx context.Context, of subjects.Run, s run.State, m bus.Stored, later []bus.Stored,
) (run.State, run.Event, error) {
	e, err := r.Event(ctx, of, m)
	if err == nil {
		e, err = r.Judge(ctx, s, e, m, later)
	}
	if err != nil || e == nil && !of.Owns(m.Subject) {
		return s, nil, err
	}
	if e != nil {
		if s, err = s.Apply(e); err != nil {
			return s, e, fmt.Errorf("run %s: %w", of, err)
		}
	}
	if m.IsImported() == s.Imported { // both count in the same stream
		s.Seq = max(s.Seq, m.Origin().Seq)
	}
	return s, e, nil
}

// Event decodes a message of a run with its whole body. It is nil for a message
// of another subject, the run's own outcome included, and for a message that
// says nothing to the fold. Whether an outcome counts is not decided yet.
func (r Reader) Event(ctx context.Context, of subjects.Run, m bus.Stored) (run.Event, error) {
	at, err := of.Space.Parse(m.Subject)
	if err != nil || at.Run != of || at.Kind == subjects.Result {
		return nil, nil //nolint:nilerr // late, duplicate, unknown: no-op (rule 7)
	}
	return r.decode(ctx, at, m)
}

// Outcome decodes the message at a run's reply subject.
func (r Reader) Outcome(ctx context.Context, m bus.Stored) (run.OutcomeStored, error) {
	e, err := r.decode(ctx, subjects.Address{Kind: subjects.Result}, m)
	stored, _ := e.(run.OutcomeStored)
	return stored, err
}

func (r Reader) decode(ctx context.Context, at subjects.Address, m bus.Stored) (run.Event, error) {
	body, err := r.Load(ctx, m)
	if err != nil {
		return nil, err
	}
	origin := m.Origin()
	meta := run.Meta{Seq: origin.Seq, Time: origin.Time, Imported: m.IsImported(), Answer: m.IsAnswer()}
	if !m.ProvesSender() {
		at.By = subjects.By{}
	}
	if at.Kind != subjects.Result {
		meta.Shift = r.conn.Clocks.Of(at.Run).Shift(m)
	}
	return run.Decode(at, meta, body)
}

// Load returns the body of a message. A body with an object that is gone or too
// large is empty, for every reader.
func (r Reader) Load(ctx context.Context, m bus.Stored) ([]byte, error) {
	body, err := r.conn.Load(ctx, m)
	if errors.Is(err, bus.ErrObjectGone) || errors.Is(err, bus.ErrTooLarge) {
		return nil, nil
	}
	return body, err
}

// Whole reads all messages of a run and, if reply is not empty, the first
// message at the subject reply, in stream order. On replicas the answer may lag
// behind the leader.
func (r Reader) Whole(ctx context.Context, of subjects.Run, reply string) ([]bus.Stored, error) {
	var others []string
	if reply != "" {
		others = []string{reply}
	}
	ms, err := r.conn.ReadBySubject(ctx, of.All(), 0, others...)
	if errors.Is(err, bus.ErrTooMany) {
		return r.wholeByScan(ctx, of, others)
	}
	at := slices.IndexFunc(ms, func(m bus.Stored) bool { return m.Subject == reply })
	if err != nil || reply == "" || at < 0 {
		return ms, err
	}
	// This is the last one.
	first, ok, err := r.FirstOutcome(ctx, of, reply)
	if err != nil {
		return nil, err
	}
	if !ok && !ms[at].IsAnswer() {
		if ok, err = r.Counts(ctx, of, ms[at]); err != nil {
			return nil, err
		}
		first = ms[at]
	}
	ms = slices.Delete(ms, at, at+1)
	if ok {
		ms = append(ms, first)
	}
	return bus.InOrder(ms), nil
}

// wholeByScan reads a run that has more subjects than one read covers. It scans
// the stream from the call on, which is slow for an old run and exact for any.
// The only message before the call that counts is a cancel message.
func (r Reader) wholeByScan(ctx context.Context, of subjects.Run, others []string) ([]bus.Stored, error) {
	call, ok, err := r.conn.First(ctx, of.Call())
	if err == nil && !ok {
		call, ok, err = r.conn.First(ctx, of.ToolCall())
	}
	if err != nil || !ok {
		return nil, err
	}
	var ms []bus.Stored
	cancel, ok, err := bus.FirstMessage(ctx, r.conn, of.Cancel())
	if err != nil {
		return nil, err
	}
	if ok {
		ms = append(ms, cancel)
	}
	for _, reply := range others {
		first, ok, err := r.FirstOutcome(ctx, of, reply)
		if err != nil {
			return nil, err
		}
		if ok {
			ms = append(ms, first)
		}
	}
	all, err := r.conn.ReadByScan(ctx, of.All(), call.Seq-1)
	return bus.InOrder(append(ms, all...)), err
}

// Latest reads like Whole, with everything that the stream's leader had stored
// when it was called.
func (r Reader) Latest(ctx context.Context, of subjects.Run, reply string) (ms []bus.Stored, err error) {
	var minSeq, outcome uint64
	if r.conn.Replicas() > 1 {
		if minSeq, err = r.conn.LastSeq(ctx, of.All()); err != nil {
			return nil, err
		}
		if reply != "" {
			if outcome, err = r.conn.LastSeq(ctx, reply); err != nil {
				return nil, err
			}
		}
	}
	err = CatchUp(ctx, func(ctx context.Context) (bool, error) {
		ms, err = r.Whole(ctx, of, reply)
		read := minSeq == 0 || len(ms) > 0 && ms[len(ms)-1].Seq >= minSeq
		// An earlier outcome than the last one may be there.
		ended := outcome == 0 || slices.ContainsFunc(ms, func(m bus.Stored) bool { return m.Subject == reply })
		if err == nil && read && !ended {
			// It does not count, or the replica lags.
			_, ok, seen, err := r.lookFor(ctx, reply, r.outcomesOf(of))
			return !ok && seen >= outcome, err
		}
		return read && ended, err
	}, "%s up to %d", of, max(minSeq, outcome))
	return ms, err
}

// lagTimeout bounds the time for which a replica may lag behind a message that
// is known to be stored.
const lagTimeout = 10 * time.Second

var errLagging = errors.New("the stream's replicas lag behind")

// CatchUp calls read until it reports that the read contains everything that is
// known to be stored. It gives up after 10 s, and after an error of read.
// Format and args name the object of the read in the error.
func CatchUp(ctx context.Context, read func(context.Context) (bool, error), format string, args ...any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lagTimeout, errLagging)
	defer cancel()
	for {
		if ok, err := read(ctx); ok || err != nil {
			return err
		}
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("read %s: %w", fmt.Sprintf(format, args...), err)
		}
	}
}

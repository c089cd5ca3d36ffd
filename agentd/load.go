package agentd

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/history"
	"github.com/axebus/axe/internal/trace"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// loadedRun is a run as this worker has read it: the fold of all its messages
// up to state.Seq. The cache keeps it between triggers. An execution has the
// parts that belong to one trigger.
type loadedRun struct {
	w     *Worker
	run   subjects.Run
	state run.State
	// header is the header of the call.
	header subjects.Header
	// sentDeadline is the deadline as the call names it, by the clock that
	// its writer knew.
	sentDeadline time.Time
	// callErr says why the call cannot be carried out. It is nil for a
	// valid call.
	callErr error
	// callSeq is the sequence of the call.
	callSeq uint64
	// inherited is the conversation that the run continues. It is nil until
	// it is read, and for a run that continues none.
	inherited []provider.Message
	// size is the memory of the run in bytes, as the cache counts it.
	size int

	// call is the delivered call while nothing of the run has been read.
	call bus.Stored
	// firstDelivery says that no other worker can have received call.
	firstDelivery bool
	// redelivered says that the server delivered call before. Workers may
	// have stored returns of it since.
	redelivered bool
	// stepped is the sum of the steps of the stream's clock when the run
	// was read. The times in state and header are times of that clock.
	stepped time.Duration
	// readAt is the time at which the last read ended.
	readAt time.Time
	// interruptions is the connection's number of interruptions when the
	// last read began.
	interruptions uint64
	// replyKnown says that state includes the run's outcome if one was
	// stored when the last read began. That read included the reply subject
	// without an interruption, or the call proved that no outcome existed.
	replyKnown bool
}

// interrupted reports whether the connection was interrupted after the last
// read began. Another worker may have ended the run during the interruption.
func (r *loadedRun) interrupted() bool { return r.w.conn.Interruptions() != r.interruptions }

// clock is the clock of the run's stream.
func (r *loadedRun) clock() *bus.Clock { return r.w.conn.Clocks.Of(r.run) }

// deadline is the run's deadline on the stream's present clock.
func (r *loadedRun) deadline() time.Time { return r.onPresentClock(r.header.Deadline) }

// onPresentClock converts a time of state or header to the stream's present
// clock. The clock may have been set since the run was read.
func (r *loadedRun) onPresentClock(t time.Time) time.Time {
	return t.Add(r.clock().Stepped() - r.stepped)
}

// dated is the present time by the clock that the times in state and header are
// of. A message that names such a time carries it (bus.Message.Dated).
func (r *loadedRun) dated() time.Time { return r.clock().Now().Add(r.stepped - r.clock().Stepped()) }

// forget drops everything that was read of the run. The next read reads the
// whole run.
func (r *loadedRun) forget() { *r = loadedRun{w: r.w, run: r.run} }

// forgetOldTimes drops everything that was read of the run if the stream's
// clock was set after the read. The next read reads the whole run, in times of
// the present clock.
func (r *loadedRun) forgetOldTimes() {
	stepped := r.clock().Stepped()
	if stepped != r.stepped && r.state.Seq > 0 {
		r.forget()
	}
	r.stepped = stepped
}

// replySubject returns the subject of the run's own outcome. It returns false
// for a run below a root if the call is malformed or names no reply subject.
func (r *loadedRun) replySubject() (string, bool) {
	if r.run.Path.IsRoot() {
		return r.run.Space.Result(r.run.Agent, r.run.Tree), true
	}
	return r.header.Reply, r.callErr == nil && r.header.Reply != ""
}

// hasOwnTimer reports whether the run has a timer of its own, for turn 0. Roots
// and forks have one, set with their calls, and a tool run has one while it
// waits for a person or a task. The timer of its parent's turn bounds every
// other run.
func (r *loadedRun) hasOwnTimer() bool {
	return r.run.Path.IsRoot() || r.state.Input.Forked != nil || r.state.Hold != nil ||
		r.state.Task != nil
}

// readFor reads the messages that a batch of triggers needs. It reads the reply
// subject too if the run may go on: a run that is ready, idle or polling, or
// that waits for no more outcomes than the batch has.
func (r *loadedRun) readFor(ctx context.Context, batch []*trigger) error {
	if err := r.w.cancels.waitLoaded(ctx, r.run); err != nil {
		return err
	}
	r.keepCall(batch)
	minSeq, err := r.minSeqFor(ctx, batch)
	if err != nil {
		return err
	}
	last := r.state.Phase == run.Awaiting && r.state.OutcomesAwaited() <= countOutcomes(batch)
	if last || r.state.Phase == run.Idle || r.state.Phase == run.Ready || r.state.Phase == run.Polling {
		return r.readWithReply(ctx, minSeq)
	}
	return r.read(ctx, minSeq)
}

// settleAndRead reads the messages that a batch of triggers needs. It first
// measures the stream's clock if a trigger shows that the last reading is
// wrong.
func (r *loadedRun) settleAndRead(ctx context.Context, batch []*trigger) error {
	for _, t := range batch {
		if err := r.clock().Settle(ctx, t.Delivery); err != nil {
			return err
		}
	}
	return r.readFor(ctx, batch)
}

// keepCall keeps the call of a run of which nothing has been read, if it is in
// the batch. It parses the call's header.
func (r *loadedRun) keepCall(batch []*trigger) {
	for _, t := range batch {
		if t.at.Kind.Begins() && r.state.Seq == 0 {
			r.call = t.Stored
			r.firstDelivery = t.ProvablyFirst()
			r.redelivered = t.Count > 1
			r.parseCall(t.Stored, t.at.Kind == subjects.Tool)
		}
	}
}

// minSeqFor returns the minimum sequence of a read for a batch: that of its
// last trigger. On replicas a follower may lag. A read for a call or for a
// redelivered message has to contain every message that is stored by now, so
// minSeqFor then asks the leader for the last sequence.
func (r *loadedRun) minSeqFor(ctx context.Context, batch []*trigger) (uint64, error) {
	var minSeq uint64
	var askLeader bool
	for _, t := range batch {
		minSeq = max(minSeq, t.Seq)
		askLeader = askLeader || t.Count > 1 || t.at.Kind.Begins()
	}
	if !askLeader || r.w.conn.Replicas() <= 1 {
		return minSeq, nil
	}
	last, err := r.w.conn.LastSeq(ctx, r.run.All())
	return max(minSeq, last), err
}

// read brings the run up to date: afterwards the fold contains the message
// minSeq and all earlier ones. If a follower lags behind minSeq, read repeats
// the read, for 10 s at most. Then it returns an error.
//
// The read returns the trigger again, though its body was delivered. A run is
// folded in stream order. Messages that were stored before the trigger may not
// have been delivered yet, or were delivered to another worker. One read
// returns them together with the trigger. Only a call with nothing before or
// after it is folded from its delivery.
func (r *loadedRun) read(ctx context.Context, minSeq uint64) error {
	r.forgetOldTimes()
	if r.isOnlyCall() {
		r.replyKnown = true
		r.interruptions = r.w.conn.Interruptions()
		r.readAt = time.Now()
		if err := r.fold(ctx, []bus.Stored{r.call}); err != nil || r.state.Seq >= minSeq {
			return err
		}
	}
	return history.CatchUp(ctx, func(ctx context.Context) (bool, error) {
		r.forgetOldTimes()
		err := r.readOnce(ctx, minSeq)
		return r.state.Seq >= minSeq && r.clock().Stepped() == r.stepped, err
	}, "%s up to %d", r.run, minSeq)
}

// readOnce makes one read of the messages after state.Seq, and folds them. For
// a run that was not read before, that read also returns the outcome at the
// reply subject. On a follower that lags, the fold may end before minSeq.
func (r *loadedRun) readOnce(ctx context.Context, minSeq uint64) error {
	r.replyKnown = false
	r.interruptions = r.w.conn.Interruptions()
	defer func() { r.readAt = time.Now() }()
	if r.state.Seq > 0 {
		ms, err := r.w.conn.ReadSince(ctx, r.run.All(), r.state.Seq, minSeq)
		if err != nil {
			return err
		}
		return r.fold(ctx, ms)
	}
	if done, err := r.readFirstCall(ctx); err != nil || done {
		return err
	}
	reply, ok := r.replySubject()
	ms, err := r.w.runs.Whole(ctx, r.run, reply)
	if err != nil {
		return err
	}
	r.replyKnown = ok && r.w.conn.Replicas() <= 1 && !r.interrupted()
	if err := r.fold(ctx, ms); err != nil {
		return err
	}
	for _, m := range ms {
		if ok && m.Subject == reply {
			return r.applyOutcome(ctx, m)
		}
	}
	return nil
}

// isOnlyCall reports whether the run can be folded from its call alone: no
// other worker can have received the call, so none has moved the run on. Then
// nothing has to be read, which saves a third of a leaf's latency. A cancel
// message, an interrupt or mail may be stored already. It takes effect when it
// is delivered or with the next read.
func (r *loadedRun) isOnlyCall() bool {
	_, ok := r.firstCall()
	return ok && r.firstDelivery && r.w.cancels.isLoaded() && !r.w.cancels.isCancelled(r.run)
}

// firstCall reports whether the fence in the delivered call's headers proves
// that the call is the first message of its subject. It also returns the run's
// reply subject.
func (r *loadedRun) firstCall() (reply string, ok bool) {
	reply, ok = r.replySubject()
	return reply, ok && r.call.Seq != 0 && r.call.FirstOnSubject() && r.w.conn.Replicas() <= 1
}

// readFirstCall makes the smallest read that a call needs: whether the run has
// a log, a cancel message or an outcome. If the run has none of the three, no
// worker has moved it on. readFirstCall then folds the call and returns true;
// mail comes with the next read. The read takes 30 µs on a stream of any size.
// A call that was delivered before needs its returns too, so readFirstCall
// returns false for it.
func (r *loadedRun) readFirstCall(ctx context.Context) (bool, error) {
	reply, ok := r.firstCall()
	if !ok || r.redelivered {
		return false, nil
	}
	ms, err := r.w.conn.LastPerSubject(ctx, r.run.Log(), r.run.Cancel(), reply)
	if err != nil || len(ms) > 0 {
		return false, err
	}
	r.replyKnown = true
	return true, r.fold(ctx, []bus.Stored{r.call})
}

// readWithReply reads the new messages and, at the same time, the reply
// subject. An outcome at the reply subject ends the run, before the worker does
// anything more.
func (r *loadedRun) readWithReply(ctx context.Context, minSeq uint64) error {
	reply, ok := r.replySubject()
	if !ok {
		return r.read(ctx, minSeq)
	}
	var outcome bus.Stored
	var found bool
	// After a step of the stream's clock, the read replaces all of r.
	w, of := r.w, r.run
	began := w.conn.Interruptions()
	both, readCtx := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		outcome, found, err = w.runs.OutcomeAt(readCtx, of, reply)
		return err
	})
	both.Go(func() error { return r.read(readCtx, minSeq) })
	if err := both.Wait(); err != nil {
		return err
	}
	r.interruptions = began
	r.replyKnown = !r.interrupted()
	if found {
		return r.applyOutcome(ctx, outcome)
	}
	return nil
}

// hasOutcome reports whether an outcome of the run is stored. It reads the
// reply subject, unless its content is known. An outcome ends the run, even if
// the run's log does not show an end.
func (r *loadedRun) hasOutcome(ctx context.Context) (bool, error) {
	reply, ok := r.replySubject()
	if !ok || r.replyKnown {
		return r.state.OutcomeStored, nil
	}
	m, found, err := r.w.runs.OutcomeAt(ctx, r.run, reply)
	if err != nil || !found {
		return false, err
	}
	return true, r.applyOutcome(ctx, m)
}

// applyOutcome folds the run's own outcome.
func (r *loadedRun) applyOutcome(ctx context.Context, m bus.Stored) error {
	o, err := r.w.runs.Outcome(ctx, m)
	if err != nil {
		return err
	}
	r.state, err = r.state.Apply(o)
	return err
}

// fold applies messages in stream order.
func (r *loadedRun) fold(ctx context.Context, ms []bus.Stored) error {
	_, err := r.foldUntil(ctx, ms, func(bus.Stored) bool { return false })
	return err
}

// foldUntil folds messages until stop returns true for the next message, and
// returns that message. It returns nil if it has folded all messages.
func (r *loadedRun) foldUntil(ctx context.Context, ms []bus.Stored, stop func(bus.Stored) bool) (*bus.Stored, error) {
	if len(ms) > 0 && stop(ms[0]) {
		return &ms[0], nil
	}
	next := 1
	for f, err := range r.w.runs.Fold(ctx, r.run, r.state, ms) {
		if err != nil {
			return nil, err
		}
		if called, ok := f.Event.(run.Called); ok && r.state.Phase == run.None {
			r.noteCall(f.Message, called)
		}
		if r.run.Owns(f.Message.Subject) {
			r.size += weight(len(f.Message.Body))
		}
		r.state = f.State
		if next < len(ms) && stop(ms[next]) {
			return &ms[next], nil
		}
		next++
	}
	return nil, nil
}

// noteCall keeps the header and the sequence of the first call, and the reason
// why the call cannot be carried out.
func (r *loadedRun) noteCall(m bus.Stored, e run.Called) {
	if m.Seq != r.call.Seq { // keepCall has not parsed it
		r.parseCall(m, m.Subject == r.run.ToolCall())
	}
	r.header.Deadline = r.sentDeadline.Add(r.clock().Shift(m))
	if r.callErr == nil {
		r.callErr = e.Malformed
	}
	r.call = bus.Stored{}
	r.callSeq = m.Seq
}

// parseCall parses the header of the run's call, or of its call of a tool.
func (r *loadedRun) parseCall(call bus.Stored, isTool bool) {
	if isTool {
		r.header, r.callErr = subjects.ParseToolCall(r.run, call.Header.Get)
	} else {
		r.header, r.callErr = subjects.ParseCall(r.run, call.Header.Get)
	}
	r.header.Traceparent = trace.Valid(r.header.Traceparent)
	r.sentDeadline = r.header.Deadline
}

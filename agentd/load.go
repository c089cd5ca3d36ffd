package agentd

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/history"
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
	// callErr says why the call cannot be run.
	callErr error
	// callSeq is the sequence of the call.
	callSeq uint64
	// inherited is the conversation that the run continues, once it was
	// read.
	inherited []provider.Message
	// size is the memory of the run in bytes, as the cache counts it.
	size int

	// call is the delivered call while nothing of the run has been read.
	call bus.Stored
	// firstDelivery says that no other worker can have received call.
	firstDelivery bool
	// stepped is the sum of the steps of the stream's clock when the run was
	// read. The times in state and header are times of that clock.
	stepped time.Duration
	// redelivered says that call was delivered before, so that it may have
	// returns.
	redelivered bool
	// readAt is the time at which the last read ended.
	readAt time.Time
	// interruptions is the connection's number of interruptions when the
	// last read began.
	interruptions uint64
	// replyRead says that the last read included the reply subject, and
	// that the server was there throughout the read.
	replyRead bool
}

// interrupted reports whether the server was away since the last read began.
// Another worker may then have ended the run.
func (r *loadedRun) interrupted() bool { return r.w.conn.Interruptions() != r.interruptions }

// clock is the clock of the run's stream.
func (r *loadedRun) clock() *bus.Clock { return r.w.conn.Clocks.Of(r.run) }

// deadline is the run's deadline on the stream's present clock.
func (r *loadedRun) deadline() time.Time { return r.present(r.header.Deadline) }

// present returns a time of the state or the header on the stream's present
// clock, which may have been set since the run was read.
func (r *loadedRun) present(t time.Time) time.Time { return t.Add(r.clock().Stepped() - r.stepped) }

// forgetOldTimes drops all that was read of the run if the server's clock was
// set since. The next read reads the whole run, in times of the present clock.
func (r *loadedRun) forgetOldTimes() {
	stepped := r.clock().Stepped()
	if stepped != r.stepped && r.state.Seq > 0 {
		*r = loadedRun{w: r.w, run: r.run}
	}
	r.stepped = stepped
}

// replySubject returns the subject of the run's own outcome. It returns false
// if the call names none that is valid.
func (r *loadedRun) replySubject() (string, bool) {
	if r.run.Path.IsRoot() {
		return r.run.Space.Result(r.run.Agent, r.run.Tree), true
	}
	return r.header.Reply, r.callErr == nil && r.header.Reply != ""
}

// hasOwnTimer reports whether the run has a timer of its own, with turn 0, from
// its call on. No turn of another run waits for such a run.
func (r *loadedRun) hasOwnTimer() bool { return r.run.Path.IsRoot() || r.state.Input.Forked != nil }

// readFor reads the messages that a batch of triggers needs. If the run is
// ready or idle, or if these may be the last outcomes that it waits for, it
// will go on; then the reply subject is read as well.
func (r *loadedRun) readFor(ctx context.Context, batch []*trigger) error {
	if err := r.w.cancels.waitLoaded(ctx, r.run); err != nil {
		return err
	}
	minSeq, err := r.minSeqFor(ctx, batch)
	if err != nil {
		return err
	}
	last := r.state.Phase == run.Awaiting && r.state.OutcomesAwaited() <= countOutcomes(batch)
	if last || r.state.Phase == run.Idle || r.state.Phase == run.Ready {
		return r.readWithReply(ctx, minSeq)
	}
	return r.read(ctx, minSeq)
}

// settleAndRead reads the messages that a batch of triggers needs, after it has
// put right a clock that the triggers show to be wrong.
func (r *loadedRun) settleAndRead(ctx context.Context, batch []*trigger) error {
	for _, t := range batch {
		if err := r.clock().Settle(ctx, t.Delivery); err != nil {
			return err
		}
	}
	return r.readFor(ctx, batch)
}

// minSeqFor returns the sequence that a read for these triggers has to contain:
// that of the last trigger. On replicas a follower may lag. For a call or a
// redelivered message the read then has to contain all that is stored by now.
func (r *loadedRun) minSeqFor(ctx context.Context, batch []*trigger) (uint64, error) {
	var minSeq uint64
	var askLeader bool
	for _, t := range batch {
		minSeq = max(minSeq, t.Seq)
		askLeader = askLeader || t.Count > 1 || t.at.Kind == subjects.Call
		if t.at.Kind == subjects.Call && r.state.Seq == 0 {
			r.call = t.Stored
			r.firstDelivery = t.ProvablyFirst()
			r.redelivered = t.Count > 1
			r.parseCall(t.Stored)
		}
	}
	if !askLeader || r.w.conn.Replicas() <= 1 {
		return minSeq, nil
	}
	last, err := r.w.conn.LastSeq(ctx, r.run.All())
	return max(minSeq, last), err
}

// read brings the run up to date: afterwards the fold contains the message
// minSeq and all earlier ones. A follower may lag; then it reads again.
//
// The trigger is read again, though its body was delivered. A run is folded in
// stream order. Messages that were stored before the trigger may not have been
// delivered yet, or were delivered to another worker. One read returns them
// together with the trigger. Only a call with nothing before or after it is
// folded from its delivery.
func (r *loadedRun) read(ctx context.Context, minSeq uint64) error {
	r.forgetOldTimes()
	if r.isOnlyCall() {
		r.replyRead = true
		r.interruptions = r.w.conn.Interruptions()
		r.readAt = time.Now()
		if err := r.fold(ctx, []bus.Stored{r.call}); err != nil || r.state.Seq >= minSeq {
			return err
		}
	}
	return history.CatchUp(ctx, func(ctx context.Context) (bool, error) {
		err := r.readOnce(ctx, minSeq)
		return r.state.Seq >= minSeq, err
	}, "%s up to %d", r.run, minSeq)
}

// readOnce reads the new messages. Of a run that was not read before, one read
// returns all messages and the one at the reply subject.
func (r *loadedRun) readOnce(ctx context.Context, minSeq uint64) error {
	r.replyRead = false
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
	r.replyRead = ok && r.w.conn.Replicas() <= 1 && !r.interrupted()
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

// isOnlyCall reports that the run has no message but its call, because no other
// worker can have received the call. Then nothing has to be read, which saves a
// third of a leaf's latency. At most a cancel message can be there besides.
// Every worker is told of those; one that is still on its way ends the run a
// moment later.
func (r *loadedRun) isOnlyCall() bool {
	_, ok := r.firstCall()
	return ok && r.firstDelivery && r.w.cancels.isLoaded() && !r.w.cancels.isCancelled(r.run)
}

// firstCall reports whether the delivered call is the first message of its
// subject: the fence in its headers says so. It returns the run's reply
// subject.
func (r *loadedRun) firstCall() (reply string, ok bool) {
	reply, ok = r.replySubject()
	return reply, ok && r.call.Seq != 0 && r.call.FirstOnSubject() && r.w.conn.Replicas() <= 1
}

// readFirstCall makes the smallest read that a call needs: whether the run has
// a log, a cancel message or an outcome. If it has none of these, the call is
// the whole run, and readFirstCall returns true. The read takes 30 µs on a
// stream of any size. A call that was delivered before needs its returns too.
func (r *loadedRun) readFirstCall(ctx context.Context) (bool, error) {
	reply, ok := r.firstCall()
	if !ok || r.redelivered {
		return false, nil
	}
	ms, err := r.w.conn.LastPerSubject(ctx, r.run.Log(), r.run.Cancel(), reply)
	if err != nil || len(ms) > 0 {
		return false, err
	}
	r.replyRead = true
	return true, r.fold(ctx, []bus.Stored{r.call})
}

// readWithReply reads the new messages and, at the same time, the reply
// subject. An outcome there ends the run, before anything more is done.
func (r *loadedRun) readWithReply(ctx context.Context, minSeq uint64) error {
	reply, ok := r.replySubject()
	if !ok {
		return r.read(ctx, minSeq)
	}
	var outcome bus.Stored
	var there bool
	// The read may replace all of r, after a step of the server's clock.
	w := r.w
	began := w.conn.Interruptions()
	both, readCtx := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		outcome, there, err = w.outcomeAt(readCtx, reply)
		return err
	})
	both.Go(func() error { return r.read(readCtx, minSeq) })
	if err := both.Wait(); err != nil {
		return err
	}
	r.interruptions = began
	r.replyRead = !r.interrupted()
	if there {
		return r.applyOutcome(ctx, outcome)
	}
	return nil
}

// hasOutcome reports whether an outcome of the run is stored. It reads the
// reply subject, unless the last read did. An outcome there ends the run,
// whatever its log says.
func (r *loadedRun) hasOutcome(ctx context.Context) (bool, error) {
	reply, ok := r.replySubject()
	if !ok || r.replyRead {
		return r.state.OutcomeStored, nil
	}
	m, there, err := r.w.outcomeAt(ctx, reply)
	if err != nil || !there {
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
	for _, m := range ms {
		state, e, err := r.w.runs.Apply(ctx, r.run, r.state, m)
		if err != nil {
			return err
		}
		if called, ok := e.(run.Called); ok && r.state.Phase == run.None {
			r.noteCall(m, called)
		}
		if r.run.Owns(m.Subject) {
			r.size += weight(len(m.Body))
		}
		r.state = state
	}
	return nil
}

// noteCall notes the header of the first call, and why the call cannot be run.
func (r *loadedRun) noteCall(m bus.Stored, e run.Called) {
	if m.Seq != r.call.Seq { // minSeqFor has not parsed it
		r.parseCall(m)
	}
	if r.callErr == nil {
		r.callErr = e.Malformed
	}
	r.call = bus.Stored{}
	r.callSeq = m.Seq
}

// parseCall parses the header of the run's call.
func (r *loadedRun) parseCall(call bus.Stored) {
	r.header, r.callErr = subjects.ParseCall(r.run, call.Header.Get)
	r.header.Deadline = r.header.Deadline.Add(r.clock().Shift(call))
}

// outcomeAt reads the first message of a reply subject. On replicas the leader
// says whether there is one: an answer of a lagging follower would make the
// worker ask the model again.
func (w *Worker) outcomeAt(ctx context.Context, reply string) (m bus.Stored, there bool, err error) {
	if w.conn.Replicas() <= 1 {
		return w.conn.First(ctx, reply)
	}
	last, err := w.conn.LastSeq(ctx, reply)
	if err != nil || last == 0 {
		return bus.Stored{}, false, err
	}
	err = history.CatchUp(ctx, func(ctx context.Context) (ok bool, err error) {
		m, ok, err = w.conn.First(ctx, reply)
		return ok, err
	}, "%s", reply)
	return m, err == nil, err
}

package run

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/axebus/axe/subjects"
)

// MaxRefused bounds the refused outcomes that a log entry names. With as many,
// the entry does not say which other ones count.
const MaxRefused = 1000

// MaxTurns is the largest number of turns that a run may take without becoming
// idle.
const MaxTurns = 50

// ErrCorrupt is wrapped by the errors of Apply and Decode: the log has a hole,
// or holds an entry that no worker writes. Workers end such a run as poisoned,
// unless the error wraps ErrRemoved too.
var ErrCorrupt = errors.New("corrupt history")

// ErrRemoved is wrapped by the error of Apply for a log entry before any call:
// the beginning of the run was removed from the stream. No worker has written
// anything wrong. errors.Is finds ErrCorrupt in it too.
var ErrRemoved error = removedError{}

type removedError struct{}

func (removedError) Error() string { return "lost by removal" }

func (removedError) Is(target error) bool { return target == ErrCorrupt }

// Phase is the activity of a run.
type Phase int

// The phases. No event takes a run out of Completed or Failed.
const (
	None     Phase = iota // not called yet
	Ready                 // the model has to be asked
	Awaiting              // waits for calls or a supervisor
	Idle                  // waits for mail
	Held                  // waits for a person
	Polling               // waits for a task of its tool's server
	Completed
	Failed
)

// String names the phase.
func (p Phase) String() string {
	return [...]string{"none", "ready", "awaiting", "idle", "held", "polling", "completed", "failed"}[p]
}

// State is a run folded from its messages. The zero value is a run that was not
// called. Apply returns a new State and leaves its receiver as it is.
type State struct {
	Phase Phase
	// Owner is the sequence of the trigger that made Outstanding owed. The
	// worker that holds this trigger carries Outstanding out.
	Owner uint64
	// Seq is the sequence of the last message folded.
	Seq uint64
	// Input is the body of the call.
	Input Input
	// CalledAt is the stream's time of the call.
	CalledAt time.Time
	// Imported says that the call is a record from another stream. Then all
	// messages of the run are.
	Imported bool
	// Turns are the entries of the log, in order, without EntryEnded and
	// without entries that were stored after the run's end.
	Turns Turns
	// Inbox is the mail that no turn has taken yet.
	Inbox []Mail
	// LogSeq is the sequence of the last log message, 0 if there is none.
	// It fences the next entry, or the outcome.
	LogSeq uint64
	// LogIndex is the index of the last log message, 0 if there is none.
	LogIndex int
	// End says why the run failed, or will fail when it is called. It is
	// zero for any other run.
	End End
	// OutcomeStored says that the outcome is stored. The run owes nothing
	// then.
	OutcomeStored bool
	// Attempt is the last attempt of a tool run that its log shows, nil if
	// it shows none.
	Attempt *StartedAttempt
	// Hold says why and until when a tool run waits for a person. It stays
	// until a worker begins the tool again. It is nil for any other run.
	Hold *HeldTool
	// Filled is the last form of the tool with a person's answers, nil if
	// no person has filled one in.
	Filled *FilledForm
	// Task is the task of the tool's server that a tool run waits for. It
	// stays while a person answers the task, and after the run's end. It is
	// nil for any other run.
	Task *AwaitedTask
	// MayBeginAgain says that a person has asked for another attempt at the
	// tool, and that no worker has begun it yet.
	MayBeginAgain bool
	// Returns counts the deliveries that workers have returned. A return
	// makes nothing owed and changes no owner. So a worker that has lost
	// its lease may write one at any time.
	Returns TriggerReturns
	// Refused are the sequences of the outcomes that were refused since the
	// last log entry, at most MaxRefused.
	Refused []uint64

	// interruptedAt is the sequence of the interrupt that the run is
	// stopping for, 0 if it is not stopping.
	interruptedAt uint64
	// forksStoppedTo is the sequence of the last interrupt that took
	// effect. The forks of turns that were carried out before it have to
	// end.
	forksStoppedTo uint64
	// muted: idle because a person interrupted the run. Outcomes and idle
	// notices of its forks do not wake it.
	muted bool
	// idleForks are the forks that reported that they are idle, and to
	// which this run has not written since.
	idleForks []subjects.Path
	// wasIdle: the run was idle after its last turn.
	wasIdle bool
	// inboxFull: mail was dropped and the inbox says so. It does not say so
	// again until the run takes mail.
	inboxFull bool
	// notifiedTo is the sequence up to which the run knows of its mail.
	notifiedTo uint64
	// cancelled: a cancel message or an EntryEnded has ended the run. A run
	// that was not called yet ends with its call.
	cancelled bool
	// answerLogged: the answer that completes the run is on its log.
	answerLogged bool
	// importedCancel is the end of a cancel message of another stream that
	// came before the call, nil without one.
	importedCancel *End
	// endLogged: an EntryEnded with the run's end is on its log.
	endLogged bool
	// settledWith is the result of a tool that a person has settled, nil if
	// none did.
	settledWith *string
}

// Turn is one entry of the log with the outcomes of its calls so far.
type Turn struct {
	// Entry is the entry. Once a reviewed turn is carried out, the
	// deadlines of its calls and its timer count from then. The timer of a
	// held turn ends the wait for a person. An interrupt may bring the
	// timer forward.
	Entry Entry
	// Time is the stream's time of the entry.
	Time time.Time
	// Outcomes has one element for each call, in call order. The element of
	// a call without an outcome is nil.
	Outcomes []*Outcome
	// Took has the mail that each call has taken, in call order. It is nil
	// if no call of the turn takes mail.
	Took [][]Mail
	// Found has one element for each call, in call order: the status of
	// each peer that the call names, at the end of its wait for mail. It is
	// nil if no call of the turn takes mail.
	Found [][]PeerStatus
	// Notice is the mail that the model was told of in its next request. It
	// is nil if the run did not become idle after the turn.
	Notice []Mail
	// Verdict is the outcome of the supervisor's run, nil if there is none.
	Verdict *Outcome
	// Why says why the turn is held or was withheld.
	Why string
	// Decider is the user that decided on the turn while it was held. It is
	// zero if no person did, and for a person that is not known.
	Decider subjects.By

	stage stage
	// interruptedAt is the sequence of the interrupt that made the run idle
	// after this turn, 0 if none did.
	interruptedAt uint64
	// at is the sequence of the message by which the turn was carried out.
	// That is the entry itself for a turn without a review.
	at uint64
	// pendingCount is the number of awaited calls without an outcome.
	pendingCount int
	// ordered says that a call of the turn has to wait for another one.
	ordered bool
	// dueSince is the stream's time at which the calls became due that are
	// due now, if the turn is ordered.
	dueSince time.Time
}

// Turns are the turns of a run, in the order of its log.
type Turns []Turn

// Call returns the call with an index in a turn, from 1: a call of the model
// or, after the last of them, that of the supervisor. Ok is false if there is
// none.
func (ts Turns) Call(turn, index int) (c Call, ok bool) {
	if turn < 1 || turn > len(ts) || index < 0 {
		return Call{}, false
	}
	e := ts[turn-1].Entry
	if index == len(e.Calls) && e.Review != nil {
		return *e.Review, true
	}
	if index >= len(e.Calls) {
		return Call{}, false
	}
	return e.Calls[index], true
}

// Start returns the settings that the run was started with. It is nil before
// the first turn is on the log.
func (s State) Start() *Start {
	if len(s.Turns) == 0 {
		return nil
	}
	return s.Turns[0].Entry.Start
}

// Ended reports whether the run has completed or failed. Its outcome may not be
// stored yet.
func (s State) Ended() bool { return s.Phase == Completed || s.Phase == Failed }

// Pending returns the number of awaited calls of the last turn without an
// outcome.
func (s State) Pending() int {
	if s.Phase != Awaiting {
		return 0
	}
	return s.Turns.last().pendingCount
}

// OutcomesAwaited returns the number of outcomes that have to arrive before the
// run owes a new effect. Without calls that wait for others that is Pending. A
// wait for mail counts as one.
func (s State) OutcomesAwaited() int {
	if s.Phase != Awaiting {
		return 0
	}
	if t := s.Turns.last(); t.ordered || t.stage == underReview {
		return len(t.due())
	}
	return s.Turns.last().pendingCount
}

// Model is the model of the run, empty before its first turn and for a tool run.
func (ts Turns) Model() string {
	if len(ts) == 0 || ts[0].Entry.Start == nil {
		return ""
	}
	return ts[0].Entry.Start.Model
}

// Totals counts the work of the run's own turns, without the runs below it. An
// entry counts as a model call even if the model failed, but not if it records
// an interrupt or the end of a budget.
func (ts Turns) Totals() (sum Totals) {
	for _, t := range ts {
		sum.Usage = sum.Usage.Add(t.Entry.Answer.Usage)
		sum.ToolCalls += t.Entry.ToolCalls()
		sum.ModelMS += t.Entry.ModelMS
		if end := t.Entry.End; end == nil || end.Kind == KindError {
			sum.ModelCalls++
		}
	}
	return sum
}

// Retries counts the failed requests to the model that were made again, as far
// as the log has them.
func (ts Turns) Retries() int {
	n := 0
	for _, t := range ts {
		n += t.Entry.Retries
	}
	return n
}

// Subtree sums the work of the run and of the runs below it. A tool run counts
// in the tool calls of its parent, and not as a run. A fork that has
// not ended counts with the totals of its last idle notice. Any other child
// without an outcome does not count.
func (s State) Subtree() Totals {
	model := s.Turns.Model()
	sum := s.Turns.Totals().Add(s.forkTotals())
	if s.Input.Tool == nil {
		sum.Runs++
	}
	for _, t := range s.Turns {
		for _, o := range t.Outcomes {
			if o != nil {
				sum = sum.AddBelow(model, *o)
			}
		}
		if t.Verdict != nil {
			sum = sum.AddBelow(model, *t.Verdict)
		}
	}
	return sum
}

// Apply folds one event. An event at or before Seq was folded already and
// changes nothing. So does an imported event of a run whose call is not
// imported, and the other way round: whoever may write to a run may claim any
// place for its message. A late or duplicate event changes Seq alone. The error wraps
// ErrCorrupt; the state is then as before.
func (s State) Apply(e Event) (State, error) {
	if c, ok := e.(OutcomeStored); ok {
		return s.conclude(c), nil
	}
	m := e.meta()
	_, call := e.(Called)
	if m.Imported && s.Phase == None && !call {
		return beforeImport(s, e), nil
	}
	if m.Seq <= s.Seq || m.Imported != s.Imported && !call {
		return s, nil
	}
	next, err := s.apply(e)
	if err != nil {
		return s, err
	}
	next.Seq = m.Seq
	return next, nil
}

func (s State) apply(e Event) (State, error) {
	switch e := e.(type) {
	case Called:
		return s.called(e), nil
	case Answered:
		return s.answered(e)
	case Ended:
		return s.ended(e)
	case ToolStarted:
		return startTool(s, e)
	case ToolHeld:
		return holdTool(s, e)
	case TaskMade:
		return awaitTask(s, e)
	case Settled:
		return settled(s, e), nil
	case Replied:
		return s.replied(e), nil
	case OutcomeRefused:
		if len(s.Refused) < MaxRefused {
			s.Refused = append(slices.Clip(s.Refused), e.Seq)
		}
		return s, nil
	case TimedOut:
		return s.timedOut(e), nil
	case Mailed:
		e.Mail.Seq, e.Mail.Sender = e.Meta.Seq, e.Meta.Sender
		return s.mailed(e.Mail), nil
	case AnsweredWithoutCalls:
		return s.answeredWithoutCalls(e)
	case Approved:
		return s.approved(e), nil
	case Interrupted:
		return s.interrupted(e), nil
	case Returned:
		if !s.OutcomeStored {
			s.Returns = s.Returns.with(e)
		}
		return s, nil
	case Cancelled:
		return s.cancel(e), nil
	case CancelSent:
		return s, nil
	case OutcomeStored:
		return s.conclude(e), nil
	}
	return s, fmt.Errorf("%w: event %T", ErrCorrupt, e)
}

// beforeImport keeps a cancel message of another stream that comes before the
// call. It counts if the call comes from there too: a person who may write to a
// run can say so of any message.
func beforeImport(s State, e Event) State {
	if c, ok := e.(Cancelled); ok && s.importedCancel == nil {
		s.importedCancel = &c.End
	}
	return s
}

func (s State) called(e Called) State {
	if s.Phase != None {
		return s
	}
	s.Phase = Ready
	s.Owner = e.Seq
	s.Input = e.Input
	s.CalledAt = e.Time
	s.Imported = e.Imported
	if early := s.importedCancel; e.Imported {
		if s.cancelled, s.End = early != nil, (End{}); s.cancelled {
			s.End = *early
		}
	}
	s.importedCancel = nil
	if s.cancelled {
		s.Phase = Failed
	}
	return s
}

// append makes an entry the last one of the log. An entry that leaves a hole,
// or comes before the call, is an error.
func (s State) append(m Meta, e Entry) (State, error) {
	if s.Phase == None {
		return s, fmt.Errorf("%w: the call before log message %d is not on the stream any more", ErrRemoved, m.Seq)
	}
	if e.Index != s.LogIndex+1 {
		return s, fmt.Errorf("%w: log message %d has index %d after %d", ErrCorrupt, m.Seq, e.Index, s.LogIndex)
	}
	s.LogIndex, s.LogSeq = e.Index, m.Seq
	if len(s.Refused) > 0 {
		s.Refused = slices.DeleteFunc(slices.Clone(s.Refused), func(seq uint64) bool { return seq <= e.Seen })
	}
	return s, nil
}

func (s State) answered(e Answered) (State, error) {
	s, err := s.turn(e.Meta, e.Entry)
	if err != nil || s.Ended() {
		return s, err
	}
	t := s.Turns.last()
	t.at = e.Seq
	t.Outcomes = make([]*Outcome, len(e.Entry.Calls))
	for i, c := range e.Entry.Calls {
		if c.Failed() {
			endCall(&t, i, End{Kind: c.Kind, Text: c.Error})
		}
	}
	// s.turn has cloned s.Turns.
	s.Turns[len(s.Turns)-1] = t
	s.Phase, s.Owner = Awaiting, e.Entry.Trigger
	switch review := e.Entry.Review; {
	case s.interruptedAt > 0:
		return s.withhold(e.Entry.Trigger, EndInterrupted()), nil
	case review == nil:
		return permit(s, Meta{Seq: e.Entry.Trigger, Time: e.Time}), nil
	case review.Failed():
		return s.decide(Meta{Seq: e.Entry.Trigger, Time: e.Time}, Verdict{Decision: Pause, Reason: review.Error}), nil
	default:
		return s.edit(func(t *Turn) { t.stage = underReview }), nil
	}
}

// permit carries the last turn out, unless a person has to approve it first.
func permit(s State, m Meta) State {
	if why := s.Turns.last().Entry.Approve; why != "" {
		return hold(s, m.Seq, s.Turns.last().Entry.Until, why)
	}
	return s.carryOut(m)
}

// carryOut makes the calls of the last turn take effect. The message of m owns
// the effects, and the times of the calls count from m.Time.
func (s State) carryOut(m Meta) State {
	s = s.edit(func(t *Turn) { carryOut(t, m) })
	for i, c := range s.Turns.last().Entry.Calls {
		switch {
		case c.Failed():
		case c.Op == OpMail:
			var took []Mail
			s, took = s.take(func(Mail) bool { return true })
			s.Turns.last().Took[i] = took // edit has cloned Took
		case c.Op == OpSend:
			s.idleForks = slices.DeleteFunc(slices.Clone(s.idleForks), func(p subjects.Path) bool { return p == c.To })
		}
	}
	s.Phase, s.Owner = Awaiting, m.Seq
	if s.Turns.last().pendingCount == 0 {
		return s.ready(m.Seq)
	}
	return s.collectMail(m.Seq, false)
}

// carryOut marks a turn as carried out. It completes the calls that the run
// does not wait for, except forks. The deadlines of a turn that was reviewed
// count from m.Time.
func carryOut(t *Turn, m Meta) {
	t.stage, t.dueSince = carriedOut, m.Time
	t.ordered = t.Entry.Ordered()
	if t.Entry.Deferred() {
		t.at = m.Seq
		decided := t.Entry.Calls
		t.Entry.Calls, t.Entry.Timer = t.Entry.Schedule(m.Time, func(i int) time.Time { return decided[i].Deadline })
	}
	for i, c := range t.Entry.Calls {
		switch {
		case c.Failed():
		case c.Awaited():
			t.pendingCount++
		case c.Op != OpFork: // a fork publishes its outcome later
			t.Outcomes[i] = &Outcome{Status: StatusCompleted}
		}
		if t.Took == nil && (c.Op == OpMail || c.Op == OpWait) {
			t.Took = make([][]Mail, len(t.Entry.Calls))
			t.Found = make([][]PeerStatus, len(t.Entry.Calls))
		}
	}
}

func (s State) answeredWithoutCalls(e AnsweredWithoutCalls) (State, error) {
	s, err := s.turn(e.Meta, e.Entry)
	if err != nil || s.Ended() {
		return s, err
	}
	s.Owner = e.Entry.Trigger
	switch {
	case e.Entry.Kind == EntryFinal && e.Entry.End != nil:
		s.Phase, s.End = Failed, *e.Entry.End
	case e.Entry.Kind == EntryFinal:
		s.Phase, s.answerLogged = Completed, true
	default:
		return s.becomeIdle(e.Entry.Trigger), nil
	}
	return s, nil
}

// becomeIdle makes the run idle. Mail that it does not know of may wake it at
// once, for example mail that was stored while the model was asked. Only mail
// after the interrupt wakes an interrupted run.
func (s State) becomeIdle(owner uint64) State {
	since := s.interruptedAt
	if since > 0 {
		s = s.edit(func(t *Turn) { t.interruptedAt = since })
	}
	s.Phase, s.Owner = Idle, owner
	s.interruptedAt, s.wasIdle = 0, true
	s.muted = since > 0
	if slices.ContainsFunc(s.Notice(), func(m Mail) bool { return m.Seq > since && s.wakes(m) }) {
		return s.ready(owner)
	}
	return s
}

// turn appends a turn. The mail that the model was told of in the request
// becomes the Notice of the turn before.
func (s State) turn(m Meta, e Entry) (State, error) {
	before := s.Phase
	s, err := s.append(m, e)
	if err != nil || s.Ended() {
		return s, err
	}
	if before != Ready || s.Input.Tool != nil {
		return s, fmt.Errorf("%w: log message %d is a turn while the run is %s", ErrCorrupt, m.Seq, before)
	}
	s.Turns = slices.Clone(s.Turns)
	if s.wasIdle && len(s.Turns) > 0 {
		read := e.Seen
		if s.interruptedAt > 0 {
			// No model was asked after the interrupt.
			read = min(read, s.interruptedAt)
		}
		s.Turns[len(s.Turns)-1].Notice = s.notice(read)
		s.notifiedTo, s.wasIdle = max(s.notifiedTo, read), false
		s, _ = s.take(func(m Mail) bool { return m.Seq <= read && s.isInline(m) })
	}
	s.Turns = append(s.Turns, Turn{Entry: e, Time: m.Time})
	return s, nil
}

func (s State) ended(e Ended) (State, error) {
	done := s.Ended()
	s, err := s.append(e.Meta, e.Entry)
	if err != nil {
		return s, err
	}
	// A run that had ended by itself owes the same effects as before.
	s.endLogged = s.cancelled || !done
	if !done {
		s.Phase = Failed
		s.Owner = e.Entry.Trigger
		s.End = *e.Entry.End
		s.cancelled = true
	}
	return s, nil
}

func (s State) replied(e Replied) State {
	if !e.ofItsCall() {
		// Another run has written the outcome. Its totals do not count.
		e.Outcome.Subtree = Totals{}
	}
	if s.Turns.forkOf(e.Turn, e.Index) {
		return s.forkEnded(e)
	}
	if s.Phase != Awaiting || e.Turn != len(s.Turns) {
		return s
	}
	t := s.Turns.last()
	if t.stage == underReview {
		if e.Index == len(t.Entry.Calls) {
			return s.reviewed(e.Meta, e.Outcome)
		}
		return s
	}
	if e.Index < 0 || e.Index >= len(t.Outcomes) || t.Outcomes[e.Index] != nil ||
		!t.Entry.Calls[e.Index].HasReply() || !t.isDue(e.Index) {
		return s
	}
	s = s.edit(func(t *Turn) {
		t.Outcomes[e.Index] = &e.Outcome
		t.pendingCount--
		t.dueSince = e.Time
	})
	switch {
	case s.Pending() == 0:
		return s.ready(e.Seq)
	case s.Turns.last().hasMoreDueThan(t):
		s.Owner = e.Seq
	}
	return s
}

func (s State) timedOut(e TimedOut) State {
	if s.Phase != Awaiting && s.Phase != Held || e.Turn != len(s.Turns) || e.Turn == 0 {
		return s
	}
	if s.Turns.last().Entry.Deferred() && e.Time.Before(s.Turns.last().Entry.Timer.Add(-timerTolerance)) {
		// The timer was set for the review, or for the time in which
		// the turn was held.
		return s
	}
	if s.Phase == Held || s.Turns.last().stage == underReview {
		return s.noAnswerInTime(e)
	}
	s = s.collectMail(e.Seq, true)
	if s.Phase != Awaiting {
		return s
	}
	return s.edit(func(t *Turn) {
		for _, c := range t.pending() {
			end := EndTimeout(t.allowed(c.Index))
			if s.interruptedAt > 0 {
				end = EndInterrupted()
			}
			endCall(t, c.Index, end)
		}
		t.pendingCount = 0
	}).ready(e.Seq)
}

// edit changes a copy of the last turn.
func (s State) edit(change func(*Turn)) State { return s.editTurn(len(s.Turns)-1, change) }

// editTurn changes a copy of the i-th turn, with copies of its outcomes and
// mail. Its receiver stays as it is.
func (s State) editTurn(i int, change func(*Turn)) State {
	s.Turns = slices.Clone(s.Turns)
	t := &s.Turns[i]
	t.Outcomes = slices.Clone(t.Outcomes)
	t.Took = slices.Clone(t.Took)
	t.Found = slices.Clone(t.Found)
	change(t)
	return s
}

// endCall ends a call without an outcome of its run.
func endCall(t *Turn, call int, e End) {
	o := e.Outcome()
	o.Agent = t.Entry.Calls[call].Agent
	t.Outcomes[call] = &o
}

// timerTolerance bounds the time by which a timer fires too early, by the
// stream's clock.
const timerTolerance = time.Second

func (s State) cancel(e Cancelled) State {
	if s.Ended() || s.cancelled {
		return s
	}
	s.cancelled, s.End = true, e.End
	if s.Phase == None {
		return s
	}
	s.Phase, s.Owner = Failed, e.Seq
	return s
}

func (s State) conclude(e OutcomeStored) State {
	s.OutcomeStored = true
	if !s.Ended() {
		s.Phase = Failed
		if e.Outcome.Status == StatusCompleted {
			s.Phase = Completed
		}
		s.End = e.Outcome.End()
	}
	return s
}

// ready makes the next turn owed. It ends a run that has no turn left, and
// makes an interrupted run idle.
func (s State) ready(owner uint64) State {
	if s.interruptedAt > 0 {
		return s.becomeIdle(owner)
	}
	s.Phase = Ready
	s.Owner = owner
	s.muted = false
	if end, fails := s.Turns.unknownEnd(); fails {
		s.Phase, s.End = Failed, end
		return s
	}
	if most := s.maxTurns(); s.Turns.sinceIdle() >= most {
		s.Phase = Failed
		s.End = End{Kind: KindTurns, Text: textTurns(most)}
	}
	return s
}

// maxTurns is the number of turns that the run may take without becoming idle.
// A bound in its start leaves one more turn, for the final answer.
func (s State) maxTurns() int {
	if start := s.Start(); start != nil && start.Turns > 0 {
		return min(start.Turns+1, MaxTurns)
	}
	return MaxTurns
}

// sinceIdle counts the turns since the run was last idle.
func (ts Turns) sinceIdle() int {
	for i, t := range slices.Backward(ts) {
		if t.Entry.Kind == EntryIdle {
			return len(ts) - 1 - i
		}
	}
	return len(ts)
}

// LastTurn reports whether the next turn is the last one that Start.Turns
// allows. The model is then told to answer with the results that it has. It is
// false for a run without such a bound.
func (s State) LastTurn() bool {
	start := s.Start()
	return start != nil && start.Turns > 0 && s.Turns.sinceIdle() == s.maxTurns()-1
}

func (ts Turns) last() Turn { return ts[len(ts)-1] }

// pending lists the runs that the turn waits for, in call order. For a turn
// under review that is the supervisor's run.
func (t Turn) pending() []Child {
	if t.stage == underReview {
		return []Child{{len(t.Entry.Calls), *t.Entry.Review, t.Entry.Review.Deadline}}
	}
	if t.stage != carriedOut {
		return nil
	}
	var out []Child
	for i, o := range t.Outcomes {
		if o == nil && t.Entry.Calls[i].HasReply() {
			out = append(out, Child{i, t.Entry.Calls[i], t.deadline(i)})
		}
	}
	return out
}

// due lists the pending runs that no earlier call of the turn holds back. They
// are the first ones of pending.
func (t Turn) due() []Child {
	pending := t.pending()
	for i, c := range pending {
		if t.ordered && !t.isDue(c.Index) {
			return pending[:i]
		}
	}
	return pending
}

// isDue reports whether no earlier call of the turn holds the i-th one back: a
// call that may not run at the same time, and that has no outcome.
func (t Turn) isDue(i int) bool {
	if !t.ordered {
		return true
	}
	for j := range i {
		before := &t.Entry.Calls[j]
		if t.Outcomes[j] == nil && before.HasReply() && !t.Entry.sideBySide(before, &t.Entry.Calls[i]) {
			return false
		}
	}
	return true
}

// hasMoreDueThan reports whether a call is due that an earlier state of the
// turn held back.
func (t Turn) hasMoreDueThan(before Turn) bool {
	if !t.ordered {
		return false
	}
	due := t.due()
	return len(due) > 0 && !before.isDue(due[len(due)-1].Index)
}

// deadline is the deadline that was decided for the i-th call. A call that had
// to wait for others has no more than its allowed time from then on.
func (t Turn) deadline(i int) time.Time {
	at := t.Entry.Calls[i].Deadline
	if allowed := t.Entry.allowed(&t.Entry.Calls[i]); t.ordered && allowed > 0 {
		if due := t.dueSince.Add(allowed); due.Before(at) {
			return due
		}
	}
	return at
}

// allowed is the time that the i-th call had to reply.
func (t Turn) allowed(i int) time.Duration {
	if allowed := t.Entry.allowed(&t.Entry.Calls[i]); allowed > 0 {
		return allowed
	}
	return t.Entry.Timer.Sub(t.Time)
}

package run

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// MaxTurns bounds the turns of a run.
const MaxTurns = 50

// ErrCorrupt is wrapped by an error of Apply: the history has a hole, or holds
// what no worker writes. Such a run is not resumed.
var ErrCorrupt = errors.New("corrupt history")

// Phase is what a run is doing.
type Phase int

// The phases.
const (
	None     Phase = iota // not called yet
	Ready                 // the model is to be asked
	Awaiting              // calls without an outcome
	// it has answered, or was interrupted, and waits for mail
	Idle
	// a person is to approve of what it is about to do
	Held
	Completed // ended well
	Failed    // ended badly
)

// String names the phase.
func (p Phase) String() string {
	return [...]string{"none", "ready", "awaiting", "idle", "held", "completed", "failed"}[p]
}

// State is a run folded from its messages. The zero value is a run nobody has
// heard of. It is a value: Apply leaves the state that it was called on as it
// was.
type State struct {
	Phase Phase
	// the message to whose holder Outstanding belongs
	Owner    uint64
	Seq      uint64    // the last message folded
	Input    Input     // what the run was asked
	CalledAt time.Time // stream time of the call
	Turns    []Turn
	Inbox    []Mail // not taken yet
	// stream sequence of the last log message, 0 if none: the fence
	LogSeq   uint64
	LogIndex int // its index
	End      End // why it failed
	// the outcome is stored: nothing is owed
	OutcomeStored bool

	// a person has interrupted it, and it has not stopped yet
	halted uint64
	// when a person has interrupted it last: what it had forked by then is
	// to end
	cutoff uint64
	// it is idle since a person wanted that: what its forks tell does not
	// wake it
	quiet bool
	// the forks that have told so, and were not written to since
	idle []subjects.Path
	// it was idle since its last turn
	resting bool
	// what is written is dropped, since nothing of a full inbox was taken
	overflown bool
	// mail up to here was told of, or taken
	told      uint64
	cancelled bool // by its own cancel message
	// its last answer is on the log
	final  bool
	logged bool // the end is on the log
}

// Turn is one entry of the log with the outcomes of its calls so far, in call
// order.
type Turn struct {
	Entry    Entry
	Time     time.Time
	Outcomes []*Outcome // nil: none yet
	Took     [][]Mail   // by each call that takes mail
	// by each call that waits for somebody's: what there was of each of
	// them
	Found [][]PeerStatus
	// what had come when it was idle after it, as it was told then
	Notice  []Mail
	Verdict *Outcome // of its supervisor
	// why it is held, or nothing of it was carried out
	Why   string
	stage stage
	// the interrupt that stopped the run after it, 0 if none did
	halted uint64
	// the message by which it was to be carried out
	at   uint64
	left int // how many of them are nil
	// when the next sequential call became due
	freed time.Time
}

// Start is what the run was started with, nil before its first turn is on the
// log.
func (s State) Start() *Start {
	if len(s.Turns) == 0 {
		return nil
	}
	return s.Turns[0].Entry.Start
}

// Ended reports whether the run has come to its end.
func (s State) Ended() bool { return s.Phase == Completed || s.Phase == Failed }

// Pending is the number of calls of the current turn that have no outcome.
func (s State) Pending() int {
	if s.Phase != Awaiting {
		return 0
	}
	return s.current().left
}

// OutcomesAwaited is how many outcomes have to come before the run owes anything: those
// of all its calls, or one, where they follow one another or somebody looks at
// the turn first.
func (s State) OutcomesAwaited() int {
	if _, reviewing := s.review(); reviewing || s.Pending() > 0 && s.current().Entry.Sequential {
		return 1
	}
	return s.Pending()
}

// Usage sums the tokens of the run's own turns on the log.
func (s State) Usage() provider.Usage {
	var u provider.Usage
	for _, t := range s.Turns {
		u = u.Add(t.Entry.Answer.Usage)
	}
	return u
}

// ToolCalls counts the tool calls of the run's own turns on the log.
func (s State) ToolCalls() int {
	n := 0
	for _, t := range s.Turns {
		n += t.Entry.ToolCalls()
	}
	return n
}

// modelCalls counts the entries of the log for which a model was asked, though
// it may have failed: not those that say that a person has stopped the run, or
// that a bound was reached.
func (s State) modelCalls() int {
	n := 0
	for _, t := range s.Turns {
		if end := t.Entry.End; end == nil || end.Kind == KindError {
			n++
		}
	}
	return n
}

// ModelMS is what the model calls of the run's turns on the log took, in
// milliseconds.
func (s State) ModelMS() int64 {
	var ms int64
	for _, t := range s.Turns {
		ms += t.Entry.ModelMS
	}
	return ms
}

// Retries counts the requests to the model that the run's turns on the log took
// beyond one each.
func (s State) Retries() int {
	n := 0
	for _, t := range s.Turns {
		n += t.Entry.Retries
	}
	return n
}

// Subtree sums what the run and its children have done so far. Of forks that
// have not ended it is what they had done when they told of it last.
func (s State) Subtree() Totals {
	sum := Totals{
		Usage:      s.Usage(),
		Runs:       1,
		ModelCalls: s.modelCalls(),
		ToolCalls:  s.ToolCalls(),
		ModelMS:    s.ModelMS(),
	}.Add(
		s.spent(),
	)
	for _, t := range s.Turns {
		for _, o := range t.Outcomes {
			if o != nil {
				sum = sum.Add(o.Subtree)
			}
		}
		if t.Verdict != nil {
			sum = sum.Add(t.Verdict.Subtree)
		}
	}
	return sum
}

// Apply folds one event. An event at or before Seq was folded already and
// changes nothing, and so do late, duplicate and unknown ones. An error wraps
// ErrCorrupt; the state is then as before.
func (s State) Apply(e Event) (State, error) {
	if c, ok := e.(OutcomeStored); ok {
		return s.conclude(c), nil
	}
	m := e.meta()
	if m.Seq <= s.Seq {
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
	case Replied:
		return s.replied(e), nil
	case TimedOut:
		return s.timedOut(e), nil
	case Mailed:
		e.Mail.Seq = e.Meta.Seq
		return s.mailed(e.Mail), nil
	case AnsweredWithoutCalls:
		return s.rest(e)
	case Approved:
		return s.approved(e), nil
	case Interrupted:
		return s.interrupted(e), nil
	case Cancelled:
		return s.cancel(e), nil
	case OutcomeStored:
		return s.conclude(e), nil
	}
	return s, fmt.Errorf("%w: event %T", ErrCorrupt, e)
}

func (s State) called(e Called) State {
	if s.Phase != None {
		return s
	}
	s.Phase, s.Owner, s.Input, s.CalledAt = Ready, e.Seq, e.Input, e.Time
	if s.cancelled {
		s.Phase = Failed
	}
	return s
}

// append checks that an entry continues the log.
func (s State) append(m Meta, e Entry) (State, error) {
	if s.Phase == None {
		return s, fmt.Errorf("%w: log message %d of a run that was not called", ErrCorrupt, m.Seq)
	}
	if e.Index != s.LogIndex+1 {
		return s, fmt.Errorf("%w: log message %d has index %d after %d", ErrCorrupt, m.Seq, e.Index, s.LogIndex)
	}
	s.LogIndex, s.LogSeq = e.Index, m.Seq
	return s, nil
}

func (s State) answered(e Answered) (State, error) {
	s, err := s.turn(e.Meta, e.Entry)
	if err != nil || s.Ended() {
		return s, err
	}
	t := s.current()
	t.at = e.Seq
	t.Outcomes = make([]*Outcome, len(e.Entry.Calls))
	for i, c := range e.Entry.Calls {
		if c.Failed() {
			o := Failure(c.Kind, "%s", c.Error)
			o.Agent = c.Agent
			t.Outcomes[i] = &o
		}
	}
	// appended a moment ago, and nobody else's
	s.Turns[len(s.Turns)-1] = t
	s.Phase, s.Owner = Awaiting, e.Entry.Trigger
	switch review := e.Entry.Review; {
	case s.halted > 0:
		return s.withhold(e.Entry.Trigger, EndInterrupted()), nil
	case review == nil:
		return s.carryOut(Meta{e.Entry.Trigger, e.Time}), nil
	case review.Failed():
		return s.follow(Meta{e.Entry.Trigger, e.Time}, Verdict{Decision: Pause, Reason: review.Error}), nil
	default:
		t.stage = reviewed
		return s.amend(t), nil
	}
}

// carryOut begins to do what a turn has decided, as of a message and its time.
func (s State) carryOut(m Meta) State {
	t := s.current()
	t.Outcomes, t.freed, t.stage = slices.Clone(t.Outcomes), m.Time, carried
	if t.Entry.Review != nil { // its time begins now
		t.at = m.Seq
		t.Entry.Calls = slices.Clone(t.Entry.Calls)
		t.Entry.Timer = t.Entry.Schedule(m.Time, func(i int) time.Time { return t.Entry.Calls[i].Deadline })
	}
	calls := t.Entry.Calls
	for i, c := range calls {
		switch {
		case c.Failed():
		case c.Awaited():
			t.left++
		case c.Op != OpFork: // done at once; a fork's is the outcome of its run
			t.Outcomes[i] = &Outcome{Status: StatusCompleted}
		}
	}
	if slices.ContainsFunc(calls, func(c Call) bool { return c.Op == OpMail || c.Op == OpWait }) {
		t.Took, t.Found = make([][]Mail, len(calls)), make([][]PeerStatus, len(calls))
	}
	for i, c := range calls {
		switch {
		case c.Failed():
		case c.Op == OpMail:
			s, t.Took[i] = s.take(func(Mail) bool { return true })
		case c.Op == OpSend:
			s.idle = slices.DeleteFunc(slices.Clone(s.idle), func(p subjects.Path) bool { return p == c.To })
		}
	}
	s = s.amend(t)
	s.Phase, s.Owner = Awaiting, m.Seq
	if t.left == 0 {
		return s.ready(m.Seq)
	}
	return s.collect(m.Seq, false)
}

// rest folds an answer that calls nobody.
func (s State) rest(e AnsweredWithoutCalls) (State, error) {
	s, err := s.turn(e.Meta, e.Entry)
	if err != nil || s.Ended() {
		return s, err
	}
	s.Owner = e.Entry.Trigger
	switch {
	case e.Entry.Kind == EntryFinal && e.Entry.End != nil:
		s.Phase, s.End = Failed, *e.Entry.End
	case e.Entry.Kind == EntryFinal:
		s.Phase, s.final = Completed, true
	default:
		return s.settle(e.Entry.Trigger), nil
	}
	return s, nil
}

// settle makes a run idle that has nothing to do, unless there is mail that it
// does not know of: stored during the asking, or not looked at. One that a
// person has stopped has to be written to anew.
func (s State) settle(owner uint64) State {
	since := s.halted
	if t := s.current(); since > 0 {
		t.halted = since
		s = s.amend(t)
	}
	s.Phase, s.Owner, s.halted, s.resting, s.quiet = Idle, owner, 0, true, since > 0
	if slices.ContainsFunc(s.Notice(), func(m Mail) bool { return m.Seq > since && s.wakes(m) }) {
		return s.ready(owner)
	}
	return s
}

// turn appends an answer of the model. What the run was told of before it was
// asked is told now.
func (s State) turn(m Meta, e Entry) (State, error) {
	before := s.Phase
	s, err := s.append(m, e)
	if err != nil || s.Ended() {
		return s, err
	}
	if before != Ready {
		return s, fmt.Errorf("%w: log message %d is a turn while the run is %s", ErrCorrupt, m.Seq, before)
	}
	s.Turns = slices.Clone(s.Turns)
	if s.resting && len(s.Turns) > 0 {
		s.Turns[len(s.Turns)-1].Notice = s.notice(e.Seen)
		s.told, s.resting = max(s.told, e.Seen), false
		s, _ = s.take(func(m Mail) bool { return m.Seq <= e.Seen && s.whole(m) })
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
	// one that had ended by itself owes what it owed
	s.logged = s.cancelled || !done
	if !done {
		s.Phase, s.Owner, s.End, s.cancelled = Failed, e.Entry.Trigger, *e.Entry.End, true
	}
	return s, nil
}

func (s State) replied(e Replied) State {
	if !e.ofItsCall() {
		// it is of another run than the one that was called
		e.Outcome.Subtree = Totals{}
	}
	if s.forkOf(e.Turn, e.Index) {
		return s.forkEnded(e)
	}
	if s.Phase != Awaiting || e.Turn != len(s.Turns) {
		return s
	}
	if c, reviewing := s.review(); reviewing {
		if e.Index == c.Index {
			return s.judged(e.Meta, e.Outcome)
		}
		return s
	}
	t := s.current()
	if e.Index < 0 || e.Index >= len(t.Outcomes) || t.Outcomes[e.Index] != nil ||
		t.Entry.Calls[e.Index].Op != OpCall {
		return s
	}
	if t.Entry.Sequential && t.pending()[0].Index < e.Index {
		return s // nobody has called it yet
	}
	t.Outcomes = slices.Clone(t.Outcomes)
	t.Outcomes[e.Index] = &e.Outcome
	t.left--
	t.freed = e.Time
	s.Turns = slices.Clone(s.Turns)
	s.Turns[len(s.Turns)-1] = t
	switch {
	case t.left == 0:
		return s.ready(e.Seq)
	case t.Entry.Sequential:
		s.Owner = e.Seq
	}
	return s
}

func (s State) timedOut(e TimedOut) State {
	if s.Phase != Awaiting && s.Phase != Held || e.Turn != len(s.Turns) {
		return s
	}
	if s.current().Entry.Review != nil && e.Time.Before(s.current().Entry.Timer.Add(-early)) {
		// it was set for what the turn waited for before
		return s
	}
	if _, reviewing := s.review(); reviewing || s.Phase == Held {
		return s.unanswered(e)
	}
	s = s.collect(e.Seq, true)
	if s.Phase != Awaiting {
		return s
	}
	t := s.current()
	t.Outcomes = slices.Clone(t.Outcomes)
	for _, c := range s.current().pending() {
		o := EndTimeout(t.allowed()).Outcome()
		if s.halted > 0 {
			o = EndInterrupted().Outcome()
		}
		o.Agent = c.Call.Agent
		t.Outcomes[c.Index] = &o
	}
	t.left = 0
	s.Turns = slices.Clone(s.Turns)
	s.Turns[len(s.Turns)-1] = t
	return s.ready(e.Seq)
}

// early is how much earlier than it was set for a timer may fire, by the
// stream's clock.
const early = time.Second

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

// ready makes the next turn owed, or ends a run that has had its turns.
func (s State) ready(owner uint64) State {
	if s.halted > 0 {
		return s.settle(owner)
	}
	s.Phase, s.Owner, s.quiet = Ready, owner, false
	if most := s.maxTurns(); s.awake() >= most {
		s.Phase, s.End = Failed, End{
			Kind: KindTurns,
			Text: fmt.Sprintf("agent exceeded maximum conversation turns (%d)", most),
		}
	}
	return s
}

// maxTurns is how many turns the run may take, a last one to answer included.
func (s State) maxTurns() int {
	if start := s.Start(); start != nil && start.Turns > 0 {
		return min(start.Turns+1, MaxTurns)
	}
	return MaxTurns
}

// awake counts the turns since the run was idle last.
func (s State) awake() int {
	for i, t := range slices.Backward(s.Turns) {
		if t.Entry.Kind == EntryIdle {
			return len(s.Turns) - 1 - i
		}
	}
	return len(s.Turns)
}

// LastTurn reports whether the turn that is owed is a last one, in which the run
// has to answer with what it has.
func (s State) LastTurn() bool {
	start := s.Start()
	return start != nil && start.Turns > 0 && s.awake() == s.maxTurns()-1
}

func (s State) current() Turn { return s.Turns[len(s.Turns)-1] }

// pending lists the runs that are waited for, in call order.
func (t Turn) pending() []Child {
	if t.stage == reviewed {
		return []Child{{len(t.Entry.Calls), *t.Entry.Review, t.Entry.Review.Deadline}}
	}
	if t.stage != carried {
		return nil
	}
	var out []Child
	for i, o := range t.Outcomes {
		if o == nil && t.Entry.Calls[i].Op == OpCall {
			out = append(out, Child{i, t.Entry.Calls[i], t.deadline(i)})
		}
	}
	return out
}

// deadline is that of the i-th call: as decided, and for a sequential one not
// later than its timeout after it became due.
func (t Turn) deadline(i int) time.Time {
	at := t.Entry.Calls[i].Deadline
	if t.Entry.Sequential && t.Entry.Timeout > 0 {
		if due := t.freed.Add(t.Entry.Timeout); due.Before(at) {
			return due
		}
	}
	return at
}

// allowed is the time that each call of the turn had.
func (t Turn) allowed() time.Duration {
	if t.Entry.Timeout > 0 {
		return t.Entry.Timeout
	}
	return t.Entry.Timer.Sub(t.Time)
}

package run

import "slices"

// Mail is one message to a run.
type Mail struct {
	Seq     uint64   `json:"-"`
	From    string   `json:"from"`          // the path of who wrote it; of a person, a name that is none
	Text    string   `json:"text"`          // for the model
	Idle    bool     `json:"idle,omitzero"` // a fork tells that it has done its task and waits for mail
	Outcome *Outcome `json:"-"`             // a fork has ended, so
}

// forkOf finds the call of a turn that has made a fork which has not ended.
func (s State) forkOf(turn, index int) bool {
	if turn < 1 || turn > len(s.Turns) {
		return false
	}
	t := s.Turns[turn-1]
	return index >= 0 && index < len(t.Outcomes) && t.Entry.Calls[index].Op == OpFork && t.Outcomes[index] == nil
}

// Forks lists the forks that have not ended, in the order of their calls.
func (s State) Forks() []Fork {
	var out []Fork
	for i, t := range s.Turns {
		for index, c := range t.Entry.Calls {
			if c.Op == OpFork && t.Outcomes[index] == nil {
				out = append(out, Fork{i + 1, Child{index, c, c.Deadline}})
			}
		}
	}
	return out
}

// Fork is a child that goes on beside its parent.
type Fork struct {
	Turn int
	Child
}

// mailed puts a message into the inbox.
func (s State) mailed(m Mail) State {
	if s.Ended() {
		return s
	}
	s.Inbox = append(slices.Clip(s.Inbox), m)
	switch s.Phase {
	case Idle:
		return s.ready(m.Seq)
	case Awaiting:
		return s.collect(m.Seq, false)
	case None, Ready, Completed, Failed:
	}
	return s
}

// forkEnded notes the outcome of a fork, which is mail.
func (s State) forkEnded(e Replied) State {
	t := s.Turns[e.Turn-1]
	t.Outcomes = slices.Clone(t.Outcomes)
	t.Outcomes[e.Index] = &e.Outcome
	s.Turns = slices.Clone(s.Turns)
	s.Turns[e.Turn-1] = t
	return s.mailed(Mail{Seq: e.Seq, From: e.Outcome.Path, Outcome: &e.Outcome})
}

// take removes from the inbox what fits, in stream order.
func (s State) take(fits func(Mail) bool) (State, []Mail) {
	var taken, left []Mail
	for _, m := range s.Inbox {
		if fits(m) {
			taken = append(taken, m)
		} else {
			left = append(left, m)
		}
	}
	s.Inbox = left
	return s, taken
}

// collect lets the calls of the current turn that wait for mail take what is there for them: all of it when they have
// what they wait for, or when their time is over.
func (s State) collect(owner uint64, over bool) State {
	t := s.current()
	changed := false
	for i, c := range t.Entry.Calls {
		if c.Op != OpWait || t.Outcomes[i] != nil || !over && !s.hasFor(c) {
			continue
		}
		if !changed {
			t.Outcomes, t.Took, changed = slices.Clone(t.Outcomes), slices.Clone(t.Took), true
		}
		s, t.Took[i] = s.take(c.wants)
		t.Outcomes[i] = &Outcome{Status: StatusCompleted}
		t.left--
	}
	if !changed {
		return s
	}
	s.Turns = slices.Clone(s.Turns)
	s.Turns[len(s.Turns)-1] = t
	if t.left == 0 {
		return s.ready(owner)
	}
	return s
}

// wants reports whether a call that waits for mail takes a message.
func (c Call) wants(m Mail) bool { return len(c.From) == 0 || slices.Contains(c.From, m.From) }

// hasFor reports whether all that a call waits for is there: any message, or one from each that it names.
func (s State) hasFor(c Call) bool {
	if len(c.From) == 0 {
		return len(s.Inbox) > 0
	}
	for _, from := range c.From {
		if !slices.ContainsFunc(s.Inbox, func(m Mail) bool { return m.From == from }) {
			return false
		}
	}
	return true
}

// Notice lists who has written what the run was not told of, each once, in stream order: what it is told after an
// answer that calls nobody.
func (s State) Notice() []string { return s.notice(s.Seq) }

func (s State) notice(upTo uint64) []string {
	var from []string
	for _, m := range s.Inbox {
		if m.Seq > s.told && m.Seq <= upTo && !slices.Contains(from, m.From) {
			from = append(from, m.From)
		}
	}
	return from
}

// rested reports whether the last entry is an answer after which the run waits for mail.
func (s State) rested() bool { return len(s.Turns) > 0 && s.current().Entry.Kind == EntryIdle }

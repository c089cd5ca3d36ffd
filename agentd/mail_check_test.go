package agentd_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// storedMail is a stored message to a run. Its body has the form in which the
// run is shown it.
type storedMail struct {
	seq  uint64
	from string
	// body is canonical JSON; "" for the end of a fork, where only the
	// status counts.
	body  string
	shown bool // a result has had it
}

// mailResult is one tool result with mail in it, of a turn on the log.
type mailResult struct {
	turn int
	seq  uint64 // of the turn's entry
	// from lists the awaited writers; empty: any writer.
	from []string
	got  []shownMessage
}

// mailRecord is the mail of one run, from the stream.
type mailRecord struct {
	mail    []*storedMail
	called  bool // the run's call has been read
	entries []run.Entry
	seqs    []uint64        // sequences of the entries
	killed  []subjects.Path // named by the run's kill calls
	state   run.State
}

// checkMail compares the mail of a tree on the stream with the logs of its
// writers, and with the mail that the models of its readers were shown. It
// returns the number of messages. Every message is stored once, an entry of its
// writer explains it, and it is in one result at most. A message that was there
// when a matching call was appended is in a result. Results have the messages
// in stream order.
func (h *harness) checkMail(tree subjects.Tree, labels map[subjects.Run]string) (messages int) {
	records := map[subjects.Run]*mailRecord{}
	seen := map[string]bool{}
	// All messages that runs have written, by key.
	keys := map[string]sentMail{}
	runs := h.fold(tree)
	for _, m := range h.readTree(tree) {
		at, err := h.conn.Space().Parse(m.Subject)
		if err != nil {
			h.tb.Fatal(err)
		}
		if records[at.Run] == nil {
			records[at.Run] = &mailRecord{state: runs[at.Run]}
		}
		if at.Kind == subjects.Mail {
			if seen[m.Subject] {
				h.tb.Errorf("%s was written twice", m.Subject)
			}
			if !seen[m.Subject] && !strings.Contains(string(m.Body), `"from":"user"`) {
				keys[at.Key.String()] = sentMail{at.Run.Path.String(), m}
			}
		}
		if !seen[m.Subject] || at.Kind == subjects.Log {
			h.recordMail(records[at.Run], at, m)
		}
		seen[m.Subject] = true
	}
	for r, l := range records {
		for _, wrong := range l.checkSent(r, keys) {
			h.tb.Errorf("%s (%s): %s", r, labels[r], wrong)
		}
	}
	for key := range keys {
		h.tb.Errorf("no log entry explains the message %s", key)
	}
	for r, l := range records {
		messages += len(l.mail)
		// Runs that read no mail may share their labels with runs of
		// other trees.
		if !l.readsMail() {
			continue
		}
		h.tree.mu.Lock()
		shown := h.tree.lastRequest[labels[r]]
		h.tree.mu.Unlock()
		for _, wrong := range l.checkShown(shown) {
			h.tb.Errorf("%s (%s): %s\n%s", r, labels[r], wrong, conversationText(shown.messages))
		}
	}
	return messages
}

// sentMail is a stored message that no log entry has explained yet.
type sentMail struct {
	to string
	bus.Stored
}

// checkSent compares the messages that a run has written with its log, and
// returns the differences. The messages of the last entry, and of the entry
// before the end on the log, may be missing: the run may have ended before its
// worker wrote them. checkSent removes the messages that it has found from
// keys.
func (l *mailRecord) checkSent(r subjects.Run, keys map[string]sentMail) (wrong []string) {
	wrongf := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	check := func(turn int, key, to, text string) {
		p, ok := keys[key]
		delete(keys, key)
		mail, err := run.DecodeMail(p.Body)
		switch last := turn == len(l.entries) || l.entries[turn].Kind == run.EntryEnded; {
		case !ok && last:
		case !ok:
			wrongf("entry %d: the message %s was never written", turn, key)
		case err != nil || p.Seq < l.seqs[turn-1] || p.to != to ||
			mail.From != r.Path.String() || !strings.Contains(mail.Text, text):
			wrongf("entry %d is message %d; its mail %s is message %d to %s: %s (%v), want a later one to %s with %q",
				turn, l.seqs[turn-1], key, p.Seq, p.to, p.Body, err, to, text)
		}
	}
	for i, e := range l.entries {
		parent, _, _, below := r.Path.Parent()
		_, noticed := keys[r.Path.IdleKey(i+1).String()]
		// A fork tells its parent of each idle turn. Its notice after
		// an interrupted turn is checked only if it is stored.
		if fork := l.state.Input.Forked != nil; below && (fork && e.Kind == run.EntryIdle || noticed) {
			check(i+1, r.Path.IdleKey(i+1).String(), parent.String(), quoted(e.Answer.Content))
		}
		for k, c := range e.Calls {
			if c.Op == run.OpSend && !c.Failed() && carriedOut(l.state, i+1) {
				check(i+1, r.Path.MailKey(i+1, k).String(), c.To.String(), c.Task)
			}
		}
	}
	return wrong
}

// quoted is a text as it is written inside a JSON string.
func quoted(text string) string { return strings.Trim(canonical([]byte(strconv.Quote(text))), `"`) }

// recordMail adds one message of the stream to the record of its run.
func (h *harness) recordMail(l *mailRecord, at subjects.Address, m bus.Stored) {
	switch at.Kind { //nolint:exhaustive // the rest is no mail
	case subjects.Call:
		l.called = true
	case subjects.Log:
		e, err := run.DecodeEntry(m.Body)
		if err != nil {
			h.tb.Fatal(err)
		}
		l.entries, l.seqs = append(l.entries, e), append(l.seqs, m.Seq)
		for _, c := range e.Calls {
			if c.Op == run.OpKill && !c.Failed() && carriedOut(l.state, len(l.entries)) {
				l.killed = append(l.killed, c.To)
			}
		}
	case subjects.Mail:
		if !l.called {
			// Mail before the call is no mail of the run.
			return
		}
		mail, err := run.DecodeMail(m.Body)
		if err != nil {
			h.tb.Fatal(err)
		}
		body := canonical([]byte(mail.Text))
		if !mail.Idle {
			raw, _ := json.Marshal(mail.Text)
			body = canonical(raw)
		}
		l.mail = append(l.mail, &storedMail{seq: m.Seq, from: mail.From, body: body})
	case subjects.Reply:
		if at.Turn <= len(l.entries) && l.entries[at.Turn-1].Review != nil &&
			at.Index == len(l.entries[at.Turn-1].Calls) {
			return // a supervisor's verdict
		}
		if at.Turn > len(l.entries) || at.Index >= len(l.entries[at.Turn-1].Calls) {
			h.tb.Errorf("%s has an outcome, and the log has no such call", m.Subject)
			return
		}
		c := l.entries[at.Turn-1].Calls[at.Index]
		// The outcome of a killed fork is no mail.
		below := func(killed subjects.Path) bool { return killed.Covers(c.To) }
		if c.Op == run.OpFork && !slices.ContainsFunc(l.killed, below) {
			l.mail = append(l.mail, &storedMail{seq: m.Seq, from: c.To.String()})
		}
	}
}

// canonical re-encodes JSON, so that equal values are equal texts.
func canonical(raw []byte) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// checkShown compares the results that a run was shown with its stored mail,
// and returns the differences.
func (l *mailRecord) checkShown(last lastRequest) (wrong []string) {
	wrongf := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for _, t := range l.mailResults(last) {
		// The sequence of the last message, by writer where writers are
		// awaited.
		before := map[string]uint64{}
		for _, got := range t.got {
			i := slices.IndexFunc(l.mail, func(s *storedMail) bool { return !s.shown && s.is(got) })
			if i < 0 {
				wrongf("turn %d: a message of %s is not stored, or was shown before: %s", t.turn, got.From, got.Message)
				continue
			}
			writer := ""
			if len(t.from) > 0 {
				writer = got.From
			}
			if l.mail[i].seq < before[writer] {
				wrongf("turn %d: message %d is shown after message %d, want stream order",
					t.turn, l.mail[i].seq, before[writer])
			}
			l.mail[i].shown = true
			before[writer] = l.mail[i].seq
		}
		for _, s := range l.mail {
			if !s.shown && s.seq < t.seq && (len(t.from) == 0 || slices.Contains(t.from, s.from)) {
				wrongf("turn %d: message %d of %s was there and is in no result", t.turn, s.seq, s.from)
			}
		}
	}
	return wrong
}

// is reports whether s is the message that a run was shown.
func (s *storedMail) is(got shownMessage) bool {
	if s.from != got.From {
		return false
	}
	if s.body != "" {
		return s.body == canonical(got.Message)
	}
	return strings.Contains(string(got.Message), `"status":"dead"`)
}

// readsMail reports whether a run has called check_mail or wait.
func (l *mailRecord) readsMail() bool {
	return slices.ContainsFunc(l.entries, func(e run.Entry) bool {
		return slices.ContainsFunc(e.Calls, func(c run.Call) bool { return c.Op == run.OpMail || c.Op == run.OpWait })
	})
}

// mailResults lists the tool results with mail that a run was shown.
func (l *mailRecord) mailResults(last lastRequest) (all []mailResult) {
	said := ownMessages(last.messages)
	turn := 0
	for _, msg := range said {
		if len(msg.ToolCalls) > 0 { // the next entry with calls
			turn++
			for turn <= len(l.entries) && l.entries[turn-1].Kind != run.EntryTurn {
				turn++
			}
		}
		if turn < 1 || !carriedOut(l.state, turn) {
			continue
		}
		e := l.entries[turn-1]
		for k, r := range msg.ToolResults {
			if c := e.Calls[k]; (c.Op == run.OpMail || c.Op == run.OpWait) && !c.Failed() {
				all = append(all, mailResult{turn, l.seqs[turn-1], pathNames(c.From), messagesIn(r.Content)})
			}
		}
	}
	return all
}

// conversationText prints a conversation, one message a line.
func conversationText(said []provider.Message) string {
	var b strings.Builder
	for _, m := range said {
		fmt.Fprintf(&b, "\t%s %s", m.Role, m.Content)
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, " %s%v", c.Name, c.Arguments)
		}
		for _, r := range m.ToolResults {
			fmt.Fprintf(&b, " [%s]", r.Content)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// pathNames returns paths as text.
func pathNames(paths []subjects.Path) (names []string) {
	for _, p := range paths {
		names = append(names, p.String())
	}
	return names
}

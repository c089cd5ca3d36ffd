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

// stored letter, as its reader will be shown it.
type storedMail struct {
	seq  uint64
	from string
	// canonical JSON; "" for the end of a fork, of which only the standing
	// counts
	body  string
	shown bool
}

// taking is one result with mail in it, of a turn on the log.
type mailResult struct {
	turn int
	seq  uint64   // of the entry
	from []string // whose mail; none: anybody's
	got  []shownMessage
}

// mailLog is what the stream holds of the mail of one run.
type mailRecord struct {
	mail    []*storedMail
	called  bool
	entries []run.Entry
	seqs    []uint64 // of the entries
	killed  []string
	state   run.State
}

// conserved checks the mail of a tree: what the stream holds of it against what
// the models were shown. Every letter is stored once; it is in one result at
// the most; in one, if it was there when a call of which it is one was put on
// the log; and results have it in stream order.
func (h *harness) checkMail(tree subjects.Tree, labels map[subjects.Run]string) (letters int) {
	logs := map[subjects.Run]*mailRecord{}
	seen := map[string]bool{}
	// of all letters that runs have written
	keys := map[string]sentMail{}
	runs := h.fold(tree)
	for _, m := range h.readTree(tree) {
		at, err := h.conn.Space().Parse(m.Subject)
		if err != nil {
			h.tb.Fatal(err)
		}
		if logs[at.Run] == nil {
			logs[at.Run] = &mailRecord{state: runs[at.Run]}
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
			h.recordMail(logs[at.Run], at, m)
		}
		seen[m.Subject] = true
	}
	for r, l := range logs {
		for _, wrong := range l.checkSent(r, keys) {
			h.tb.Errorf("%s (%s): %s", r, labels[r], wrong)
		}
	}
	for key := range keys {
		h.tb.Errorf("the letter %s is nobody's", key)
	}
	for r, l := range logs {
		letters += len(l.mail)
		// labels may be those of several trees, if nobody in them has
		// mail
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
	return letters
}

// posted is a letter that was not looked at yet.
type sentMail struct {
	to string
	bus.Stored
}

// sent says what is wrong with what a run has written: its log says what that
// has to be. (Of a run that was ended after an entry, what follows from that
// may be missing.)
func (l *mailRecord) checkSent(r subjects.Run, keys map[string]sentMail) (wrong []string) {
	check := func(turn int, key, to, text string) {
		p, ok := keys[key]
		delete(keys, key)
		letter, err := run.DecodeMail(p.Body)
		switch last := turn == len(l.entries) || l.entries[turn].Kind == run.EntryEnded; {
		case !ok && last:
		case !ok:
			wrong = append(wrong, fmt.Sprintf("entry %d: the letter %s was never written", turn, key))
		case err != nil || p.Seq < l.seqs[turn-1] || p.to != to || letter.From != r.Path.String() || !strings.Contains(letter.Text, text):
			wrong = append(
				wrong,
				fmt.Sprintf(
					"entry %d, %d: the letter %s, %d to %s, is %s, not %q (%v)",
					turn,
					l.seqs[turn-1],
					key,
					p.Seq,
					p.to,
					p.Body,
					text,
					err,
				),
			)
		}
	}
	for i, e := range l.entries {
		parent, _, _, below := r.Path.Parent()
		_, word := keys[r.Path.IdleKey(i+1).String()]
		// A caller waits for any run but a fork, and is told of its end
		// alone. That a fork was stopped after a turn is told too.
		if fork := l.state.Input.Forked != nil; below && (fork && e.Kind == run.EntryIdle || word) {
			check(i+1, r.Path.IdleKey(i+1).String(), parent.String(), quoted(e.Answer.Content))
		}
		for k, c := range e.Calls {
			if c.Op == run.OpSend && !c.Failed() && carriedOut(l.state, i+1) {
				check(i+1, r.Path.MailKey(i+1, k).String(), c.To, c.Task)
			}
		}
	}
	return wrong
}

// quoted is a text as it is in JSON.
func quoted(text string) string { return strings.Trim(canonical([]byte(strconv.Quote(text))), `"`) }

// hold notes a message of a run.
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
			// there was nobody yet to write to
			return
		}
		letter, err := run.DecodeMail(m.Body)
		if err != nil {
			h.tb.Fatal(err)
		}
		body := canonical([]byte(letter.Text))
		if !letter.Idle {
			raw, _ := json.Marshal(letter.Text)
			body = canonical(raw)
		}
		l.mail = append(l.mail, &storedMail{seq: m.Seq, from: letter.From, body: body})
	case subjects.Reply:
		if at.Turn <= len(l.entries) && l.entries[at.Turn-1].Review != nil &&
			at.Index == len(l.entries[at.Turn-1].Calls) {
			return // a verdict
		}
		if at.Turn > len(l.entries) || at.Index >= len(l.entries[at.Turn-1].Calls) {
			h.tb.Errorf("%s answers what was not asked", m.Subject)
			return
		}
		c := l.entries[at.Turn-1].Calls[at.Index]
		below := func(killed string) bool { return c.To == killed || strings.HasPrefix(c.To, killed+"-") }
		if c.Op == run.OpFork && !slices.ContainsFunc(l.killed, below) {
			l.mail = append(l.mail, &storedMail{seq: m.Seq, from: c.To})
		}
	}
}

// canonical is JSON of which there is only one form.
func canonical(raw []byte) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// compare says what is wrong with what a run was shown.
func (l *mailRecord) checkShown(last lastRequest) (wrong []string) {
	for _, t := range l.mailResults(last) {
		before := map[string]uint64{} // of all, or of each
		for _, got := range t.got {
			i := slices.IndexFunc(l.mail, func(s *storedMail) bool { return !s.shown && s.is(got) })
			if i < 0 {
				wrong = append(
					wrong,
					fmt.Sprintf(
						"turn %d: a message of %s is not stored, or was shown before: %s",
						t.turn,
						got.From,
						got.Message,
					),
				)
				continue
			}
			who := ""
			if len(t.from) > 0 {
				who = got.From
			}
			if l.mail[i].seq < before[who] {
				wrong = append(
					wrong,
					fmt.Sprintf("turn %d: message %d is behind message %d", t.turn, l.mail[i].seq, before[who]),
				)
			}
			l.mail[i].shown, before[who] = true, l.mail[i].seq
		}
		for _, s := range l.mail {
			if !s.shown && s.seq < t.seq && (len(t.from) == 0 || slices.Contains(t.from, s.from)) {
				wrong = append(
					wrong,
					fmt.Sprintf("turn %d: message %d of %s was there and is in no result", t.turn, s.seq, s.from),
				)
			}
		}
	}
	return wrong
}

func (s *storedMail) is(got shownMessage) bool {
	if s.from != got.From {
		return false
	}
	if s.body != "" {
		return s.body == canonical(got.Message)
	}
	return strings.Contains(string(got.Message), `"status":"dead"`)
}

// takes reports whether a run takes mail.
func (l *mailRecord) readsMail() bool {
	return slices.ContainsFunc(l.entries, func(e run.Entry) bool {
		return slices.ContainsFunc(e.Calls, func(c run.Call) bool { return c.Op == run.OpMail || c.Op == run.OpWait })
	})
}

// takings are the results with mail that a run was shown.
func (l *mailRecord) mailResults(last lastRequest) (all []mailResult) {
	said := ownMessages(last.messages)
	turn := 0
	for _, msg := range said {
		if len(msg.ToolCalls) > 0 { // the next entry that calls somebody
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
				all = append(all, mailResult{turn, l.seqs[turn-1], c.From, messagesIn(r.Content)})
			}
		}
	}
	return all
}

// conversation is one in a few lines.
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

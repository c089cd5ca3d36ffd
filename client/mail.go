package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// DefaultName stands for a person that sends a message, or decides on a turn,
// without a name.
const DefaultName = "user"

// Send writes a message to a run and returns when it is stored. A run that is
// idle or waits for mail goes on with the message. Any other run reads it when
// it checks its mail or, without mail tools, when it has an answer. The default
// of from is DefaultName; a path is refused, since it names a run. The error is
// ErrUnknownTree, ErrUnknownRun, ErrNotStarted, ErrEnded, ErrCancelled or
// ErrNoMail if the run will not read the message, and ErrInvalidMessage for a
// message that cannot be sent.
func (c *Client) Send(ctx context.Context, tree subjects.Tree, path subjects.Path, from, text string) error {
	m := run.Mail{From: cmp.Or(from, DefaultName), Text: text}
	if err := validateMail(m); err != nil {
		return err
	}
	r, err := c.findActive(ctx, tree, path)
	if err != nil {
		return err
	}
	if err := checkReadsMail(ctx, c, r); err != nil {
		return err
	}
	return c.writeTo(ctx, r.Mail, m)
}

// checkReadsMail returns ErrNoMail for a run in its first turn that has no
// tools: it ends with its answer. An interrupted run reads mail in any case. A
// run whose tools are not known counts as one that can read mail.
func checkReadsMail(ctx context.Context, c *Client, r subjects.Run) error {
	s, err := c.readState(ctx, r)
	if err != nil || s.LogSeq != 0 || s.Interrupted() || s.Input.Forked != nil || s.Input.Copy != nil {
		return err
	}
	var tools bool
	if s.Input.AdHoc() {
		tools = len(s.Input.Spawned.AdHoc.Tools)+len(s.Input.Spawned.AdHoc.Slash) > 0
	} else {
		tools, err = hasTools(ctx, c, r.Agent)
	}
	if err == nil && !tools {
		err = fmt.Errorf("%s: %w: %s has no tools", describe(r), ErrNoMail, r.Agent)
	}
	return err
}

// hasTools reports whether an agent is offered tools, according to the card
// that a worker has announced. It returns true without a readable card.
func hasTools(ctx context.Context, c *Client, agent subjects.Agent) (bool, error) {
	dir, err := c.conn.Directory(ctx)
	if err != nil {
		return false, err
	}
	value, _, ok, err := dir.Get(ctx, agent.String())
	if err != nil || !ok {
		return true, err
	}
	var card struct {
		SubAgents []string          `json:"sub_agents"`
		Style     []string          `json:"style"`
		Tools     []json.RawMessage `json:"tools"`
		Servers   []string          `json:"mcp_servers"`
	}
	calls := json.Unmarshal(value, &card) == nil && slices.Equal(card.Style, []string{"call"})
	return !calls || len(card.SubAgents)+len(card.Tools)+len(card.Servers) > 0, nil
}

// validateMail reports a message that a run would not read as a person's text.
func validateMail(m run.Mail) error {
	_, notAPath := subjects.ParsePath(m.From)
	switch {
	case strings.TrimSpace(m.Text) == "":
		return fmt.Errorf("%w: the text is empty", ErrInvalidMessage)
	case !utf8.ValidString(m.Text):
		return fmt.Errorf("%w: the text is not UTF-8", ErrInvalidMessage)
	case !utf8.ValidString(m.From):
		return fmt.Errorf("%w: the sender's name is not UTF-8", ErrInvalidMessage)
	case notAPath == nil:
		return fmt.Errorf("%w: the sender's name %q is the path of a run", ErrInvalidMessage, m.From)
	}
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if _, err := run.DecodeMail(body); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidMessage, err)
	}
	return nil
}

// ReceivedMail is one message in the mailbox of a run.
type ReceivedMail struct {
	run.Mail
	Time time.Time
	// Taken reports whether the run has read the message.
	Taken bool
}

// Mailbox lists the messages that a run has received, in stream order: texts of
// other runs and of people, idle notices of its forks, and the outcomes of
// forks that it did not kill itself. A tree that no worker has taken yet has an
// empty mailbox.
func (c *Client) Mailbox(ctx context.Context, tree subjects.Tree, path subjects.Path) ([]ReceivedMail, error) {
	r, call, err := c.findRun(ctx, tree, path)
	if err != nil || call == 0 {
		return nil, err
	}
	// The fold keeps no times. It drops mail that comes after the end, or
	// that a full inbox has no room for.
	times := map[uint64]time.Time{}
	dropped := map[uint64]run.Mail{}
	var s run.State
	for e, err := range c.runs.Events(ctx, r) {
		if err == nil {
			s, err = s.Apply(e)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", describe(r), err)
		}
		switch e := e.(type) { //nolint:gochecksumtype // no other event is mail
		case run.Mailed:
			// a run never reads mail from before its call
			if e.Mail.Seq > call {
				dropped[e.Mail.Seq] = e.Mail
				times[e.Mail.Seq] = e.Time
			}
		case run.Replied:
			times[e.Seq] = e.Time
		}
	}
	var all []ReceivedMail
	add := func(taken bool, ms ...run.Mail) {
		for _, m := range ms {
			all = append(all, ReceivedMail{m, times[m.Seq], taken})
			delete(dropped, m.Seq)
		}
	}
	for _, t := range s.Turns {
		add(true, slices.Concat(t.Took...)...)
		add(true, slices.DeleteFunc(slices.Clone(t.Notice), func(m run.Mail) bool { return !m.Inline })...)
	}
	read, err := c.readInline(ctx, r, s, times)
	if err != nil {
		return nil, err
	}
	for _, m := range s.Inbox {
		add(read[m.Seq], m)
	}
	add(false, slices.Collect(maps.Values(dropped))...)
	slices.SortFunc(all, func(a, b ReceivedMail) int { return cmp.Compare(a.Seq, b.Seq) })
	return all, nil
}

// readInline reports which messages of a completed run's inbox its model read
// inline with the last request. The answer to that request is the outcome, and
// not an entry of the log that would say how far its writer had read. So a
// message counts as read if it was stored before the model was asked.
func (c *Client) readInline(
	ctx context.Context, r subjects.Run, s run.State, times map[uint64]time.Time,
) (map[uint64]bool, error) {
	notice := s.Notice()
	if len(notice) == 0 {
		return nil, nil
	}
	o, at, err := c.readOutcome(ctx, r)
	if err != nil || o.Status != run.StatusCompleted {
		return nil, err
	}
	asked := at.Add(-time.Duration(o.ModelMS-s.Turns.Totals().ModelMS) * time.Millisecond)
	read := map[uint64]bool{}
	for _, m := range notice {
		read[m.Seq] = m.Inline && (m.Seq <= s.Owner || times[m.Seq].Before(asked))
	}
	return read, nil
}

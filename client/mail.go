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

// Person is who writes to a run unless another name is given.
const Person = "user"

// Send writes to a run. It returns when the message is stored: one that is idle
// or waits for mail goes on with it, any other finds it when it looks. From is
// a name, which must not be taken for another run's; empty it is Person. The
// error is ErrUnknownTree, ErrUnknownRun, ErrNotCalled, ErrEnded or
// ErrCancelled where nobody would read it, and ErrBadMail for what is no
// message.
func (c *Client) Send(ctx context.Context, tree subjects.Tree, path subjects.Path, from, text string) error {
	m := run.Mail{From: cmp.Or(from, Person), Text: text}
	if err := checkMail(m); err != nil {
		return err
	}
	r, err := c.live(ctx, tree, path)
	if err != nil {
		return err
	}
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return c.say(ctx, r.Mail, body)
}

// checkMail says what keeps a message from being sent.
func checkMail(m run.Mail) error {
	_, notAName := subjects.ParsePath(m.From)
	switch {
	case strings.TrimSpace(m.Text) == "":
		return fmt.Errorf("%w: it is empty", ErrBadMail)
	case !utf8.ValidString(m.Text):
		return fmt.Errorf("%w: it is not UTF-8 text", ErrBadMail)
	case !utf8.ValidString(m.From):
		return fmt.Errorf("%w: who it is from is not UTF-8 text", ErrBadMail)
	case notAName == nil:
		return fmt.Errorf("%w: from %q would be taken for the run of that path", ErrBadMail, m.From)
	}
	if body, err := json.Marshal(m); err != nil {
		return err
	} else if _, err = run.DecodeMail(body); err != nil {
		return fmt.Errorf("%w: %w", ErrBadMail, err)
	}
	return nil
}

// reachable returns an error if a run is not going to read anything any more.
func (c *Client) reachable(ctx context.Context, r subjects.Run) error {
	if ended, err := c.ended(ctx, r); err != nil {
		return err
	} else if ended {
		return fmt.Errorf("%s %w", name(r), ErrEnded)
	}
	if _, cancelled, err := c.conn.First(ctx, r.Cancel()); err != nil {
		return err
	} else if cancelled {
		return fmt.Errorf("%s %w", name(r), ErrCancelled)
	}
	return nil
}

// Received is one message that a run has got.
type Received struct {
	run.Mail
	Time  time.Time
	Taken bool // the run has read it
}

// Mailbox lists what was written to a run, in stream order: by other runs and
// by people, word of its forks that they are idle, and how those have ended
// that it did not kill. A tree that no worker has taken yet has got nothing.
func (c *Client) Mailbox(ctx context.Context, tree subjects.Tree, path subjects.Path) ([]Received, error) {
	r, call, err := c.findCalled(ctx, tree, path)
	if err != nil || call == 0 {
		return nil, err
	}
	times, late := map[uint64]time.Time{}, map[uint64]run.Mail{}
	s, err := c.fold(ctx, r, func(e run.Event) {
		switch e := e.(type) {
		case run.Mailed:
			if e.Mail.Seq > call { // mail before the call is never read
				late[e.Mail.Seq], times[e.Mail.Seq] = e.Mail, e.Time
			}
		case run.Replied:
			times[e.Seq] = e.Time
		case run.Called, run.Answered, run.Ended, run.TimedOut, run.AnsweredWithoutCalls, run.Approved, run.Interrupted, run.Cancelled, run.OutcomeStored:
		}
	})
	if err != nil {
		return nil, err
	}
	var all []Received
	add := func(ms []run.Mail, taken bool) {
		for _, m := range ms {
			all = append(all, Received{m, times[m.Seq], taken})
			delete(late, m.Seq)
		}
	}
	for _, t := range s.Turns {
		for _, took := range t.Took {
			add(took, true)
		}
		add(slices.DeleteFunc(slices.Clone(t.Notice), func(m run.Mail) bool { return !m.Inline }), true)
	}
	given, err := c.given(ctx, r, s, times)
	if err != nil {
		return nil, err
	}
	for _, m := range s.Inbox {
		add([]run.Mail{m}, given[m.Seq])
	}
	add(slices.Collect(maps.Values(late)), false) // what came after its end
	slices.SortFunc(all, func(a, b Received) int { return cmp.Compare(a.Seq, b.Seq) })
	return all, nil
}

// given are the messages that a run was given as they are with the last
// question to its model, to which it has answered for good. Such an answer is
// no entry of the log, which would say what its writer had read: that is what
// was stored before the model was asked.
func (c *Client) given(
	ctx context.Context,
	r subjects.Run,
	s run.State,
	times map[uint64]time.Time,
) (map[uint64]bool, error) {
	news := s.Notice()
	if len(news) == 0 {
		return nil, nil
	}
	end, ok, err := c.end(ctx, r)
	if err != nil || !ok {
		return nil, err
	}
	o, err := c.outcome(ctx, end)
	if err != nil || o.Status != run.StatusCompleted {
		return nil, err
	}
	asked := end.Time.Add(-time.Duration(o.ModelMS-s.ModelMS()) * time.Millisecond)
	given := map[uint64]bool{}
	for _, m := range news {
		given[m.Seq] = m.Inline && (m.Seq <= s.Owner || times[m.Seq].Before(asked))
	}
	return given, nil
}

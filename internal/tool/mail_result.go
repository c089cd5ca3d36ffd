package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/axebus/axe/agentd/run"
)

// mailResult is the result of a call of one of mailTools that was carried out.
func mailResult(t run.Turn, i int) string {
	c := t.Entry.Calls[i]
	switch c.Op {
	case run.OpFork:
		return c.To.String()
	case run.OpSend:
		return "sent to " + c.To.String()
	case run.OpKill:
		return "killed " + c.To.String()
	case run.OpMail:
		return messagesText(ofCall(t.Took, i))
	case run.OpWait:
		if len(c.From) == 0 {
			return messagesText(ofCall(t.Took, i))
		}
		return waitResult(c, ofCall(t.Found, i), ofCall(t.Took, i))
	case run.OpCall, run.OpTool, run.OpReview:
	}
	return ""
}

// ofCall returns the mail that a call took, or the statuses that it found. A
// turn has none before it is carried out.
func ofCall[T any](all [][]T, call int) []T {
	if call >= len(all) {
		return nil
	}
	return all[call]
}

// message is one message as a model reads it.
type message struct {
	From string `json:"from"`
	// Message is a string, or the Completion of a child.
	Message any `json:"message"`
}

func messagesText(ms []run.Mail) string {
	if len(ms) == 0 {
		return "no mail"
	}
	all := make([]message, len(ms))
	for i, m := range ms {
		all[i] = message{m.From, contentOf(m)}
	}
	return encode(map[string]any{"messages": all})
}

// contentOf returns a string, or the Completion of a child.
func contentOf(m run.Mail) any {
	if m.Outcome != nil {
		return endOf(*m.Outcome)
	}
	var c Completion
	if m.Idle && json.Unmarshal([]byte(m.Text), &c) == nil {
		return c
	}
	return m.Text
}

// peerStatus is the result of a wait for one peer.
type peerStatus struct {
	ID       string         `json:"id"`
	Status   run.PeerStatus `json:"status"`
	Messages []any          `json:"messages,omitempty"`
}

func waitResult(c run.Call, found []run.PeerStatus, took []run.Mail) string {
	all := make([]peerStatus, len(c.From))
	for i, from := range c.From {
		all[i] = peerStatus{ID: from.String(), Status: run.PeerRunning}
		if i < len(found) {
			all[i].Status = found[i]
		}
		for _, m := range took {
			if m.From == from.String() {
				all[i].Messages = append(all[i].Messages, contentOf(m))
			}
		}
	}
	return encode(map[string]any{"agents": all})
}

// maxNamedSenders bounds the senders that MailNotice names. Every later request
// has the notice.
const maxNamedSenders = 20

// MailNotice is the message that an idle run is woken with. It counts the
// senders beyond maxNamedSenders.
func MailNotice(mail []run.Mail) string {
	var lines []string
	named := 0
	for _, m := range mail {
		if m.Inline {
			lines = append(lines, m.Text)
		} else if named++; named <= maxNamedSenders {
			lines = append(lines, "got mail from "+m.From)
		}
	}
	if more := named - maxNamedSenders; more > 0 {
		lines = append(lines, fmt.Sprintf("got mail from %d more", more))
	}
	return strings.Join(lines, "\n")
}

// encode returns JSON without escapes for HTML. Its values always marshal.
func encode(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return string(bytes.TrimSpace(b.Bytes()))
}

package client

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/axebus/axe/subjects"
)

// Parting is a place at which two trees part: their conversations are the same
// before it.
type Parting struct {
	Path subjects.Path `json:"path"`
	// A and B are the first messages that differ. One of them is nil if the
	// conversation of its tree ends before.
	A *Message `json:"a"`
	B *Message `json:"b"`
}

// Compare returns the places at which two trees part. It compares the
// conversations of the roots, message by message, without times, workers,
// models and tokens. Where the results of a call differ it goes on with the
// conversations of the runs that the call made. So a parting is where a
// difference begins: its consequences are left out. There are several if
// calls of one turn differ.
func Compare(a, b *Snapshot) []Parting {
	c := comparison{conversationsOf(a), conversationsOf(b)}
	return c.run(subjects.Root)
}

// comparison has the conversations of two trees by path.
type comparison struct{ a, b map[subjects.Path][]Message }

// run compares the conversations of one run.
func (c comparison) run(path subjects.Path) (all []Parting) {
	a, b := c.a[path], c.b[path]
	for i := range max(len(a), len(b)) {
		x, y := at(a, i), at(b, i)
		ends := x == nil || y == nil
		if !ends && x.sameAs(*y) {
			continue
		}
		if ends || x.Role != RoleResult || y.Role != RoleResult || x.From != y.From {
			if len(all) == 0 {
				all = append(all, Parting{path, x, y})
			}
			return all
		}
		below, err := subjects.ParsePath(x.From)
		var deeper []Parting
		if err == nil {
			deeper = c.run(below)
		}
		if len(deeper) == 0 {
			deeper = []Parting{{path, x, y}}
		}
		all = append(all, deeper...)
	}
	return all
}

func at(ms []Message, i int) *Message {
	if i < len(ms) {
		return &ms[i]
	}
	return nil
}

// conversationsOf returns the conversations of a tree by path. The order of a
// turn's results is that of its calls: they may arrive in any order, and mail
// may arrive between them.
func conversationsOf(s *Snapshot) map[subjects.Path][]Message {
	var cs Conversations
	all := map[subjects.Path][]Message{}
	turns := map[subjects.Path]int{}
	for _, e := range s.Events {
		for _, m := range cs.Messages(e) {
			path := m.Run.Path
			if m.Role == RoleNote {
				continue // it follows from the times
			}
			if m.Turn == 0 {
				m.Turn = turns[path]
			}
			turns[path] = max(turns[path], m.Turn)
			all[path] = append(all[path], m)
		}
	}
	for _, ms := range all {
		slices.SortStableFunc(ms, func(a, b Message) int { return cmp.Compare(a.Turn, b.Turn) })
		sortArrivals(ms)
	}
	return all
}

// sortArrivals sorts the results and the mail of each turn among the places
// that they have: the results by their calls, and then the mail.
func sortArrivals(ms []Message) {
	arrived := func(m Message) bool { return m.Role == RoleResult || m.Role == RoleMail }
	byTurn := map[int][]Message{}
	for _, m := range ms {
		if arrived(m) {
			byTurn[m.Turn] = append(byTurn[m.Turn], m)
		}
	}
	for _, all := range byTurn {
		slices.SortStableFunc(all, func(a, b Message) int {
			if a.Role != b.Role {
				return cmp.Compare(b.Role, a.Role) // "result", then "mail"
			}
			if a.Role == RoleMail {
				return 0
			}
			x, _ := subjects.ParsePath(a.From)
			y, _ := subjects.ParsePath(b.From)
			return ComparePaths(x, y)
		})
	}
	for i, m := range ms {
		if arrived(m) {
			ms[i], byTurn[m.Turn] = byTurn[m.Turn][0], byTurn[m.Turn][1:]
		}
	}
}

// sameAs reports whether two messages say the same.
func (m Message) sameAs(o Message) bool {
	return m.Role == o.Role && m.Turn == o.Turn && m.Text == o.Text && m.From == o.From && m.Name == o.Name &&
		m.Decision == o.Decision && m.Failed == o.Failed && m.Kind == o.Kind &&
		slices.EqualFunc(m.Calls, o.Calls, MessageCall.sameAs)
}

func (c MessageCall) sameAs(o MessageCall) bool {
	return c.Tool == o.Tool && c.Error == o.Error && slices.Equal(c.Paths, o.Paths) &&
		NormalJSON(c.Arguments) == NormalJSON(o.Arguments)
}

// NormalJSON returns a JSON text with sorted keys and without spaces. Numbers
// stay as they are written. It returns a text that is no JSON as it is.
func NormalJSON(text json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // a float64 has not all the digits of a whole number
	var v any
	if !json.Valid(text) || d.Decode(&v) != nil {
		return string(text)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return string(text)
	}
	return string(out)
}

// Package subjects is the grammar of subjects, headers, ids and names, and the
// only gate for tokens. An Agent, a Tree, a Path or a Key comes from a Parse
// function, or from values that came from one. So a value of these types,
// unless it is zero, is valid in a subject. No other package joins or splits a
// subject.
//
//	axe.submit.<agent>.<id>                          a submission
//	axe.run.<agent>.<tree>.<path>.call               the request to run
//	axe.run.<agent>.<tree>.<path>.tool               the request to run a tool
//	axe.run.<agent>.<tree>.<path>.log                the run's own record
//	axe.run.<agent>.<tree>.<path>.in.<turn>.<index>  a child's outcome
//	axe.run.<agent>.<tree>.<path>.in.timer.<turn>    the end of a turn's time
//	axe.run.<agent>.<tree>.<path>.in.mail.<key>      a message to the run
//	axe.run.<agent>.<tree>.<path>.in.interrupt.<key> a person's interrupt
//	axe.run.<agent>.<tree>.<path>.in.approve.<key>   a person's decision
//	axe.run.<agent>.<tree>.<path>.in.settle.<key>    a person's word on a tool
//	axe.run.<agent>.<tree>.<path>.in.returned.<key>  a worker's return
//	axe.run.<agent>.<tree>.<path>.due.<turn>         a turn's timer that fired
//	axe.run.<agent>.<tree>.<path>.cancel             the cancel message
//	axe.run.….cancel.by.<role>.<user>                its sender
//	axe.result.<agent>.<tree>                        the root's outcome
//	axe.timer.<agent>.<tree>.<path>.<turn>           a timer
//	axe.tally.<tree>.<path>                          the tally of a scope
//	axe.dead.<agent>.<tree>.<path>                   a dead letter
//	axe.live.run.…, axe.live.result.…                 the stored messages again
//	axe.live.part.<agent>.<tree>.<path>              progress, not stored
//	axe.worker.<worker>                              requests to a worker
//	axe.read.<tree>.…                                reads of one tree
//
// Submissions, and messages of people to a run, may end with the user that sent
// them: axe.submit.<agent>.<id>.by.<role>.<user> (By).
//
// The first token is configurable (Space). If trees are spread over several
// streams (Space.Spread), the number of the tree's partition follows the first
// token: axe.2.run.…. Submissions, live subjects, reads and those of workers
// have no such number.
package subjects

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrToken is wrapped by every error of a Parse function in this package.
var ErrToken = errors.New("malformed")

// Agent is the name of an agent: ^[a-z0-9][a-z0-9_-]{0,63}$.
type Agent struct{ s string }

// Tree is the id of a tree, which is its root's id: 1 to 64 of [A-Za-z0-9].
type Tree struct{ s string }

// Path is a run's place in its tree: r for the root, r-1-0 for the first call
// of its first turn.
type Path struct{ s string }

// Key names a message to a run: 1 to 600 of [A-Za-z0-9_-]. Two messages with
// the same key are the same message.
type Key struct{ s string }

// Worker is the name of a worker: 1 to 64 of [A-Za-z0-9_-].
type Worker struct{ s string }

// Root is the path of a tree's root.
var Root = Path{"r"}

const (
	maxToken = 64
	maxPath  = 512
	maxKey   = 600
)

// ParseAgent checks a name.
func ParseAgent(s string) (Agent, error) {
	bad := s == "" || len(s) > maxToken || s[0] == '-' || s[0] == '_'
	for i := range len(s) {
		bad = bad || !lower(s[i]) && !digit(s[i]) && s[i] != '_' && s[i] != '-'
	}
	if bad {
		return Agent{}, fmt.Errorf("agent name %s: %w: want a lower-case letter or digit, then up to 63 of a-z 0-9 _ -",
			quote(s), ErrToken)
	}
	return Agent{s}, nil
}

// ParseTree checks an id.
func ParseTree(s string) (Tree, error) {
	bad := s == "" || len(s) > maxToken
	for i := range len(s) {
		bad = bad || !lower(s[i]) && !digit(s[i]) && !upper(s[i])
	}
	if bad {
		return Tree{}, fmt.Errorf("tree id %s: %w: want 1 to 64 of A-Z a-z 0-9", quote(s), ErrToken)
	}
	return Tree{s}, nil
}

// ParsePath checks a path: r, then pairs of a turn (from 1) and an index (from
// 0).
func ParsePath(s string) (Path, error) {
	parts := strings.Split(s, "-")
	bad := parts[0] != "r" || len(parts)%2 == 0 || len(s) > maxPath
	for i, p := range parts[1:] {
		n, err := number(p)
		bad = bad || err != nil || i%2 == 0 && n == 0
	}
	if bad {
		return Path{}, fmt.Errorf("path %s: %w: want r, r-1-0, r-1-0-2-3 …", quote(s), ErrToken)
	}
	return Path{s}, nil
}

// ParseKey checks the key of a message to a run.
func ParseKey(s string) (Key, error) {
	if s == "" || len(s) > maxKey || strings.ContainsFunc(s, func(c rune) bool { return c > '~' || !word(byte(c)) }) {
		return Key{}, fmt.Errorf("key %s: %w: want 1 to %d of A-Z a-z 0-9 _ -", quote(s), ErrToken, maxKey)
	}
	return Key{s}, nil
}

// WorkerOf makes a worker's name of any text. It replaces each other character
// by "-", and cuts the text to 64 characters. Empty text gives "-".
func WorkerOf(s string) Worker {
	safe := strings.Map(func(r rune) rune {
		if r > '~' || !word(byte(r)) {
			return '-'
		}
		return r
	}, s)
	if safe == "" {
		safe = "-"
	}
	return Worker{safe[:min(len(safe), maxToken)]}
}

func (a Agent) String() string  { return a.s }
func (t Tree) String() string   { return t.s }
func (p Path) String() string   { return p.s }
func (k Key) String() string    { return k.s }
func (w Worker) String() string { return w.s }

// MarshalText returns the name. It makes an Agent a string in JSON.
func (a Agent) MarshalText() ([]byte, error) { return []byte(a.s), nil }

// MarshalText returns the id. It makes a Tree a string in JSON.
func (t Tree) MarshalText() ([]byte, error) { return []byte(t.s), nil }

// MarshalText returns the path. It makes a Path a string in JSON.
func (p Path) MarshalText() ([]byte, error) { return []byte(p.s), nil }

// UnmarshalText parses a name. An empty text is the zero Agent.
func (a *Agent) UnmarshalText(text []byte) error { return unmarshal(a, text, ParseAgent) }

// UnmarshalText parses an id. An empty text is the zero Tree.
func (t *Tree) UnmarshalText(text []byte) error { return unmarshal(t, text, ParseTree) }

// UnmarshalText parses a path. An empty text is the zero Path.
func (p *Path) UnmarshalText(text []byte) error { return unmarshal(p, text, ParsePath) }

func unmarshal[T any](into *T, text []byte, parse func(string) (T, error)) error {
	var v T
	if len(text) > 0 {
		var err error
		if v, err = parse(string(text)); err != nil {
			return err
		}
	}
	*into = v
	return nil
}

// IsZero reports whether a is the zero Agent.
func (a Agent) IsZero() bool { return a.s == "" }

// IsZero reports whether t is the zero Tree.
func (t Tree) IsZero() bool { return t.s == "" }

// IsZero reports whether p is the zero Path.
func (p Path) IsZero() bool { return p.s == "" }

// IsRoot reports whether p is a tree's root.
func (p Path) IsRoot() bool { return p == Root }

// Child is the path of the index-th call (from 0) of a turn (from 1).
func (p Path) Child(turn, index int) Path {
	return Path{p.s + "-" + strconv.Itoa(turn) + "-" + strconv.Itoa(index)}
}

// Parent returns the path above p, and the turn and index of p's call there; ok
// is false for the root.
func (p Path) Parent() (parent Path, turn, index int, ok bool) {
	i := strings.LastIndexByte(p.s, '-')
	if i < 0 {
		return Path{}, 0, 0, false
	}
	j := strings.LastIndexByte(p.s[:i], '-')
	turn, _ = strconv.Atoi(p.s[j+1 : i])
	index, _ = strconv.Atoi(p.s[i+1:])
	return Path{p.s[:j]}, turn, index, true
}

// MailKey is the key of the message that the run at p writes with the index-th
// call (from 0) of a turn (from 1).
func (p Path) MailKey(turn, index int) Key { return Key{p.Child(turn, index).s} }

// IdleKey is the key of the notice that the run at p is idle after a turn.
func (p Path) IdleKey(turn int) Key { return Key{p.s + idleMark + strconv.Itoa(turn)} }

const idleMark = "-idle"

// ParseIdleKey inverts IdleKey; ok is false for any other key.
func ParseIdleKey(key string) (p Path, turn int, ok bool) {
	before, after, _ := strings.Cut(key, idleMark)
	p, err := ParsePath(before)
	turn, turnErr := number(after)
	if err != nil || turnErr != nil || turn == 0 {
		return Path{}, 0, false
	}
	return p, turn, true
}

// ReturnKey is the key of the return of a delivery. Seq is the sequence of the
// message, and delivery the number of its delivery, from 1.
func ReturnKey(seq uint64, delivery int) Key {
	return Key{strconv.FormatUint(seq, 10) + "-" + strconv.Itoa(delivery)}
}

// ParseReturnKey inverts ReturnKey; ok is false for any other key.
func ParseReturnKey(key string) (seq uint64, delivery int, ok bool) {
	before, after, _ := strings.Cut(key, "-")
	seq, err := strconv.ParseUint(before, 10, 64)
	delivery, deliveryErr := number(after)
	if err != nil || deliveryErr != nil || delivery == 0 || ReturnKey(seq, delivery).s != key {
		return 0, 0, false
	}
	return seq, delivery, seq > 0
}

// IsRunName reports whether a mail's writer, given by name, is a run and not a
// person: the name is r, or it begins with r-. Such a name may still be no
// valid path.
func IsRunName(name string) bool { return name == Root.s || strings.HasPrefix(name, Root.s+"-") }

// Covers reports whether q is p or below it.
func (p Path) Covers(q Path) bool {
	return p == q || strings.HasPrefix(q.s, p.s) && q.s[len(p.s)] == '-'
}

// Depth is the number of calls between the root and p.
func (p Path) Depth() int { return strings.Count(p.s, "-") / 2 }

// number parses a decimal as strconv.Itoa writes it: no sign, no leading zero,
// at most nine digits.
func number(s string) (int, error) {
	if s == "" || len(s) > 9 || len(s) > 1 && s[0] == '0' {
		return 0, ErrToken
	}
	n := 0
	for i := range len(s) {
		if !digit(s[i]) {
			return 0, ErrToken
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, nil
}

// plain reports whether s is 1 to 64 of A-Z a-z 0-9 _ -.
func plain(s string) bool {
	for i := range len(s) {
		if !word(s[i]) {
			return false
		}
	}
	return s != "" && len(s) <= maxToken
}

func word(c byte) bool { return lower(c) || upper(c) || digit(c) || c == '_' || c == '-' }

// quote shows a token in an error without letting it flood the line.
func quote(s string) string {
	if len(s) > 80 {
		return strconv.Quote(s[:80]) + "…"
	}
	return strconv.Quote(s)
}

func lower(c byte) bool { return 'a' <= c && c <= 'z' }
func upper(c byte) bool { return 'A' <= c && c <= 'Z' }
func digit(c byte) bool { return '0' <= c && c <= '9' }

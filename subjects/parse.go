package subjects

import (
	"fmt"
	"strings"
)

// Kind is the use of a subject.
type Kind int

// The kinds of subjects.
const (
	Submission Kind = iota + 1
	Call
	Log
	// Reply is in.<turn>.<index>, the outcome of a child.
	Reply
	// Timer is in.timer.<turn>, a timer that fired.
	Timer
	// Mail is in.mail.<key>.
	Mail
	// Interrupt is in.interrupt.<key>.
	Interrupt
	// Approve is in.approve.<key>.
	Approve
	// Other is in.<kind>.<key> with a kind that this version does not know.
	Other
	Cancel
	Result
	Progress
)

// Address is a parsed subject.
type Address struct {
	Kind Kind
	// Run is the root for a Submission and a Result.
	Run Run
	// Turn is set for Reply and Timer.
	Turn int
	// Index is set for Reply.
	Index int
	// Key is set for Mail, Interrupt and Approve.
	Key Key
}

// Parse parses the subject of a stored message or of its live copy. It checks
// every token. The error wraps ErrToken.
func (s Space) Parse(subject string) (Address, error) {
	rest, p, ok := s.unprefixed(subject)
	if !ok {
		return Address{}, malformed(subject)
	}
	rest, live := strings.CutPrefix(rest, "live.")
	tok := strings.Split(rest, ".")
	if stored := !live && tok[0] != "submit"; stored != (p >= 0) && s.parts > 0 {
		return Address{}, malformed(subject)
	}
	a, err := s.parse(subject, tok, live)
	if err == nil && !s.in(p, a.Run.Tree) {
		return Address{}, malformed(subject)
	}
	return a, err
}

// in reports whether a tree is in partition p. It is true if p is -1.
func (s Space) in(p int, t Tree) bool { return p < 0 || p == s.PartitionOf(t) }

func (s Space) parse(subject string, tok []string, live bool) (Address, error) {
	switch {
	case tok[0] == "submit" && len(tok) == 3:
		return s.address(Submission, tok[1], tok[2], Root.s)
	case tok[0] == "result" && len(tok) == 3:
		return s.address(Result, tok[1], tok[2], Root.s)
	case live && tok[0] == "part" && len(tok) == 4:
		return s.address(Progress, tok[1], tok[2], tok[3])
	case tok[0] == "run" && len(tok) == 5 && tok[4] == "call":
		return s.address(Call, tok[1], tok[2], tok[3])
	case tok[0] == "run" && len(tok) == 5 && tok[4] == "log":
		return s.address(Log, tok[1], tok[2], tok[3])
	case tok[0] == "run" && len(tok) == 5 && tok[4] == "cancel":
		return s.address(Cancel, tok[1], tok[2], tok[3])
	case tok[0] == "run" && len(tok) == 7 && tok[4] == "in":
		return s.inbound(subject, tok)
	}
	return Address{}, malformed(subject)
}

// ParseDead parses the subject of a dead letter. The subject DeadSubmission
// belongs to no agent's run: its agent is "submit".
func (s Space) ParseDead(subject string) (Run, error) {
	rest, p, ok := s.below(subject, "dead")
	tok := strings.Split(rest, ".")
	if !ok || len(tok) != 3 {
		return Run{}, malformed(subject)
	}
	a, err := s.address(Other, tok[0], tok[1], tok[2])
	if err == nil && !s.in(p, a.Run.Tree) {
		err = malformed(subject)
	}
	return a.Run, err
}

// ParseTally parses the subject of a tally.
func (s Space) ParseTally(subject string) (Tree, Path, error) {
	rest, part, ok := s.below(subject, "tally")
	tree, path, two := strings.Cut(rest, ".")
	if !ok || !two {
		return Tree{}, Path{}, malformed(subject)
	}
	t, err := ParseTree(tree)
	if err != nil {
		return Tree{}, Path{}, err
	}
	p, err := ParsePath(path)
	if err == nil && !s.in(part, t) {
		err = malformed(subject)
	}
	return t, p, err
}

// below cuts the prefix, the partition and the kind off a stored subject. P is
// the partition, -1 if the space is not spread.
func (s Space) below(subject, kind string) (rest string, p int, ok bool) {
	rest, p, ok = s.unprefixed(subject)
	rest, of := strings.CutPrefix(rest, kind+".")
	return rest, p, ok && of && (p >= 0) == (s.parts > 0)
}

// ParseTimer parses the subject of a schedule.
func (s Space) ParseTimer(subject string) (r Run, turn int, err error) {
	rest, p, ok := s.below(subject, "timer")
	tok := strings.Split(rest, ".")
	if !ok || len(tok) != 4 {
		return Run{}, 0, malformed(subject)
	}
	if turn, err = number(tok[3]); err != nil {
		return Run{}, 0, malformed(subject)
	}
	a, err := s.address(Timer, tok[0], tok[1], tok[2])
	if err == nil && !s.in(p, a.Run.Tree) {
		err = malformed(subject)
	}
	return a.Run, turn, err
}

// keyed are the kinds of messages to a run that have a key chosen by the
// writer.
var keyed = map[string]Kind{"mail": Mail, "interrupt": Interrupt, "approve": Approve}

func (s Space) inbound(subject string, tok []string) (Address, error) {
	key, keyErr := number(tok[6])
	if kind, ok := keyed[tok[5]]; ok {
		k, err := ParseKey(tok[6])
		if err != nil {
			return Address{}, malformed(subject)
		}
		a, err := s.address(kind, tok[1], tok[2], tok[3])
		if err == nil {
			a.Key = k
		}
		return a, err
	}
	if tok[5] == "timer" {
		if keyErr != nil {
			return Address{}, malformed(subject)
		}
		a, err := s.address(Timer, tok[1], tok[2], tok[3])
		if err == nil {
			a.Turn = key
		}
		return a, err
	}
	turn, err := number(tok[5])
	if err != nil {
		if !plain(tok[5]) || !plain(tok[6]) {
			return Address{}, malformed(subject)
		}
		return s.address(Other, tok[1], tok[2], tok[3])
	}
	if keyErr != nil || turn == 0 {
		return Address{}, malformed(subject)
	}
	a, err := s.address(Reply, tok[1], tok[2], tok[3])
	if err == nil {
		a.Turn, a.Index = turn, key
	}
	return a, err
}

func (s Space) address(k Kind, agent, tree, path string) (Address, error) {
	a, err := ParseAgent(agent)
	if err != nil {
		return Address{}, err
	}
	t, err := ParseTree(tree)
	if err != nil {
		return Address{}, err
	}
	p, err := ParsePath(path)
	if err != nil {
		return Address{}, err
	}
	return Address{Kind: k, Run: s.Run(a, t, p)}, nil
}

// inboxPrefix begins every inbox of NATS.
const inboxPrefix = "_INBOX."

// CheckReply checks that an outcome may be published to a subject: a reply
// subject of a run, a result, or an inbox of NATS. With any other subject the
// author of a call could write anywhere with the rights of a worker.
func (s Space) CheckReply(subject string) error {
	if inbox(subject) {
		return nil
	}
	a, err := s.Parse(subject)
	if err != nil {
		return fmt.Errorf("reply subject: %w", err)
	}
	if a.Kind != Reply && a.Kind != Result || strings.HasPrefix(subject, s.join("live")) {
		return fmt.Errorf("reply subject %s: %w: want a reply slot of a run, a result or an inbox",
			quote(subject), ErrToken)
	}
	return nil
}

// maxInbox is the largest length of an inbox.
const maxInbox = 255

// inbox reports whether a subject is an inbox of NATS: tokens of printable
// ASCII, and no wildcard.
func inbox(subject string) bool {
	rest, ok := strings.CutPrefix(subject, inboxPrefix)
	if !ok || len(subject) > maxInbox {
		return false
	}
	for tok := range strings.SplitSeq(rest, ".") {
		bad := tok == ""
		for i := range len(tok) {
			bad = bad || tok[i] <= ' ' || tok[i] > '~' || tok[i] == '*' || tok[i] == '>'
		}
		if bad {
			return false
		}
	}
	return true
}

func malformed(subject string) error {
	return fmt.Errorf("subject %s: %w", quote(subject), ErrToken)
}

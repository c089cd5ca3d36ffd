package subjects

import (
	"fmt"
	"strings"
)

// Kind says what a subject is for.
type Kind int

// The kinds of subjects.
const (
	Submission Kind = iota + 1
	Call
	Log
	Reply     // in.<turn>.<index>
	Timer     // in.timer.<turn>, a timer that fired
	Mail      // in.mail.<key>
	Interrupt // in.interrupt.<key>
	Approve   // in.approve.<key>
	// in.<kind>.<key> of a kind that this version does not know
	Other
	Cancel
	Result
	Progress
)

// Address is a subject taken apart. Turn is set for Reply and Timer, Index for
// Reply, Key for Mail, Interrupt and Approve.
type Address struct {
	Kind Kind
	// of a Submission and a Result: the root
	Run   Run
	Turn  int
	Index int
	Key   Key
}

// Parse takes a subject apart, of a stored message or of its live copy. Every
// token is checked; an error wraps ErrToken.
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

// in reports whether a tree is in the partition that its subject names, if it
// names one.
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

// ParseDead takes the subject of a dead letter apart. That of a submission
// without a usable name or id is nobody's.
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

// ParseTally takes the subject of a tally apart.
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

// below cuts off all that a stored subject of a kind begins with; p is its
// partition, -1 if there are none.
func (s Space) below(subject, kind string) (rest string, p int, ok bool) {
	rest, p, ok = s.unprefixed(subject)
	rest, of := strings.CutPrefix(rest, kind+".")
	return rest, p, ok && of && (p >= 0) == (s.parts > 0)
}

// ParseTimer takes the subject of a schedule apart.
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

// keyed are the kinds of messages to a run whose writers name them.
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

// inboxPrefix begins every inbox.
const inboxPrefix = "_INBOX."

// CheckReply says whether an outcome may be published to a subject: a reply
// slot of a run, a result, or an inbox of NATS. Anything else would let a
// call's author write anywhere with a worker's rights.
func (s Space) CheckReply(subject string) error {
	if inbox(subject) {
		return nil
	}
	a, err := s.Parse(subject)
	if err != nil {
		return fmt.Errorf("reply subject: %w", err)
	}
	if a.Kind != Reply && a.Kind != Result || strings.HasPrefix(subject, s.join("live")) {
		return fmt.Errorf(
			"reply subject %s: %w: want a reply slot of a run, a result or an inbox",
			quote(subject),
			ErrToken,
		)
	}
	return nil
}

// maxInbox is the length of the longest inbox that is answered.
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

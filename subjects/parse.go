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
	// Tool is the call of a tool run: a run without a model.
	Tool
	Log
	// Reply is in.<turn>.<index>, the outcome of a child.
	Reply
	// Timer is in.timer.<turn>: the time of a turn's calls is over. With
	// turn 0 the timer of the run's own deadline fired, and a worker
	// decides whether its time has come.
	Timer
	// Due is due.<turn>: the timer of a turn fired. A worker decides
	// whether its time has come.
	Due
	// Mail is in.mail.<key>.
	Mail
	// Interrupt is in.interrupt.<key>.
	Interrupt
	// Approve is in.approve.<key>.
	Approve
	// Settle is in.settle.<key>.
	Settle
	// Returned is in.returned.<key>.
	Returned
	// Other is in.<kind>.<key> with a kind that this version does not know.
	Other
	Cancel
	// CancelBy is cancel.by.<role>.<user>: the record of the user that
	// sends the cancel message. The record itself cancels nothing.
	CancelBy
	Result
	Progress
)

// Begins reports whether a message of this kind is the call of a run.
func (k Kind) Begins() bool { return k == Call || k == Tool }

// Address is a parsed subject.
type Address struct {
	Kind Kind
	// Run is the root for a Submission and a Result.
	Run Run
	// Turn is set for Reply, Timer and Due.
	Turn int
	// Index is set for Reply.
	Index int
	// Key is set for Mail, Interrupt, Approve, Settle and Returned.
	Key Key
	// By is the sender, for a Submission, Mail, Interrupt, Approve, Settle,
	// CancelBy and Other. It is zero if the subject has none.
	By By
}

// AnyWorker reports whether every worker takes such messages, whatever its
// agents are: those that Submissions, RootEnds and DueTimers match.
func (a Address) AnyWorker() bool {
	ends := a.Kind == Cancel || a.Kind == Timer && a.Turn == 0
	return a.Kind == Submission || a.Kind == Due || ends && a.Run.Path.IsRoot()
}

// Parse parses the subject of a submission, of a run's message, of a result or
// of progress. It also parses the subjects under which stored messages are
// published again (Space.Live). It checks every token. The error wraps
// ErrToken. ParseTimer, ParseTally and ParseDead parse the other subjects.
func (s Space) Parse(subject string) (Address, error) {
	rest, p, ok := s.unprefixed(subject)
	rest, live := strings.CutPrefix(rest, "live.")
	tok, by, err := cutBy(strings.Split(rest, "."))
	hasPartition := !live && tok[0] != "submit"
	a, known := parseKind(tok, live)
	if !by.IsZero() {
		a.By = by
		a.Kind, known = signed[a.Kind]
	}
	if err != nil || !ok || !known || hasPartition != (p >= 0) && s.parts > 0 {
		return Address{}, malformed(subject)
	}
	path := Root.s
	if len(tok) > 3 {
		path = tok[3]
	}
	if a.Run, err = s.parseRun(tok[1], tok[2], path, p); err != nil {
		return Address{}, err
	}
	return a, nil
}

// parseKind parses all tokens of a subject but those of its run.
func parseKind(tok []string, live bool) (a Address, ok bool) {
	switch {
	case tok[0] == "submit" && len(tok) == 3:
		a.Kind = Submission
	case tok[0] == "result" && len(tok) == 3:
		a.Kind = Result
	case live && tok[0] == "part" && len(tok) == 4:
		a.Kind = Progress
	case tok[0] == "run" && len(tok) == 5:
		a.Kind = ofRun[tok[4]]
	case tok[0] == "run" && len(tok) == 6 && tok[4] == "due":
		turn, err := number(tok[5])
		return Address{Kind: Due, Turn: turn}, err == nil && turn > 0
	case tok[0] == "run" && len(tok) == 7 && tok[4] == "in":
		return parseInbound(tok[5], tok[6])
	}
	return a, a.Kind != 0
}

// ofRun are the kinds of messages with a subject of one token behind the run.
var ofRun = map[string]Kind{"call": Call, "tool": Tool, "log": Log, "cancel": Cancel}

// keyed are the kinds of messages to a run that have a key chosen by the
// writer.
var keyed = map[string]Kind{
	"mail": Mail, "interrupt": Interrupt, "approve": Approve, "settle": Settle, "returned": Returned,
}

// parseInbound parses the two tokens behind "in".
func parseInbound(what, last string) (a Address, ok bool) {
	if kind, ok := keyed[what]; ok {
		key, err := ParseKey(last)
		return Address{Kind: kind, Key: key}, err == nil
	}
	n, lastErr := number(last)
	if what == "timer" {
		return Address{Kind: Timer, Turn: n}, lastErr == nil
	}
	turn, err := number(what)
	if err != nil {
		return Address{Kind: Other}, plain(what) && plain(last)
	}
	return Address{Kind: Reply, Turn: turn, Index: n}, lastErr == nil && turn > 0
}

// ParseDead parses the subject of a dead letter. The subject DeadSubmission
// belongs to no agent's run: its agent is "submit".
func (s Space) ParseDead(subject string) (Run, error) {
	tok, p, ok := s.below(subject, "dead", 3)
	if !ok {
		return Run{}, malformed(subject)
	}
	return s.parseRun(tok[0], tok[1], tok[2], p)
}

// ParseTally parses the subject of a tally.
func (s Space) ParseTally(subject string) (Tree, Path, error) {
	tok, part, ok := s.below(subject, "tally", 2)
	if !ok {
		return Tree{}, Path{}, malformed(subject)
	}
	t, err := s.parseTree(tok[0], part)
	if err != nil {
		return Tree{}, Path{}, err
	}
	p, err := ParsePath(tok[1])
	return t, p, err
}

// ParseTimer parses the subject of a schedule.
func (s Space) ParseTimer(subject string) (r Run, turn int, err error) {
	tok, p, ok := s.below(subject, "timer", 4)
	if !ok {
		return Run{}, 0, malformed(subject)
	}
	if turn, err = number(tok[3]); err != nil {
		return Run{}, 0, malformed(subject)
	}
	r, err = s.parseRun(tok[0], tok[1], tok[2], p)
	return r, turn, err
}

// below cuts the prefix, the partition and the kind off a stored subject, and
// returns the n tokens behind them. P is the partition, -1 if the space is not
// spread.
func (s Space) below(subject, kind string, n int) (tok []string, p int, ok bool) {
	rest, p, ok := s.unprefixed(subject)
	rest, of := strings.CutPrefix(rest, kind+".")
	tok = strings.Split(rest, ".")
	return tok, p, ok && of && len(tok) == n && (p >= 0) == (s.parts > 0)
}

// ParseRun parses the tokens of the address of a run. The error says which one
// is malformed.
func (s Space) ParseRun(agent, tree, path string) (Run, error) {
	return s.parseRun(agent, tree, path, -1)
}

// parseRun parses the address of a run. Its tree must be in the partition,
// unless that is -1.
func (s Space) parseRun(agent, tree, path string, part int) (Run, error) {
	a, err := ParseAgent(agent)
	if err != nil {
		return Run{}, err
	}
	t, err := s.parseTree(tree, part)
	if err != nil {
		return Run{}, err
	}
	p, err := ParsePath(path)
	if err != nil {
		return Run{}, err
	}
	return s.Run(a, t, p), nil
}

// parseTree parses the id of a tree. It must be in partition p, unless that is
// -1.
func (s Space) parseTree(id string, p int) (Tree, error) {
	t, err := ParseTree(id)
	if err == nil && p >= 0 && p != s.PartitionOf(t) {
		return Tree{}, fmt.Errorf("tree id %s: %w: it is not in partition %d", quote(id), ErrToken, p)
	}
	return t, err
}

// InboxPrefix begins every inbox of NATS. A user may have inboxes that begin
// with _INBOX_USER.
const InboxPrefix = "_INBOX"

// Inboxes is the prefix of the inboxes of one user, without a dot at its end.
// It is empty for a name that cannot be part of a subject.
func Inboxes(user string) string {
	if !plain(user) {
		return ""
	}
	return InboxPrefix + "_" + user
}

// CheckReply checks that an outcome may be published to a subject: a reply
// subject of a run, a result, or an inbox of NATS. With any other subject the
// author of a call could write anywhere with the rights of a worker.
func (s Space) CheckReply(subject string) error {
	if IsInbox(subject) {
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

// IsInbox reports whether a subject is an inbox of NATS: tokens of printable
// ASCII, and no wildcard. The first token is _INBOX, or _INBOX_ and a user.
func IsInbox(subject string) bool {
	first, rest, ok := strings.Cut(subject, ".")
	user, own := strings.CutPrefix(first, InboxPrefix+"_")
	return ok && (first == InboxPrefix || own && plain(user)) && len(subject) <= maxInbox &&
		!strings.Contains("."+rest+".", "..") && // an empty token
		!strings.ContainsFunc(rest, func(c rune) bool { return c <= ' ' || c > '~' || c == '*' || c == '>' })
}

func malformed(subject string) error {
	return fmt.Errorf("subject %s: %w", quote(subject), ErrToken)
}

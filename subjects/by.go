package subjects

import (
	"encoding/json"
	"fmt"
	"strings"
)

// By is the user that sent a message, as the server has proven it. The subject
// of the message ends with by.<role>.<user>, and the permissions of a user let
// it publish no other such end. The zero By is that of a message without this
// end: its sender is not known.
//
// On a bus whose users have no permissions a By proves nothing.
type By struct{ role, user string }

// byMark stands before the role and the user.
const byMark = "by"

// anyBy stands for every user, in patterns.
var anyBy = By{anyToken, anyToken}

// ParseBy checks the name of a role and that of a user: 1 to 64 of A-Z a-z 0-9
// _ - each.
func ParseBy(role, user string) (By, error) {
	if !plain(role) || !plain(user) {
		return By{}, fmt.Errorf("user %s with the role %s: %w: want 1 to %d of A-Z a-z 0-9 _ - each",
			quote(user), quote(role), ErrToken, maxToken)
	}
	return By{role, user}, nil
}

// Role is the name of the role.
func (b By) Role() string { return b.role }

// User is the name of the user.
func (b By) User() string { return b.user }

// IsZero reports whether the sender is not known.
func (b By) IsZero() bool { return b == By{} }

// String is the user with its role, as in "alice (operator)". It is empty for
// the zero By.
func (b By) String() string {
	if b.IsZero() {
		return ""
	}
	return b.user + " (" + b.role + ")"
}

// On returns a subject that ends with b. The zero By returns the subject as it
// is.
func (b By) On(subject string) string {
	if b.IsZero() {
		return subject
	}
	return strings.Join([]string{subject, byMark, b.role, b.user}, ".")
}

// byJSON is a By in JSON.
type byJSON struct {
	Role string `json:"role"`
	User string `json:"user"`
}

// MarshalJSON returns an object with the role and the user.
func (b By) MarshalJSON() ([]byte, error) { return json.Marshal(byJSON{b.role, b.user}) }

// UnmarshalJSON parses what MarshalJSON returns. An object without both is the
// zero By.
func (b *By) UnmarshalJSON(text []byte) error {
	var v byJSON
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	if v == (byJSON{}) {
		*b = By{}
		return nil
	}
	parsed, err := ParseBy(v.Role, v.User)
	if err == nil {
		*b = parsed
	}
	return err
}

// cutBy cuts the end with a user off the tokens of a subject, if it has one. A
// submission has three tokens before it, and a message to a run five or seven.
func cutBy(tok []string) (rest []string, b By, err error) {
	n := len(tok) - 3
	if n != 3 && n != 5 && n != 7 || tok[n] != byMark || (n == 3) != (tok[0] == "submit") {
		return tok, By{}, nil
	}
	b, err = ParseBy(tok[n+1], tok[n+2])
	return tok[:n], b, err
}

// signed are the kinds of messages that may have a By, and the kinds that they
// then are.
var signed = map[Kind]Kind{
	Submission: Submission, Mail: Mail, Interrupt: Interrupt, Approve: Approve, Settle: Settle, Cancel: CancelBy,
	Other: Other,
}

// Pinned returns the user that permissions to publish pin: the first one that
// ends a pattern of a space. It is zero if they pin none.
func Pinned(s Space, publish []string) By {
	for _, pattern := range publish {
		tok := strings.Split(pattern, ".")
		n := len(tok) - 3
		if n < 0 || tok[n] != byMark || !strings.HasPrefix(pattern, s.Prefix()+".") {
			continue
		}
		if b, err := ParseBy(tok[n+1], tok[n+2]); err == nil {
			return b
		}
	}
	return By{}
}

// Unsigned returns a subject without the user at its end.
func Unsigned(subject string) string {
	tok := strings.Split(subject, ".")
	if n := len(tok) - 3; n > 0 && tok[n] == byMark {
		tok = tok[:n]
	}
	return strings.Join(tok, ".")
}

// UserInfo is the subject at which a server tells a user its permissions.
const UserInfo = "$SYS.REQ.USER.INFO"

// AnyUser returns a pattern for permissions that ends with any user of the same
// role, if it ends with one.
func AnyUser(pattern string) string {
	tok := strings.Split(pattern, ".")
	if n := len(tok) - 3; n > 0 && tok[n] == byMark {
		tok[n+2] = anyToken
	}
	return strings.Join(tok, ".")
}

// Approvers names users: those with a name, and those with a role. Without any
// entry it names every user, and the senders that are not known.
type Approvers []string

// The beginnings of an entry of Approvers.
const (
	approverUser = "user:"
	approverRole = "role:"
)

// ParseApprover checks an entry of Approvers: "user:NAME" or "role:NAME".
func ParseApprover(s string) error {
	for _, beginning := range []string{approverUser, approverRole} {
		if name, ok := strings.CutPrefix(s, beginning); ok && plain(name) {
			return nil
		}
	}
	return fmt.Errorf(`approver %s: %w: want "user:NAME" or "role:NAME"`, quote(s), ErrToken)
}

// Names reports whether a user is one of the approvers.
func (a Approvers) Names(b By) bool {
	for _, entry := range a {
		if !b.IsZero() && (entry == approverUser+b.user || entry == approverRole+b.role) {
			return true
		}
	}
	return len(a) == 0
}

// String lists the entries, as in "user:alice or role:operator".
func (a Approvers) String() string { return strings.Join(a, " or ") }

package roles

import (
	"slices"
	"strings"

	"github.com/axebus/axe/subjects"
)

// MayPublish reports whether the permissions let a user publish to a subject.
func (p Permissions) MayPublish(subject string) bool {
	return matchAny(p.Publish, subject) && !matchAny(p.DenyPublish, subject)
}

// MaySubscribe reports whether the permissions let a user subscribe to a
// subject or pattern.
func (p Permissions) MaySubscribe(subject string) bool { return matchAny(p.Subscribe, subject) }

func matchAny(patterns []string, subject string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, subject) })
}

// match reports whether a pattern covers a subject, or every subject of another
// pattern.
func match(pattern, subject string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range want {
		switch {
		case token == ">":
			return len(have) > i
		case i >= len(have), have[i] == ">", token != "*" && token != have[i]:
			return false
		}
	}
	return len(want) == len(have)
}

// Allowing returns the roles that let a user publish to a subject. The user at
// the end of a subject is left out.
func Allowing(s Scope, subject string) (all []Role) {
	for _, r := range All() {
		if r.Permissions(s).MayPublish(subjects.Unsigned(subject)) {
			all = append(all, r)
		}
	}
	return all
}

// OfViolation names the roles that have the subject of a server's violation,
// for the end of the error: "; roles that have it: observer". It is empty for
// any other error, and for a subject that no role has.
func OfViolation(err error) string {
	_, rest, _ := strings.Cut(err.Error(), `for Publish to "`)
	subject, _, ok := strings.Cut(rest, `"`)
	prefix, _, _ := strings.Cut(subject, ".")
	space, bad := subjects.NewSpace(prefix)
	if bad != nil {
		space = subjects.Space{} // the subject is one of NATS itself
	}
	var names []string
	for _, r := range Allowing(Scope{Space: space}, subject) {
		names = append(names, string(r))
	}
	if !ok || len(names) == 0 {
		return ""
	}
	return "; roles that have it: " + strings.Join(names, ", ")
}

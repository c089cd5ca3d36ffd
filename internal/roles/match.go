package roles

import (
	"slices"
	"strconv"
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
// any other error, and for a subject that no role has. The subject may be of a
// bus with any prefix, partitions and domain. A user may have one of the roles
// on a bus with another prefix. So the text names a stream or bucket that has
// not the default prefix.
func OfViolation(err error) string {
	_, rest, _ := strings.Cut(err.Error(), `for Publish to "`)
	subject, _, ok := strings.Cut(rest, `"`)
	if !ok {
		return ""
	}
	for _, s := range scopesOf(subject) {
		var names []string
		for _, r := range Allowing(s.Scope, subject) {
			names = append(names, string(r))
		}
		if len(names) > 0 {
			return "; roles " + s.of + "that have it: " + strings.Join(names, ", ")
		}
	}
	return ""
}

// guess is a bus to which a subject may belong.
type guess struct {
	Scope
	// of names a stream or bucket of the bus, for the text. It is "" if the
	// subject begins with the prefix, or if that is the default one.
	of string
}

// scopesOf returns the buses to which a subject may belong. A subject of NATS
// itself names a stream or a bucket, and with that the prefix of the bus.
func scopesOf(subject string) (all []guess) {
	tokens := strings.Split(subject, ".")
	if !strings.HasPrefix(subject, "$") {
		for i := 1; i < len(tokens); i++ {
			all = append(all, guess{Scope: Scope{Space: spaceOf(strings.Join(tokens[:i], "."), tokens[i])}})
		}
		return all
	}
	var domain string
	if tokens[0] == "$JS" && len(tokens) > 2 && tokens[2] == "API" {
		domain = tokens[1]
	}
	all = append(all, guess{Scope: Scope{Domain: domain}})
	for _, name := range tokens[1:] {
		name = strings.TrimPrefix(strings.TrimPrefix(name, "KV_"), "OBJ_")
		parts := strings.Split(name, "_")
		for i := 1; i < len(parts); i++ {
			space := spaceOf(strings.ToLower(strings.Join(parts[:i], "_")), parts[len(parts)-1])
			of := "for the bus of " + name + " "
			if space.Prefix() == (subjects.Space{}).Prefix() {
				of = ""
			}
			all = append(all, guess{Scope{Space: space, Domain: domain}, of})
		}
	}
	return all
}

// spaceOf returns the space of a prefix. It is spread if number is that of a
// partition, which has two digits at most.
func spaceOf(prefix, number string) subjects.Space {
	space, err := subjects.NewSpace(prefix)
	if err != nil {
		return subjects.Space{}
	}
	if n, err := strconv.ParseUint(number, 10, 8); err == nil && len(number) <= 2 {
		space = space.Spread(int(n) + 2)
	}
	return space
}

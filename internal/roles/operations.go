package roles

import (
	"slices"
	"strings"
)

// Operation is a use of a subject that a role may have or not.
type Operation struct {
	// Subscribe is true for a subscription, and false for a publish.
	Subscribe bool
	Subject   string
	// Allowed says whether the role has the subject.
	Allowed bool
}

// String is the operation in two words.
func (o Operation) String() string {
	if o.Subscribe {
		return "subscribe " + o.Subject
	}
	return "publish " + o.Subject
}

// Operations returns the operations that show whether a user has the
// permissions of a role, and no others: one for each subject of the role, one
// for each subject of every other role, and more that no role has.
func (r Role) Operations(s Scope) []Operation {
	own := r.Permissions(s)
	var all []Operation
	seen := map[Operation]bool{}
	add := func(o Operation) {
		if !seen[o] {
			seen[o] = true
			all = append(all, o)
		}
	}
	publish := func(pattern string) {
		subject := sample(pattern)
		add(Operation{false, subject, own.MayPublish(subject)})
	}
	subscribe := func(pattern string) { add(Operation{true, pattern, own.MaySubscribe(pattern)}) }
	for _, of := range append([]Role{r}, All()...) {
		p := of.Permissions(s)
		for _, pattern := range slices.Concat(p.Publish, p.DenyPublish) {
			publish(pattern)
		}
		for _, pattern := range p.Subscribe {
			subscribe(pattern)
		}
	}
	for _, name := range streamRequests {
		for _, stream := range append((&builder{Scope: s}).streams(), "OTHER") {
			publish("$JS.API." + strings.ReplaceAll(name, "{}", stream))
		}
	}
	for _, pattern := range noRole {
		publish(strings.ReplaceAll(pattern, "PREFIX", s.Space.Prefix()))
		subscribe(strings.ReplaceAll(pattern, "PREFIX", s.Space.Prefix()))
	}
	return all
}

// streamRequests are requests about a stream, most of which no role makes.
var streamRequests = []string{
	"STREAM.DELETE.{}", "STREAM.SNAPSHOT.{}", "STREAM.RESTORE.{}", "STREAM.MSG.DELETE.{}", "STREAM.PEER.REMOVE.{}",
	"STREAM.LEADER.STEPDOWN.{}", "CONSUMER.DURABLE.CREATE.{}.x", "CONSUMER.PAUSE.{}.x", "CONSUMER.UNPIN.{}.x",
	"CONSUMER.LEADER.STEPDOWN.{}.x", "STREAM.PURGE.{}", "STREAM.INFO.{}", "STREAM.CREATE.{}", "DIRECT.GET.{}",
}

// noRole are subjects of no role.
var noRole = []string{
	">", "*", "_INBOX.>", "_INBOX_somebody.>", "_INBOX_somebody.x", "$SYS.>", "$SYS.REQ.SERVER.PING", "$JS.>",
	"$KV.>", "$O.>", "$JS.EVENT.ADVISORY.>", "$SRV.PING", "PREFIX.>", "PREFIX.run.>", "PREFIX.result.>",
	"PREFIX.submit.x.x.by.operator.somebody", "PREFIX.run.x.x.x.in.approve.x.by.operator.somebody",
	"PREFIX.submit.>", "PREFIX.timer.>", "PREFIX.tally.>", "PREFIX.dead.>", "PREFIX.nothing", "orders.new",
	"$JS.API.STREAM.TEMPLATE.CREATE.x", "$JS.API.ACCOUNT.PURGE.x", "$JS.API.META.LEADER.STEPDOWN",
	"$JS.API.STREAM.CREATE.OTHER", "$JS.API.STREAM.UPDATE.OTHER",
}

// sample is a subject that a pattern matches.
func sample(pattern string) string {
	tokens := strings.Split(pattern, ".")
	for i, t := range tokens {
		if t == "*" || t == ">" {
			tokens[i] = "x"
		}
	}
	return strings.Join(tokens, ".")
}

// Package roles derives the permissions of users of the bus from the grammar of
// subjects that the programs use (subjects.Space). So a new subject of a method
// is a new permission of every role that has the method.
//
// A role has the subjects that its commands need, and no others. A test runs
// every command with the permissions of its role.
//
//	p := roles.Submitter.Permissions(roles.Scope{User: "ci", Agents: agents})
//	fmt.Println(p.Publish)
package roles

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/subjects"
)

// Role is a set of permissions.
type Role string

// The roles.
const (
	// Submitter submits tasks, and reads the trees that it knows the ids
	// of.
	Submitter Role = "submitter"
	// Observer reads all stored and live messages.
	Observer Role = "observer"
	// Operator reads everything, submits, and steers runs.
	Operator Role = "operator"
	// Worker carries out runs.
	Worker Role = "worker"
	// Provisioner makes streams and buckets, changes their settings, and
	// stores grants.
	Provisioner Role = "provisioner"
	// Archivist forgets trees, and moves them out and in.
	Archivist Role = "archivist"
	// Monitor reads the sizes of streams and consumers.
	Monitor Role = "monitor"
)

// All lists the roles.
func All() []Role {
	return []Role{Submitter, Observer, Operator, Worker, Provisioner, Archivist, Monitor}
}

// Does says in one line for what a role is.
func (r Role) Does() string {
	return map[Role]string{
		Submitter:   "submits tasks, and reads the trees that it knows the ids of",
		Observer:    "reads all stored and live messages",
		Operator:    "reads everything, submits, steers runs and ends them",
		Worker:      "carries out runs",
		Provisioner: "makes the streams and buckets, and changes their settings",
		Archivist:   "reads everything, forgets trees, and moves them out and in",
		Monitor:     "reads the sizes of streams and consumers, and no message",
	}[r]
}

// Parse returns the role of a name.
func Parse(name string) (Role, error) {
	if r := Role(name); slices.Contains(All(), r) {
		return r, nil
	}
	return "", fmt.Errorf("no role %q; the roles are %s", name, Names())
}

// Names lists the names of the roles, with commas between them.
func Names() string {
	var names []string
	for _, r := range All() {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}

// OfAgents reports whether a role may be bound to some agents.
func (r Role) OfAgents() bool { return r == Submitter || r == Worker }

// Scope is the bus and the user that permissions are for.
type Scope struct {
	// Space has the prefix and the number of partitions.
	Space subjects.Space
	// User is the name of the user. Its inboxes follow from it.
	User string
	// Agents bounds a submitter and a worker to some agents. Empty: all.
	Agents []subjects.Agent
	// Cancels lets a submitter cancel trees of its agents. It needs the id
	// of a tree for that, as for reading it.
	Cancels bool
	// Domain is the JetStream domain of the bus, through which clients of a
	// leaf node reach it. Empty: none.
	Domain string
}

// Permissions are the subjects that a user may publish to, and those that it
// may subscribe to. Denied subjects go before the others.
type Permissions struct {
	Publish, DenyPublish []string
	Subscribe            []string
	// Responds lets the user answer a request to it once, within
	// ResponseTime.
	Responds bool
}

// ResponseTime is the time in which a user may answer a request.
const ResponseTime = 5 * time.Second

// Permissions returns the permissions of a role.
func (r Role) Permissions(s Scope) Permissions {
	b := &builder{Scope: s, role: r}
	b.subscribe(subjects.Inboxes(s.User) + ".>")
	switch r {
	case Submitter:
		b.submitter()
	case Observer:
		b.read()
		b.status()
		b.traces()
		b.subscribe(s.Space.LiveAll())
	case Operator:
		b.read()
		b.status()
		b.subscribe(s.Space.LiveAll())
		b.operator()
	case Worker:
		b.worker()
	case Provisioner:
		b.provisioner()
	case Archivist:
		b.read()
		b.status()
		b.archivist()
	case Monitor:
		b.monitor()
	}
	return b.p
}

// builder collects permissions.
type builder struct {
	Scope
	role Role
	p    Permissions
}

func (b *builder) publish(all ...string) {
	b.p.Publish = append(b.p.Publish, all...)
	if b.Domain == "" {
		return
	}
	for _, s := range all {
		if request, ok := strings.CutPrefix(s, "$JS.API."); ok {
			b.p.Publish = append(b.p.Publish, "$JS."+b.Domain+".API."+request)
		} else if strings.HasPrefix(s, "$KV.") {
			b.p.Publish = append(b.p.Publish, "$JS."+b.Domain+".API."+s)
		}
	}
}

// signed permits messages of a person: with the user of the scope at the end of
// the subject, and without it.
func (b *builder) signed(all ...string) {
	by, err := subjects.ParseBy(string(b.role), b.User)
	// A user without a JWT asks the server for its name.
	b.publish(subjects.UserInfo)
	for _, s := range all {
		b.publish(s)
		if err == nil {
			b.publish(by.On(s))
		}
	}
}

func (b *builder) subscribe(all ...string) { b.p.Subscribe = append(b.p.Subscribe, all...) }

// api permits requests to the JetStream API, each about a stream.
func (b *builder) api(stream string, requests ...string) {
	for _, r := range requests {
		before, after, _ := strings.Cut(r, " ")
		b.publish(strings.TrimSuffix("$JS.API."+before+"."+stream+"."+after, "."))
	}
}

// runs are the streams of runs.
func (b *builder) runs() (names []string) {
	for p := range b.Space.Partitions() {
		names = append(names, b.Space.Stream(p).Name)
	}
	return names
}

func (b *builder) submissions() string { return b.Space.Name("SUBMIT") }

func (b *builder) objects() string { return "OBJ_" + b.Space.Name("OBJECTS") }

func (b *builder) bucket(name string) string { return "KV_" + b.Space.Name(name) }

// buckets are the streams behind the buckets.
func (b *builder) buckets() (names []string) {
	for _, name := range []string{"AGENTS", "WORKERS", "ACTIVE", "LIMITS", "MEMORY"} {
		names = append(names, b.bucket(name))
	}
	return names
}

// streams are all streams.
func (b *builder) streams() []string {
	return slices.Concat(b.runs(), []string{b.submissions(), b.objects()}, b.buckets())
}

// key is the subject of keys of a bucket.
func (b *builder) key(bucket, key string) string { return "$KV." + b.Space.Name(bucket) + "." + key }

// patterns are the runs of the scope's agents.
func (b *builder) patterns() (all []subjects.Run) {
	for _, a := range b.Agents {
		all = append(all, b.Space.Patterns(a))
	}
	if len(all) == 0 {
		all = append(all, b.Space.Patterns(subjects.Agent{}))
	}
	return all
}

func (b *builder) submitter() {
	var submits []string
	for _, r := range b.patterns() {
		submits = append(submits, r.Submit())
		if b.Cancels {
			submits = append(submits, r.Root().Cancel())
		}
	}
	b.signed(submits...)
	b.publish(b.Space.TreeReads())
}

// read permits every read of stored messages, cards and workers' entries.
func (b *builder) read() {
	for _, s := range b.runs() {
		b.api(s, "STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET")
	}
	b.api(b.submissions(), "STREAM.INFO", "STREAM.MSG.GET")
	b.api(b.objects(), "STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET")
	b.api(b.bucket("AGENTS"), "STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET", "DIRECT.GET >")
	b.api(b.bucket("WORKERS"), "STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET")
}

// traces permits axe export otel its consumer.
func (b *builder) traces() {
	for _, s := range b.runs() {
		b.api(s, "CONSUMER.CREATE otel", "CONSUMER.INFO otel", "CONSUMER.MSG.NEXT otel")
		b.publish("$JS.ACK." + s + ".otel.>")
	}
}

// follow permits a watch of a bucket, by a consumer without a name.
func (b *builder) follow(bucket, keys string) {
	b.api(b.bucket(bucket), "CONSUMER.CREATE *."+b.key(bucket, keys), "CONSUMER.DELETE *")
	b.publish("$JS.FC." + b.bucket(bucket) + ".>")
}

func (b *builder) operator() {
	r := b.Space.Patterns(subjects.Agent{})
	root := r.Root()
	b.signed(
		r.Submit(), r.Cancel(), r.Approve(subjects.AnyKey), r.Mail(subjects.AnyKey), r.Interrupt(subjects.AnyKey),
		r.Settle(subjects.AnyKey),
	)
	b.publish(
		b.Space.Workers(),
		// A fork is a tree that a client begins by itself.
		root.Call(), root.Timer(0),
	)
	b.largeBodies()
	b.follow("AGENTS", ">")
	// axe gc removes old memory.
	b.api(b.bucket("MEMORY"), "STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET", "STREAM.PURGE")
}

// largeBodies permits the storing of bodies beyond the server's largest
// message.
func (b *builder) largeBodies() {
	b.publish("$O." + b.Space.Name("OBJECTS") + ".>")
	b.api(b.objects(), "DIRECT.GET >")
}

func (b *builder) worker() {
	b.read()
	b.largeBodies()
	b.follow("AGENTS", ">")
	b.api(b.bucket("ACTIVE"), "STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET")
	b.api(b.bucket("LIMITS"), "STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET",
		"CONSUMER.CREATE *."+b.key("LIMITS", "*"), "CONSUMER.INFO *", "CONSUMER.DELETE *", "CONSUMER.MSG.NEXT *")
	b.api(b.bucket("MEMORY"), "STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET")
	b.publish(b.key("ACTIVE", ">"), b.key("LIMITS", "*"), b.key("WORKERS", ">"))
	for _, r := range b.patterns() {
		b.publish(b.key("AGENTS", r.Agent.String()), b.key("MEMORY", r.Agent.String()+".*"))
	}
	b.consumers()
	b.messages()
	// The server names askers of other accounts so, by random tokens.
	b.publish(b.Space.Workers(), "_R_.>")
	b.p.Responds = true
	b.subscribe(
		b.Space.Workers(), b.Space.TreeReads(), b.key("ACTIVE", ">"),
		b.Space.Patterns(subjects.Agent{}).Progress(),
		b.Space.Live(b.Space.Patterns(subjects.Agent{}).Tally()),
	)
	for _, s := range b.Space.Interrupts() {
		b.subscribe(b.Space.Live(s))
	}
}

// consumers permits a worker its consumers.
func (b *builder) consumers() {
	b.api(b.submissions(), "CONSUMER.CREATE submissions", "CONSUMER.CREATE submissions."+b.Space.Submissions(),
		"CONSUMER.INFO submissions", "CONSUMER.MSG.NEXT submissions",
		// Workers remove submissions that were taken.
		"STREAM.PURGE")
	b.publish("$JS.ACK." + b.submissions() + ".submissions.>")
	for _, s := range b.runs() {
		names := []string{"roots", "timers", "activations"}
		for _, a := range b.Agents {
			names = append(names, "agent_"+a.String(), "agent_"+a.String()+"_in")
		}
		if len(b.Agents) == 0 {
			names = []string{"*"}
		}
		for _, name := range names {
			b.api(s, "CONSUMER.CREATE "+name, "CONSUMER.CREATE "+name+".>", "CONSUMER.INFO "+name,
				"CONSUMER.MSG.NEXT "+name)
			b.publish("$JS.ACK." + s + "." + name + ".>")
		}
		// The cancel messages are followed by a consumer without a
		// name.
		if len(b.Agents) > 0 {
			b.api(s, "CONSUMER.CREATE *."+b.Space.Cancels(), "CONSUMER.MSG.NEXT *")
		}
		b.api(s, "CONSUMER.NAMES", "CONSUMER.DELETE *")
	}
}

// messages permits a worker the messages that it writes.
func (b *builder) messages() {
	every := b.Space.Patterns(subjects.Agent{})
	root := every.Root()
	for _, r := range b.patterns() {
		b.publish(
			r.Log(), r.Cancel(), r.AnyTimer(), r.AnyFired(), r.Returned(subjects.AnyKey), r.Dead(), r.Progress(),
			r.Result(),
		)
	}
	b.publish(
		// To other runs: calls, the outcomes of calls, mail, and the
		// end.
		every.Call(), every.ToolCall(), every.AnyReply(), every.Mail(subjects.AnyKey), every.Cancel(),
		every.Tally(), every.Dead(),
		// Any worker takes submissions, and the timers of roots.
		every.AnyTimer(), every.Result(), every.AnyFired(), root.Returned(subjects.AnyKey),
	)
	// Persons decide, and not workers.
	b.p.DenyPublish = append(b.p.DenyPublish,
		every.Approve(subjects.AnyKey), every.Settle(subjects.AnyKey), every.Interrupt(subjects.AnyKey))
}

func (b *builder) provisioner() {
	for _, s := range b.streams() {
		b.api(s, "STREAM.INFO", "STREAM.CREATE", "STREAM.UPDATE")
	}
	for _, s := range b.runs() {
		// A shorter age is refused while a running tree may take
		// longer.
		b.api(s, "STREAM.MSG.GET", "DIRECT.GET")
	}
	b.publish("$JS.API.INFO")
	// Grants of agents to the keys of workers. Only one that an account or
	// an operator has signed counts.
	b.api(b.bucket("AGENTS"), "DIRECT.GET")
	b.publish(b.key("AGENTS", "grant.*"))
}

func (b *builder) archivist() {
	for _, s := range append(b.runs(), b.submissions(), b.objects()) {
		b.api(s, "STREAM.PURGE")
	}
	for _, s := range b.runs() {
		// The stream says up to which message some are forgotten.
		b.api(s, "STREAM.UPDATE")
	}
	b.publish(b.Space.Runs(), b.Space.Results(), b.Space.Dead(), b.Space.Patterns(subjects.Agent{}).Tally())
	b.largeBodies()
}

func (b *builder) monitor() {
	b.status()
	b.publish("$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST")
	for _, s := range b.streams() {
		b.api(s, "CONSUMER.NAMES", "CONSUMER.INFO *")
	}
}

// status permits the reading of the sizes of streams and consumers.
func (b *builder) status() {
	b.publish("$JS.API.INFO")
	for _, s := range b.streams() {
		b.api(s, "STREAM.INFO", "CONSUMER.LIST")
	}
}

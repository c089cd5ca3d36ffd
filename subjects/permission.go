package subjects

import "strings"

// any is the wildcard of one token.
const anyToken = "*"

// AnyKey stands for every key, in patterns for permissions.
var AnyKey = Key{anyToken}

// Patterns stands for all runs of an agent. Its subjects are patterns for
// permissions. With the zero Agent it stands for all runs.
func (s Space) Patterns(a Agent) Run {
	if a.IsZero() {
		a = Agent{anyToken}
	}
	return Run{s, a, Tree{anyToken}, Path{anyToken}}
}

// Root returns the root of the run's tree. Of patterns it returns the pattern
// of the roots.
func (r Run) Root() Run {
	r.Path = Root
	return r
}

// AnyReply matches the outcomes of all calls of the run.
func (r Run) AnyReply() string { return r.join("run", "in", anyToken, anyToken) }

// AnyFired matches the messages of all timers that end a wait of the run.
func (r Run) AnyFired() string { return r.join("run", "in", "timer", anyToken) }

// AnyTimer matches all timers of the run.
func (r Run) AnyTimer() string { return r.join("timer", anyToken) }

// Result is the subject of the outcome of the run's tree.
func (r Run) Result() string { return r.Space.Result(r.Agent, r.Tree) }

// Submit is the subject of the submission of the run's tree.
func (r Run) Submit() string { return r.Space.Submit(r.Agent, r.Tree) }

// AnySubmit match the submission of the run's tree, of any sender.
func (r Run) AnySubmit() []string { return []string{r.Submit(), anyBy.On(r.Submit())} }

// Tally is the subject of the tally of the run.
func (r Run) Tally() string { return r.Space.Tally(r.Tree, r.Path) }

// Workers matches the requests to every worker.
func (s Space) Workers() string { return s.join("worker", anyToken) }

// noTree stands in place of a tree in a request that is about none.
const noTree = "_"

// ReadAPI is the prefix of the JetStream API for reads of one tree, with a dot
// at its end. With the zero Tree only the streams themselves can be read about.
// Any worker answers.
func (s Space) ReadAPI(t Tree) string {
	if t.IsZero() {
		t = Tree{noTree}
	}
	return s.join("read", t.s) + "."
}

// TreeReads matches the requests for reads of every tree.
func (s Space) TreeReads() string { return s.join("read", anyToken, ">") }

// ParseRead parses the subject of a request for a read: the tree, which is zero
// for none, and the subject of the JetStream API without its prefix.
func (s Space) ParseRead(subject string) (t Tree, api string, err error) {
	rest, ok := strings.CutPrefix(subject, s.join("read")+".")
	id, api, more := strings.Cut(rest, ".")
	if !ok || !more {
		return Tree{}, "", malformed(subject)
	}
	if id == noTree {
		return Tree{}, api, nil
	}
	t, err = ParseTree(id)
	return t, api, err
}

// TreeIn returns the tree of which a subject, or every subject that a filter
// matches, is; ok is false if there is none such. A submission is of the tree
// that it starts.
func (s Space) TreeIn(filter string) (t Tree, ok bool) {
	rest, p, ok := s.unprefixed(filter)
	tok := strings.Split(rest, ".")
	at := 2
	switch tok[0] {
	case "tally":
		at = 1
	case "run", "result", "timer", "dead", "submit":
	default:
		ok = false
	}
	if !ok || len(tok) <= at || strings.Contains(strings.Join(tok[:at], "."), ">") {
		return Tree{}, false
	}
	t, err := ParseTree(tok[at])
	if err != nil || s.parts > 0 && tok[0] != "submit" && p != s.PartitionOf(t) {
		return Tree{}, false
	}
	return t, true
}

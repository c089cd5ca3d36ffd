package run_test

import "github.com/axebus/axe/subjects"

// script lists the answers that the model of a run may give in a turn. The
// parameter redelivered says that the turn's trigger is a redelivery.
type script func(p subjects.Path, turn int, redelivered bool) []answer

// scenario is a tree and the faults that may happen to it.
type scenario struct {
	name string
	// the tree begins with a submission, and not with the root's call
	submitted bool
	script    script
	cancelAt  subjects.Path // the path that a person cancels
	lag       bool          // reads may come from replicas that lag
	// a run is poisoned when more deliveries of its trigger count than
	// this; 0: never
	poison  int
	workers int // in an exhaustive search; 0: 2
	// how often each event may happen
	may budget
}

// rules are switches. Each takes away one rule of the protocol.
type rules struct {
	anyOwner bool // act without being the owner
	noReread bool // acknowledge after a refused write
	noFence  bool // write without a fence
	noReply  bool // do not read the reply subject
	// under a call or a redelivered trigger, the first read may miss
	// messages of the run
	noLeader  bool
	noCancels bool // ignore cancel messages
	ackFirst  bool // acknowledge before the work
}

// final is an answer without calls. It ends the run.
var final = answer{}

// root makes a script of the root's answers. Its children answer at once.
func root(f func(turn int, redelivered bool) []answer) script {
	return func(p subjects.Path, turn int, redelivered bool) []answer {
		if p.IsRoot() {
			return f(turn, redelivered)
		}
		return []answer{final}
	}
}

// turns makes a script of the root's answers, followed by the final one.
func turns(answers ...answer) script {
	return root(func(turn int, _ bool) []answer {
		if turn <= len(answers) {
			return []answer{answers[turn-1]}
		}
		return []answer{final}
	})
}

// zombie makes a script of a root for a worker that outlives its lease. In turn
// 1 the model answers first, and again under a redelivered trigger. Later turns
// are final.
func zombie(first, again answer) script {
	return root(func(turn int, redelivered bool) []answer {
		switch {
		case turn > 1:
			return []answer{final}
		case redelivered:
			return []answer{again}
		}
		return []answer{first}
	})
}

// scenarios lists the trees and the faults that the tests search.
func scenarios() []scenario {
	leaf, one := turns(), answer{calls: 1}
	two := turns(answer{calls: 2})
	seq := turns(answer{calls: 2, sequential: true})
	// Turn 1 refuses both calls (bits 0 and 1), turn 2 the first one.
	unknown := turns(answer{calls: 2, refused: 3}, answer{calls: 2, refused: 1})
	either := root(func(turn int, _ bool) []answer {
		if turn == 1 {
			return []answer{one, final}
		}
		return []answer{final}
	})
	below := subjects.Root.Child(1, 0)
	nested := func(p subjects.Path, turn int, _ bool) []answer {
		if turn == 1 && (p.IsRoot() || p == below) {
			return []answer{one}
		}
		return []answer{final}
	}
	return []scenario{
		{name: "submit and leaf", submitted: true, script: leaf, lag: true, may: budget{crash: 1, redel: 1, lose: 1}},
		{
			name:      "submit, the deadline of the root",
			submitted: true,
			script:    turns(one),
			may:       budget{crash: 1, fire: 2},
		},
		{name: "leaf restart", script: leaf, may: budget{forget: 1}},
		{name: "two without a fault", script: two, lag: true, workers: 3},
		{name: "two crash and redelivery", script: two, may: budget{crash: 1, redel: 1}},
		{name: "two restart", script: two, may: budget{forget: 1}},
		{name: "two timer and redelivery", script: two, may: budget{fire: 1, redel: 1}},
		{name: "two poison", script: two, poison: 1, may: budget{crash: 1, redel: 1}},
		{name: "leaf poison and drains", script: leaf, poison: 1, may: budget{crash: 1, drain: 3}},
		{name: "two poison and drains", script: two, poison: 1, may: budget{crash: 1, redel: 1, drain: 2}},
		{name: "sequential crash and redelivery", script: seq, may: budget{crash: 1, redel: 1}},
		{name: "sequential timer and redelivery", script: seq, may: budget{fire: 1, redel: 1}},
		{name: "sequential cancel", script: seq, cancelAt: subjects.Root, may: budget{cancel: 1}},
		{name: "unknown agents crash and redelivery", script: unknown, may: budget{crash: 1, redel: 1}},
		{name: "zombie tools then final", script: zombie(one, final), workers: 3, may: budget{crash: 1, redel: 1}},
		{name: "zombie final then tools", script: zombie(final, one), workers: 3, may: budget{crash: 1, redel: 1}},
		{
			name:    "zombie tools then error",
			script:  zombie(one, answer{broken: true}),
			workers: 3,
			may:     budget{crash: 1, redel: 1},
		},
		{name: "zombie restart", script: either, workers: 3, may: budget{forget: 1}},
		{name: "two cancel root crash", script: two, cancelAt: subjects.Root, may: budget{cancel: 1, crash: 1}},
		{name: "cancel a zombie", script: either, cancelAt: subjects.Root, may: budget{cancel: 1, redel: 1}},
		{name: "nested without a fault", script: nested, lag: true},
		{name: "nested crash and redelivery", script: nested, may: budget{crash: 1, redel: 1}},
		{name: "nested cancel root", script: nested, cancelAt: subjects.Root, may: budget{cancel: 1}},
		{name: "nested cancel child redelivery", script: nested, cancelAt: below, may: budget{cancel: 1, redel: 1}},
		{name: "nested cancel and timer", script: nested, cancelAt: subjects.Root, may: budget{cancel: 1, fire: 1}},
	}
}

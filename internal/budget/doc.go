// Package budget counts the runs, model calls, tokens and tool runs that a tree
// uses, and refuses those beyond its budgets ([limits] in an agent's file).
//
// All runs of a scope share one tally on the bus. A message of a tally is
// stored only directly after the message that it was computed from. It contains
// the changes that one worker makes at the same time. The invariant: where a
// scope bounds runs, model calls or tool runs, its tally never shows fewer than
// the scope has used. A worker counts each of them before it begins. If
// the worker dies in between, they stay counted, so a bound on them may be
// reached early and is never passed.
//
// A run without a scope reads and writes no tally.
//
// The tokens of a request are reserved before it is sent: an estimate of its
// input, and the bound of its answer. So the requests in flight do not pass a
// bound together that each of them alone keeps. The bound is passed by what
// they use beyond their estimates, and by the answer of a request that is
// alone.
//
//	next, err := budget.Decode(last).Next().Reserve(scope.Budget, reservation, estimate, now)
package budget

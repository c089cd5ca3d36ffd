package run_test

import (
	"flag"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// effort is the value of -rapid.checks: 100, unless make sim sets more.
func effort(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSimProtocol walks at random through every scenario. A walk has four
// workers and more faults than the search. Its reads may lag, or its server may
// forget acknowledgements.
func TestSimProtocol(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { walk(t, s) })
		})
	}
}

// walk takes random steps until nothing more can happen. The faults of a
// scenario are bounded, so a walk ends by itself long before 3000 steps.
func walk(t *rapid.T, s scenario) {
	s.lag = rapid.Bool().Draw(t, "lagging reads")
	s.may.crash += 2
	s.may.redel += 2
	s.may.lose++
	s.may.drain += 2
	if !s.lag {
		s.may.forget = 2
	}
	w := newWorld(s, rules{}, 4)
	var way []step
	for range 3000 {
		steps := w.steps()
		if len(steps) == 0 {
			break
		}
		st := pick(t, steps)
		way = append(way, st)
		w.do(st)
		w.checkQuiescent()
		if w.bad != "" {
			t.Fatalf("%s\n%s", w.bad, explain(s, rules{}, 4, way))
		}
	}
	if len(w.steps()) > 0 {
		t.Fatalf("the walk has not ended after %d steps\n%s", len(way), explain(s, rules{}, 4, way))
	}
}

// pick draws a step. Faults are rarer than work.
func pick(t *rapid.T, steps []step) step {
	var work, faults []step
	for _, st := range steps {
		if st.fault() {
			faults = append(faults, st)
		} else {
			work = append(work, st)
		}
	}
	from := work
	if len(work) == 0 || len(faults) > 0 && rapid.IntRange(0, 15).Draw(t, "fault") == 15 {
		from = faults
	}
	return from[rapid.IntRange(0, len(from)-1).Draw(t, "step")]
}

// TestSimExhaustive visits every world of the small scenarios, and as many
// worlds of the larger ones as the effort allows.
func TestSimExhaustive(t *testing.T) {
	t.Parallel()
	limit := 20 * effort(t)
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			bad, way, states, whole := search(s, rules{}, limit)
			if bad != "" {
				t.Fatalf("%s\n%s", bad, explain(s, rules{}, max(2, s.workers), way))
			}
			t.Logf("%d worlds, all of them: %t", states, whole)
		})
	}
}

package run_test

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// effort is how many walks a test of the protocol takes: AXE_WALKS, or what rapid was told.
func effort(t *testing.T) int {
	t.Helper()
	if f := flag.Lookup("rapid.checks"); f != nil {
		if n, err := strconv.Atoi(f.Value.String()); err == nil {
			if s := os.Getenv("AXE_WALKS"); s == "" {
				return n
			}
		}
	}
	n, err := strconv.Atoi(os.Getenv("AXE_WALKS"))
	if err != nil {
		t.Fatalf("AXE_WALKS: %v", err)
	}
	return n
}

// TestSimProtocol walks through every scenario with four workers and more that may go wrong than in
// the search: lagging reads, or a server that forgets.
func TestSimProtocol(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { walk(t, s) })
		})
	}
}

func walk(t *rapid.T, s scenario) {
	s.lag = rapid.Bool().Draw(t, "lagging reads")
	s.may.crash += 2
	s.may.redel += 2
	s.may.lose++
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
		w.stuck()
		if w.bad != "" {
			t.Fatalf("%s\n%s", w.bad, explain(s, rules{}, 4, way))
		}
	}
	if len(w.steps()) > 0 {
		t.Fatalf("no end after %d steps\n%s", len(way), explain(s, rules{}, 4, way))
	}
}

// pick draws a step; faults come less often than work.
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

// TestSimExhaustive visits every world of the small scenarios, and of the larger ones as many as the
// effort allows.
func TestSimExhaustive(t *testing.T) {
	t.Parallel()
	limit := 40 * effort(t)
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

package client_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// spans returns the spans of each run of a tree, a line each: the path, and the
// kinds of those that took half a second, with their lengths in seconds. It
// checks that no time is left out.
func (h *harness) spans(tree string) (lines []string) {
	h.t.Helper()
	s, err := h.Snapshot(h.t.Context(), client.TreeID(tree))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range s.Runs() {
		parts := []string{r.Run.Path.String()}
		at := r.Called
		for _, p := range r.Spans {
			if !p.From.Equal(at) {
				h.t.Errorf("%s: a span begins at %s, want the end of the one before, %s", r.Run.Path, p.From, at)
			}
			if at = p.To; at.IsZero() {
				parts = append(parts, string(p.Kind))
				continue
			}
			if long := p.To.Sub(p.From); long >= time.Second/2 {
				parts = append(parts, fmt.Sprintf("%s %.0f", p.Kind, long.Seconds()))
			}
		}
		if !at.Equal(r.Ended) {
			h.t.Errorf("%s: the last span ends at %s, want the end of the run, %s", r.Run.Path, at, r.Ended)
		}
		lines = append(lines, strings.Join(parts, ", "))
	}
	return lines
}

// approved is the decision of a person to carry a turn out.
var approved = run.Approval{Approve: true}

// TestSpans: the spans of a run tell the time with the model from the time in
// the queue, and from the waits for runs, reviews and people.
func TestSpans(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		expect := func(tree string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, h.spans(tree)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tree, diff)
			}
		}
		h.slots = 1
		h.startWorker()
		h.submit("lead", "words", "lead")
		h.answers(client.TreeID("lead"), "together: echo: words 1")
		// One slot: one of the two children waits for the other.
		got := strings.Join(h.spans("lead"), "; ")
		first := "r, model 1, wait 3, model 1; r-1-0, model 2; r-1-2, queue 2, model 1"
		second := "r, model 1, wait 3, model 1; r-1-0, queue 1, model 2; r-1-2, model 1"
		if got != first && got != second {
			t.Errorf("spans %s, want %s or %s", got, first, second)
		}

		h.submit("guarded", "pay", "guarded")
		time.Sleep(10 * time.Second)
		expect("guarded", "r, wait 1, held", "r-1-1, model 1")
		held, err := h.HeldTurns(t.Context(), client.TreeID("guarded"))
		if err != nil || len(held) != 1 {
			t.Fatalf("held turns %v, %v; want one", held, err)
		}
		if err := h.Decide(t.Context(), client.TreeID("guarded"), subjects.Root, approved); err != nil {
			t.Fatal(err)
		}
		h.answers(client.TreeID("guarded"), "echo: pay")
		expect("guarded", "r, wait 1, held 9, wait 2", "r-1-0, model 2", "r-1-1, model 1")

		h.submit("slow", "x", "slow")
		time.Sleep(3 * time.Second)
		expect("slow", "r, model")
	})
}

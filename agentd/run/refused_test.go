package run_test

import (
	"slices"
	"testing"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

// TestRefusedOutcomes: a refused outcome moves the run no further. The state
// has its sequence until an entry of the log was written with it, and no more
// than MaxRefused.
func TestRefusedOutcomes(t *testing.T) {
	apply := func(s run.State, e run.Event) run.State {
		t.Helper()
		s, err := s.Apply(e)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	turn := func(seq uint64, index int, seen uint64) run.Event {
		return run.Answered{Meta: run.Meta{Seq: seq}, Entry: run.Entry{
			Index: index, Kind: run.EntryTurn, Trigger: seen, Seen: seen, Start: &run.Start{},
			Answer: &provider.Response{}, Calls: []run.Call{{Agent: "reader"}},
		}}
	}
	s := apply(run.State{}, run.Called{Meta: run.Meta{Seq: 1}})
	s = apply(s, turn(2, 1, 1))
	waiting := s
	s = apply(s, run.OutcomeRefused{Meta: run.Meta{Seq: 3}})
	if s.Phase != run.Awaiting || s.Pending() != 1 || s.Owner != waiting.Owner {
		t.Errorf("the run is %s with %d calls and the owner %d", s.Phase, s.Pending(), s.Owner)
	}
	s = apply(s, run.Replied{
		Meta: run.Meta{Seq: 4}, Turn: 1, Outcome: run.Outcome{Status: run.StatusCompleted, Path: "r-1-0"},
	})
	s = apply(s, run.OutcomeRefused{Meta: run.Meta{Seq: 5}})
	if !slices.Equal(s.Refused, []uint64{3, 5}) {
		t.Errorf("refused are %v, want 3 and 5", s.Refused)
	}
	if s = apply(s, turn(6, 2, 4)); !slices.Equal(s.Refused, []uint64{5}) {
		t.Errorf("refused are %v after an entry up to 4, want 5", s.Refused)
	}
	for seq := range uint64(2 * run.MaxRefused) {
		s = apply(s, run.OutcomeRefused{Meta: run.Meta{Seq: 10 + seq}})
	}
	if len(s.Refused) != run.MaxRefused {
		t.Errorf("%d are refused, want %d", len(s.Refused), run.MaxRefused)
	}
	for _, tt := range []struct {
		refused       []uint64
		counts, known bool
	}{{nil, true, true}, {[]uint64{3}, false, true}, {s.Refused, true, false}} {
		counts, known := run.Entry{Refused: tt.refused}.Counts(3)
		if counts != tt.counts || known != tt.known {
			t.Errorf("%d refused: counts %v, known %v", len(tt.refused), counts, known)
		}
	}
}

package run_test

import (
	"slices"
	"testing"

	"github.com/axebus/axe/agentd/run"
)

// TestReturnsAreBounded: a state has the returns of eight triggers at most, and
// counts any number of deliveries of each.
func TestReturnsAreBounded(t *testing.T) {
	t.Parallel()
	var s run.State
	seq := uint64(0)
	returned := func(trigger uint64, delivery int, cause run.ReturnCause) {
		t.Helper()
		seq++
		e := run.Returned{Meta: run.Meta{Seq: seq}, Trigger: trigger, Delivery: delivery}
		e.Cause, e.Error, e.Turn = cause, "no", 1
		if cause == run.ReturnUnused {
			e.Turn = 0
		}
		var err error
		if s, err = s.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	for delivery := 1; delivery <= 10_000; delivery++ {
		returned(1, delivery, run.ReturnDrained)
	}
	returned(1, 10_002, run.ReturnFailed)
	returned(1, 10_003, run.ReturnUnused)    // without a turn
	returned(1, 10_001, run.ReturnLeaseLost) // after its successors
	returned(1, 10_001, run.ReturnLeaseLost) // a second time
	returned(1, 9_000, run.ReturnLeaseLost)  // too late to tell
	got := s.Returns.Of(1)
	if got.Excused != 10_002 || got.Failed != 1 || got.Error != "no" || got.Delivery != 10_003 ||
		got.Last.Cause != run.ReturnFailed {
		t.Errorf("got %+v, want 10002 excused, 1 failed, 10003 as the newest delivery and a failed return as the last",
			got)
	}
	if n := s.Returns.Of(1).Counted(10_004, 10); n != 2 {
		t.Errorf("%d deliveries count, want 2: the failed one and the current one", n)
	}
	for trigger := uint64(2); trigger <= 9; trigger++ {
		returned(trigger, 1, run.ReturnDrained)
	}
	first, second, last := s.Returns.Of(1), s.Returns.Of(2), s.Returns.Of(9)
	if first.Counted(5, 10) != 5 || second.Counted(5, 10) != 4 || last.Counted(5, 10) != 4 {
		t.Errorf("of nine triggers the state has %+v, %+v … %+v, want no return of the first and one of each other",
			first, second, last)
	}
}

// TestBegunCounts: a delivery counts if its worker has begun and says no more. A
// word that follows takes the place of that. Of the deliveries without any word
// only some count.
func TestBegunCounts(t *testing.T) {
	t.Parallel()
	const doubt = 3
	var s run.State
	step := func(of int, cause run.ReturnCause, at, counted, uncounted int) {
		t.Helper()
		if cause != "" {
			e := run.Returned{Meta: run.Meta{Seq: s.Seq + 1}, Trigger: 1, Delivery: of}
			e.Cause = cause
			var err error
			if s, err = s.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		r := s.Returns.Of(1)
		if c, u := r.Counted(at, doubt), r.Uncounted(at, doubt); c != counted || u != uncounted {
			t.Errorf("after %q of %d: of %d deliveries %d count and %d do not, want %d and %d",
				cause, of, at, c, u, counted, uncounted)
		}
	}
	step(0, "", 3, 3, 0)
	step(0, "", 6, 4, 2)                 // five without a word
	step(6, run.ReturnBegun, 6, 4, 2)    // it is under way
	step(6, run.ReturnBegun, 7, 5, 2)    // its worker has died
	step(7, run.ReturnBegun, 7, 5, 2)    // it is under way
	step(7, run.ReturnFailed, 8, 6, 2)   // it counts once
	step(9, run.ReturnBegun, 10, 7, 3)   // nothing is known of the eighth
	step(8, run.ReturnBegun, 10, 8, 2)   // a late word
	step(8, run.ReturnDrained, 10, 7, 2) // and a later one
	step(8, run.ReturnBegun, 10, 7, 2)   // which stays
}

// TestReturnedIsOfADelivery: a delivery counts as returned after any return but
// a ReturnBegun, also when later deliveries have begun.
func TestReturnedIsOfADelivery(t *testing.T) {
	t.Parallel()
	var s run.State
	step := func(of int, cause run.ReturnCause, want ...int) {
		t.Helper()
		e := run.Returned{Meta: run.Meta{Seq: s.Seq + 1}, Trigger: 1, Delivery: of}
		e.Cause = cause
		var err error
		if s, err = s.Apply(e); err != nil {
			t.Fatal(err)
		}
		var got []int
		for delivery := range 100 {
			if s.Returns.Of(1).Returned(delivery) {
				got = append(got, delivery)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %q of %d: the deliveries %v are returned, want %v", cause, of, got, want)
		}
	}
	step(1, run.ReturnDrained, 1)
	step(2, run.ReturnBegun, 1)
	step(2, run.ReturnFailed, 1, 2)
	step(3, run.ReturnBegun, 1, 2)
	step(5, run.ReturnBegun, 1, 2)
	step(4, run.ReturnUnused, 1, 2, 4)
	step(65, run.ReturnLeaseLost, 2, 4, 65)
}

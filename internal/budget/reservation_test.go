package budget_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/axebus/axe/internal/budget"
	"github.com/axebus/axe/subjects"
)

// request is a request of a walk. Each request has a run of its own.
type request struct {
	by       subjects.Path
	estimate budget.Estimate
}

// path returns the path of the n-th run of a test.
func path(tb rapid.TB, n int) subjects.Path {
	p, err := subjects.ParsePath(fmt.Sprintf("r-1-%d", n))
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// TestReservations begins and ends requests at random. Each uses at most its
// estimate. So a tally exceeds its bound at most by the answer of one request,
// which was alone. A request waits only while others are in flight. The tally
// has one reservation for each request in flight.
func TestReservations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := subjects.Budget{Tokens: rapid.IntRange(1, 300).Draw(t, "tokens")}
		const largest = 100
		var tally budget.Tally
		inFlight := map[int]request{}
		for n := range rapid.IntRange(0, 80).Draw(t, "steps") {
			size := rapid.IntRange(0, largest)
			r := request{path(t, n), budget.Estimate{Input: size.Draw(t, "input"), Output: size.Draw(t, "output")}}
			own := budget.Reservation{By: r.by, Turn: 1, Until: deadline}
			next, err := tally.Reserve(bound, own, r.estimate, time.Time{})
			switch {
			case err == nil:
				tally = next
				inFlight[n] = r
			case errors.Is(err, budget.ErrFull) && len(inFlight) == 0:
				t.Fatalf("a request waits, and none is in flight: %+v", tally)
			}
			for _, k := range slices.Sorted(maps.Keys(inFlight)) {
				r := inFlight[k]
				if !rapid.Bool().Draw(t, "ends") {
					continue
				}
				used := rapid.IntRange(0, r.estimate.Input+r.estimate.Output).Draw(t, "used")
				tally, _ = tally.Next().Record(bound, budget.Grant{By: r.by, Turn: 1}, used, budget.Grant{})
				delete(inFlight, k)
			}
			if len(tally.Reserved) != len(inFlight) {
				t.Fatalf("%d reservations, want %d, one for each request in flight", len(tally.Reserved), len(inFlight))
			}
		}
		if tally.Tokens > bound.Tokens+largest {
			t.Fatalf("%+v exceeds the bound %+v by more than %d", tally, bound, largest)
		}
	})
}

// TestReservationOfATurnIsOne: a turn has one reservation, also if its request
// is made again. The reservation ends with its release, or at the deadline of
// its run. A second release stores nothing.
func TestReservationOfATurnIsOne(t *testing.T) {
	t.Parallel()
	bound := subjects.Budget{Tokens: 100}
	mine := budget.Reservation{By: path(t, 0), Turn: 1, Until: deadline}
	others := budget.Reservation{By: path(t, 1), Turn: 1, Until: deadline.Add(time.Hour)}
	e := budget.Estimate{Input: 20, Output: 40}
	reserve := func(tally budget.Tally, r budget.Reservation, now time.Time, want error) budget.Tally {
		t.Helper()
		next, err := tally.Reserve(bound, r, e, now)
		if !errors.Is(err, want) {
			t.Fatalf("got error %v, want %v", err, want)
		}
		return next
	}
	var began time.Time
	tally := reserve(budget.Tally{}, mine, began, nil)
	tally = reserve(tally, mine, began, nil)
	if len(tally.Reserved) != 1 || tally.Turns != 2 {
		t.Errorf("got %+v, want one reservation and two turns", tally)
	}
	reserve(tally, others, began, budget.ErrFull)
	reserve(tally, others, deadline, nil)
	released, stores := tally.Release(mine.By, mine.Turn, began)
	if !stores {
		t.Error("the first release stores nothing")
	}
	reserve(released, others, began, nil)
	if _, stores := released.Release(mine.By, mine.Turn, began); stores {
		t.Error("the second release stores something")
	}
}

// TestRequestAlone: a request that is alone needs room for its input only.
func TestRequestAlone(t *testing.T) {
	t.Parallel()
	bound := subjects.Budget{Tokens: 100}
	r := budget.Reservation{By: subjects.Root, Turn: 1, Until: deadline}
	tally := budget.Tally{Tokens: 60}
	if _, err := tally.Reserve(bound, r, budget.Estimate{Input: 40, Output: 8192}, time.Time{}); err != nil {
		t.Errorf("got error %v for a request whose input has room, want none", err)
	}
	_, err := tally.Reserve(bound, r, budget.Estimate{Input: 41}, time.Time{})
	const want = "budget exceeded: used 60 of 100 tokens, and the next request needs about 41"
	if err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
}

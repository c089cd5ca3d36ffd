package budget

import (
	"errors"
	"slices"
	"time"

	"github.com/axebus/axe/subjects"
)

// ErrFull reports that the requests in flight may use the tokens that a request
// needs. Once they have ended, there may be room for it.
var ErrFull = errors.New("the requests in flight may use all tokens that are left")

// Estimate is the number of tokens that a request is expected to use.
type Estimate struct{ Input, Output int }

// Reservation is the tokens that a request in flight is expected to use. It
// ends with the record of the answer, with the end of the run, or when the same
// turn is asked for again.
type Reservation struct {
	// By is the path of the run that makes the request.
	By subjects.Path `json:"by"`
	// Turn is the number of that run's turn, from 1.
	Turn   int `json:"turn"`
	Tokens int `json:"tokens"`
	// Until is the run's deadline. No request of the run outlives it, so
	// the reservation of a worker that died does not either.
	Until time.Time `json:"until"`
}

// Reserve counts a model call, and reserves the tokens of its estimate in a
// scope with a bound on tokens. The tally is unchanged after an error: an
// *ExceededError if a bound leaves no room, or ErrFull if there may be room
// later.
//
// A request that is alone in its scope needs room for its input only. A
// generous bound of the answer then refuses nothing.
func (t Tally) Reserve(b subjects.Budget, r Reservation, e Estimate, now time.Time) (Tally, error) {
	next := t.settle(r.By, r.Turn, now)
	used := t.Tokens + e.Input
	r.Tokens = e.Input + e.Output
	switch {
	case b.Tokens > 0 && t.Tokens >= b.Tokens:
		return t, &ExceededError{Used: t.Tokens, Limit: b.Tokens, Unit: "tokens"}
	case b.Tokens > 0 && used > b.Tokens:
		return t, &ExceededError{Used: t.Tokens, Limit: b.Tokens, Unit: "tokens", Needs: e.Input}
	case b.Turns > 0 && t.Turns >= b.Turns:
		return t, &ExceededError{Used: t.Turns, Limit: b.Turns, Unit: "turns"}
	case b.Tokens > 0 && len(next.Reserved) > 0 && t.Tokens+next.reserved()+r.Tokens > b.Tokens:
		return t, ErrFull
	}
	next.Turns++
	if b.Tokens > 0 {
		next.Reserved = append(next.Reserved, r)
	}
	return next, nil
}

// Release ends the reservation of a turn, and those of runs that are past their
// deadlines. Stores is false if there is none.
func (t Tally) Release(by subjects.Path, turn int, now time.Time) (_ Tally, stores bool) {
	next := t.settle(by, turn, now)
	return next, len(next.Reserved) < len(t.Reserved)
}

// settle drops the reservation of a turn, and those of runs that are past their
// deadlines.
func (t Tally) settle(by subjects.Path, turn int, now time.Time) Tally {
	t.Reserved = slices.DeleteFunc(slices.Clone(t.Reserved), func(r Reservation) bool {
		return r.By == by && r.Turn == turn || !now.Before(r.Until)
	})
	return t
}

// reserved returns the sum of the reservations.
func (t Tally) reserved() (tokens int) {
	for _, r := range t.Reserved {
		tokens += r.Tokens
	}
	return tokens
}

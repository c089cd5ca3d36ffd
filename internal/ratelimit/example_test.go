package ratelimit_test

import (
	"fmt"
	"time"

	"github.com/axebus/axe/internal/ratelimit"
)

// The limit is eight requests at a time. Another worker has five in flight.
// This worker has two in flight, and three more wait.
func ExampleState_Apply() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	stored := ratelimit.Decode([]byte(`{"holders":{"other":{"n":5,"until":"2026-03-01T12:00:25Z"}}}`))
	next, d := stored.Apply(ratelimit.Settings{Concurrent: 8}, ratelimit.Update{Worker: "mine", Held: 2, Want: 3}, now)
	fmt.Println(d.Granted, "may begin, the others wait for", d.Reason)
	fmt.Println("in flight here:", next.Holders["mine"].N)
	// Output:
	// 1 may begin, the others wait for max_concurrent
	// in flight here: 3
}

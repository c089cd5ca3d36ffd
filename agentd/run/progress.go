package run

import "time"

// Progress reports on a model call to watchers. It is published and not stored.
type Progress struct {
	// Event is ProgressAsking, ProgressRetrying, ProgressWaiting or
	// ProgressRunning.
	Event  string `json:"event"`
	Turn   int    `json:"turn"`
	Worker string `json:"worker"`
	// Again marks the reports that a worker with a redelivered trigger
	// repeats, for a worker that may still be asking for the same turn.
	Again bool `json:"again,omitzero"`
	// Attempt is the number of the current or the next request, 0 for the
	// first.
	Attempt int `json:"attempt,omitzero"`
	// Attempts is the largest number of requests, set with Attempt.
	Attempts int `json:"attempts,omitzero"`
	// Reason is the category of the provider's error, the rate limit that
	// the request waits for, or WaitingForBudget.
	Reason string `json:"reason,omitzero"`
	// Next is the time of the next request, for ProgressWaiting the
	// earliest time. It is zero if it is not known.
	Next time.Time `json:"next,omitzero"`
}

// The events of Progress.
const (
	// ProgressAsking: the model is being asked.
	ProgressAsking = "asking"
	// ProgressRetrying: a request has failed, and is made again after a
	// pause.
	ProgressRetrying = "retrying"
	// ProgressWaiting: a rate limit or the budget does not admit the
	// request yet.
	ProgressWaiting = "waiting"
	// ProgressRunning: a tool run carries out its tool.
	ProgressRunning = "running"
)

// WaitingForBudget is the reason of a request that waits until others in flight
// have left room in the budget.
const WaitingForBudget = "budget"

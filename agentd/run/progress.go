package run

import "time"

// Progress is what a worker says of a run's progress to who watches. It is told and
// not stored.
type Progress struct {
	Event  string `json:"event"` // PartAsking, PartRetrying or PartWaiting
	Turn   int    `json:"turn"`
	Worker string `json:"worker"`
	// it was told before, for whoever had the run then
	Again bool `json:"again,omitzero"`
	// the one that is made, or is to be; 0: the first
	Attempt int `json:"attempt,omitzero"`
	// that there may be, from the second on
	Attempts int `json:"attempts,omitzero"`
	// the category of the provider's error, or what is waited for
	Reason string `json:"reason,omitzero"`
	// when the attempt is to be; how long to wait at the least
	Next time.Time `json:"next,omitzero"`
}

// What a Part may tell.
const (
	ProgressAsking = "asking" // the model is being asked
	// it failed, and is asked again after a pause
	ProgressRetrying = "retrying"
	// it may not be asked yet: see ratelimit.Reason
	ProgressWaiting = "waiting"
)

package run

import "time"

// Part is what a worker says of a run's progress to who watches. It is told and not stored.
type Part struct {
	Event    string    `json:"event"` // PartAsking, PartRetrying or PartWaiting
	Turn     int       `json:"turn"`
	Worker   string    `json:"worker"`
	Again    bool      `json:"again,omitzero"`    // it was told before, for whoever had the run then
	Attempt  int       `json:"attempt,omitzero"`  // the one that is made, or is to be; 0: the first
	Attempts int       `json:"attempts,omitzero"` // that there may be, from the second on
	Reason   string    `json:"reason,omitzero"`   // the category of the provider's error, or what is waited for
	Next     time.Time `json:"next,omitzero"`     // when the attempt is to be; how long to wait at the least
}

// What a Part may tell.
const (
	PartAsking   = "asking"   // the model is being asked
	PartRetrying = "retrying" // it failed, and is asked again after a pause
	PartWaiting  = "waiting"  // it may not be asked yet: see limit.Reason
)

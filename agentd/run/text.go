package run

import (
	"fmt"
	"time"
)

// All texts of the core stand here. A model reads them in an outcome, and so do
// people. They are part of this package because outcomes with them are stored,
// and because a client shows them without the code of a worker.
const (
	// TextInterrupted is the text about work that an interrupt has stopped.
	TextInterrupted = "stopped by the user"
	// TextOverflow is the message to a run with a full inbox.
	TextOverflow = "Your inbox was full. Messages that came after this one were dropped, until you took some."

	textParentAnswered = "the run above it has answered"
	textParentEnded    = "the run above it was ended: "

	textSupervisorFailed = "the supervisor failed: "
	textNoVerdict        = "the supervisor gave no verdict"
	textLateVerdict      = "the supervisor did not answer in time"
	textCutArgument      = "An argument is too long for the supervisor to see all of it."

	textWithheld = "Nothing of this turn was carried out"
)

func textTimeout(allowed time.Duration) string {
	return fmt.Sprintf("timeout after %ds", int(allowed.Round(time.Second)/time.Second))
}

func textTurns(most int) string {
	return fmt.Sprintf("agent exceeded maximum conversation turns (%d)", most)
}

// textReoriented is the text of a turn that its supervisor corrects.
func textReoriented(correction string) string {
	return textWithheld + ". Your supervisor says: " + correction
}

// textUnattended is the text of a turn that its supervisor pauses without a
// person to decide.
func textUnattended(reason string) string {
	return textWithheld + ": your supervisor wants a person to look at it first, and nobody is there. " + reason
}

// textDenied is the text of a turn that a person denies.
func textDenied(reason string) string {
	if reason == "" {
		return textWithheld + ": it was denied"
	}
	return textWithheld + ": it was denied. " + reason
}

// textUnapproved is the text of a turn that no person approves of in time.
func textUnapproved(within time.Duration) string {
	return fmt.Sprintf("%s: nobody has approved of it within %ds", textWithheld, int(within/time.Second))
}

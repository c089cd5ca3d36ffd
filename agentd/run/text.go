package run

import (
	"fmt"
	"time"
)

// The texts about ends of runs and about withheld turns. Models and people read
// them in outcomes and conversations. They stand in this package because a
// client shows them without the code of a worker.
//
// Stored messages hold the texts, and the states of testdata/streams include
// them. So a text never changes, though it may not have the words of the
// glossary. Programs decide by Reason and Kind.
const (
	// TextInterrupted is the text about work that an interrupt has stopped.
	TextInterrupted = "stopped by the user"
	// TextOverflow is the message to a run with a full inbox.
	TextOverflow = "Your inbox was full. Messages that came after this one were dropped, until you took some."

	textParentAnswered = "the run above it has answered"
	// The text of the parent's end follows.
	textParentEnded = "the run above it was ended: "
	// The path of the killing run follows.
	textKilled = "killed by "

	// The name of a worker, seconds and the key of a call follow.
	textUnknown = "it may have taken effect: worker %s began it %ds ago and did not report (key %s). " +
		"Find out before you do it again."

	// The key of a call follows.
	textForgotten = "it may have taken effect: the server does not know its task any more (key %s). " +
		"Find out before you do it again."

	// The reasons of a pause that no verdict of the supervisor asked for.
	// textUnattended puts them after a full stop.

	// The error of the supervisor's run follows.
	textSupervisorFailed = "the supervisor failed: "
	textNoVerdict        = "the supervisor gave no verdict"
	textLateVerdict      = "the supervisor did not answer in time"
	textCutArgument      = "An argument is too long for the supervisor to see all of it."

	// textWithheld begins the texts of withheld turns.
	textWithheld = "Nothing of this turn was carried out"
)

// textTimeout is the text of a run that had the allowed time, rounded to whole
// seconds: to one if it had any.
func textTimeout(allowed time.Duration) string {
	seconds := int(allowed.Round(time.Second) / time.Second)
	if allowed > 0 {
		seconds = max(1, seconds)
	}
	return fmt.Sprintf("timeout after %ds", seconds)
}

// textTurns is the text of a run that wants more turns than it may take.
func textTurns(most int) string {
	return fmt.Sprintf("agent exceeded maximum conversation turns (%d)", most)
}

// textReoriented is the text of a turn that its supervisor corrects.
func textReoriented(correction string) string {
	return textWithheld + ". Your supervisor says: " + correction
}

// textUnattended is the text of a turn that its supervisor pauses for a person,
// though no person can answer the run.
func textUnattended(reason string) string {
	return textWithheld + ": your supervisor wants a person to look at it first, and nobody is there. " + reason
}

// textDenied is the text of a turn that a person denies. The reason is the
// person's, "" for none.
func textDenied(reason string) string {
	if reason == "" {
		return textWithheld + ": it was denied"
	}
	return textWithheld + ": it was denied. " + reason
}

// textSettledAsFailed is the text of a run that fails because a person has said
// so of a call that may have taken effect. The reason is the person's, "" for
// none.
func textSettledAsFailed(unknown, reason string) string {
	if reason == "" {
		return unknown + " A person has let the run fail."
	}
	return unknown + " A person has let the run fail: " + reason
}

// textUnapproved is the text of a turn that no person approves of within a
// time, cut to whole seconds.
func textUnapproved(within time.Duration) string {
	return fmt.Sprintf("%s: nobody has approved of it within %ds", textWithheld, int(within/time.Second))
}

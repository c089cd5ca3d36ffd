package tool

import (
	"cmp"
	"fmt"
	"time"

	"github.com/axebus/axe/agentd/run"
)

// NotPermitted is the error of a call of an agent that a policy forbids.
func NotPermitted(agent string) string {
	return fmt.Sprintf("agent %q is not permitted by policy", agent)
}

// NotFound is the error of a call of an agent that no worker serves.
func NotFound(agent string) string { return "agent config not found: " + agent }

// NotLoaded is the error of a call of an agent with a problem in its
// definition.
func NotLoaded(agent, problem string) string {
	return fmt.Sprintf("failed to load agent %q: %s", agent, problem)
}

// NoSupervisor is the error of a review by an agent that no worker serves, or
// that has a problem in its definition.
func NoSupervisor(agent, problem string) string {
	return fmt.Sprintf("the supervisor %s cannot be asked: %s", agent, cmp.Or(problem, "no worker serves it"))
}

// GivenUp is the error of a poisoned run: its trigger was delivered too often.
// The error says how the deliveries before the current one ended. The
// parameters are those of Returns.Counted.
func GivenUp(r run.Returns, deliveries, doubt int) string {
	text := fmt.Sprintf("given up after %d deliveries of the message that moves it: ", deliveries-1)
	unknown := r.Uncounted(deliveries, doubt)
	silent := max(0, deliveries-1-r.Failed-r.Excused-unknown)
	if r.Failed > 0 {
		text += fmt.Sprintf("%d failed (the last: %s)", r.Failed, r.Error)
	}
	if r.Failed > 0 && silent > 0 {
		text += ", "
	}
	if silent > 0 {
		text += fmt.Sprintf("%d ended without a word from their worker", silent)
	}
	if r.Excused > 0 {
		text += fmt.Sprintf("; %d that were handed on do not count", r.Excused)
	}
	if unknown > 0 {
		text += fmt.Sprintf("; %d whose worker may not have begun do not count", unknown)
	}
	return text
}

// Unsettled is the error of a tool run that reached its deadline before a
// person settled its call. The parameter unknown says that the call may have
// taken effect.
func Unsettled(timeout, unknown string) string {
	return timeout + ": no person has settled the call: " + unknown
}

// Unanswered is the error of a tool run that reached its deadline before a
// person answered its tool. The parameter question has the tool's question.
func Unanswered(timeout, question string) string {
	return timeout + ": no person has answered: " + question
}

// TaskExpired says that a server has not ended a task in the time for which it
// keeps the task.
func TaskExpired(ttl time.Duration) string {
	return fmt.Sprintf("the server keeps its task for %v only, and has not ended it", ttl)
}

// TaskCancelled is the error of a tool run whose task had not ended at the end
// of the wait. The parameter why says which wait ended. The parameter unreached
// is the error of the last poll, nil if the server answered.
func TaskCancelled(why string, unreached error) string {
	why += ": the task was cancelled, and may have taken effect"
	if unreached != nil {
		why += fmt.Sprintf(". The server could not be asked: %v", unreached)
	}
	return why
}

// NoPerson is the error of a call of a tool that asks for input where no person
// can answer.
func NoPerson(question string) string {
	return question + ": nobody can answer it here"
}

// Unapproved is the error of a run that reached its deadline before a person
// approved its turn.
func Unapproved(timeout string) string {
	return timeout + ": nobody had approved of what it was about to do"
}

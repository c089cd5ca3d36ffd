package tool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/axebus/axe/subjects"
)

// LastTurnNotice is the message of a run's last turn.
const LastTurnNotice = "This is your last turn. Answer now with what you have: what you found out, and what is missing."

// Guidance tells a run about itself and how to work with other runs. It is ""
// if the run has none of the tools for that. Slash are the names of the tools
// that the run uses by writing lines of text.
func Guidance(at subjects.Path, names, slash []string) string {
	names = slices.Concat(names, slash)
	if !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(mailNames, n) }) {
		return ""
	}
	parts := []string{"## Sub-agents", fmt.Sprintf("Your id is %s.", at)}
	if slices.Contains(names, ForkToolName) {
		parts = append(parts, howToFork)
	}
	if len(slash) > 0 {
		parts = append(parts, howToWrite(slash))
	}
	if parent, _, _, below := at.Parent(); below {
		parts[1] += fmt.Sprintf(" Your parent's id is %s.", parent)
		parts = append(parts, howToAnswer)
	}
	return strings.Join(parts, "\n\n")
}

const howToFork = "You can fork children that work beside you while you go on.\n\n" +
	"Fork when a task stands on its own, when several approaches are worth trying at once, " +
	"or when the work would fill your conversation with what you do not need. " +
	"Do it yourself when it is small, when you need the result for your next step, " +
	"or when it needs you all along.\n\n" +
	`A child tells you when it is done: {"status": "idle", "success": true, "summary": ...} ` +
	`or {"status": "idle", "success": false, "error": ..., "partial": ...}. ` +
	"Then it waits: send it more, or kill it. Keep track of the ids and of who does what. " +
	"Children that should talk to each other have to be told each other's ids. " +
	"Wait for their mail before you answer: " +
	"if somebody waits for your answer, your children are ended with it."

func howToWrite(names []string) string {
	forms := []string{
		"You do this by writing commands, each on a line of its own. " +
			"Their results come with the next message; a message without a command is your answer.",
		"",
	}
	for _, form := range formsOf(names) {
		forms = append(forms, "- "+form)
	}
	return strings.Join(forms, "\n")
}

const howToAnswer = "If you were forked: work on your task, and then answer with a summary " +
	"of what you did and found out. Your answer goes to your parent. " +
	`If you could not do it, answer with {"success": false, "error": ..., "partial": ...} alone.`

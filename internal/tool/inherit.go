package tool

import (
	"fmt"
	"slices"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// ForkNotice is the result of the fork call that a copy of the parent reads in
// its own conversation.
func ForkNotice(id, parent subjects.Path) string {
	return fmt.Sprintf("You are now the child %s, a copy of %s that knows its conversation until here. "+
		"It goes on without you. Do what you were forked for; your answer goes to it as mail.", id, parent)
}

// textForParent is the text that a copy reads in place of the results of its
// parent's other calls.
const textForParent = "This result goes to your parent."

// Inherited is the conversation that a copy inherits from the run at a path
// that forked it: up to the turn of the fork, with the results that are known
// at once. The fork's own result tells the copy that it is one, and the results
// of the other calls go to its parent. Before is the conversation that the
// forking run has inherited itself.
func Inherited(s run.State, at, child subjects.Path, before []provider.Message) []provider.Message {
	_, turn, index, _ := child.Parent()
	msgs := Continued(before, Conversation(at, s.Start().User, s.Turns[:turn-1]))
	t := s.Turns[turn-1]
	return append(msgs, exchange(t, results(t, func(i int) (text string, isError bool) {
		from, to := t.Entry.CallRange(i)
		switch c := t.Entry.Calls[from]; {
		case c.Failed():
			return c.Error, true
		case from <= index && index < to:
			return ForkNotice(child, at), false
		}
		return textForParent, false
	}))...)
}

// Continued joins a conversation to the one that it continues. A run without a
// task of its own, such as a copy of its parent, continues with its first
// answer.
func Continued(before, msgs []provider.Message) []provider.Message {
	if len(before) > 0 && msgs[0].Content == "" {
		msgs = msgs[1:]
	}
	return slices.Concat(before, msgs)
}

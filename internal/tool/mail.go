package tool

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// The names of the tools with which runs work beside each other and write to
// each other. They do the same as the slash commands of the same names (the
// document "Sub-Agent Tools"). Ids are paths.
const (
	ForkToolName      = "fork"
	SendToolName      = "send"
	CheckMailToolName = "check_mail"
	WaitToolName      = "wait"
	KillToolName      = "kill"
)

// mailNames are the names of mailTools.
var mailNames = []string{ForkToolName, SendToolName, CheckMailToolName, WaitToolName, KillToolName}

// mailTools defines fork, send, check_mail, wait and kill.
func mailTools() []provider.Tool {
	return []provider.Tool{
		{
			Name: ForkToolName,
			Description: "Create a child agent that works beside you, and go on at once. " +
				"It writes to you when it has done its task, and then waits for more from you. " +
				"The result is the child's id.",
			Parameters: map[string]provider.ToolParameter{
				"prompt": optional("The child's task; it knows nothing else. " +
					"Without one the child is a copy of you that knows your whole conversation"),
			},
		},
		{
			Name: SendToolName,
			Description: "Write a message to another agent whose id you know: a child, your parent, " +
				"or another child of it. One that is idle goes on with it.",
			Parameters: map[string]provider.ToolParameter{
				"to":      required("Id of the agent"),
				"message": required("What you have to say"),
			},
		},
		{
			Name:        CheckMailToolName,
			Description: "Take the messages that others have written to you, with the ids of who wrote them.",
			Parameters:  map[string]provider.ToolParameter{},
		},
		{
			Name: WaitToolName,
			Description: "Wait until there is mail, and take it. With ids, wait until each of these agents " +
				"has written, is idle or has ended; there is one result for each of them in your order: " +
				"received with its messages, running (when the time was over before it wrote), idle, or dead.",
			Parameters: map[string]provider.ToolParameter{
				"timeout": optional("Seconds to wait at the most"),
				"from": {
					Type:        "array",
					Description: "Ids of the agents whose mail you wait for; anybody's without",
					Schema:      json.RawMessage(`{"items":{"type":"string"}}`),
				},
			},
		},
		{
			Name:        KillToolName,
			Description: "End an agent below you, and all that work for it.",
			Parameters:  map[string]provider.ToolParameter{"id": required("Id of the agent")},
		},
	}
}

func (c Caller) fork(tc provider.ToolCall, _ Lookup) run.Call {
	call := run.Call{Op: run.OpFork, Agent: c.Agent, AdHoc: c.AdHoc}
	if prompt := tc.Arguments["prompt"]; strings.TrimSpace(prompt) != "" {
		call.Task = prompt
	}
	if why := c.tooDeep(); why != "" {
		return refused(tc, run.KindDepth, "%s", why)
	}
	if why := c.tooLarge(call); why != "" {
		return refused(tc, run.KindError, "%s", why)
	}
	return call
}

func (c Caller) checkMail(provider.ToolCall, Lookup) run.Call { return run.Call{Op: run.OpMail} }

func (c Caller) send(tc provider.ToolCall, l Lookup) run.Call {
	message := tc.Arguments["message"]
	to, peer, why := c.find(tc.Arguments["to"], "to", l)
	switch {
	case why != "":
	case to == c.Path:
		why = "you cannot write to yourself"
	case message == "":
		why = `"message" argument is required`
	case peer.Ended:
		why = hasEnded(to)
	case c.MaxBytes > 0 && len(message) > c.MaxBytes:
		why = fmt.Sprintf("the message is %d bytes, at most %d are passed on", len(message), c.MaxBytes)
	case !l.ReadsMail(to, peer):
		why = fmt.Sprintf("agent %q cannot read mail", to)
		if to.Covers(c.Path) {
			why += ": what you have for it is your answer"
		}
	}
	if why != "" {
		return refused(tc, run.KindError, "%s", why)
	}
	return run.Call{Op: run.OpSend, Agent: peer.Agent, To: to, Task: message}
}

func (c Caller) kill(tc provider.ToolCall, l Lookup) run.Call {
	id, peer, why := c.find(tc.Arguments["id"], "id", l)
	switch {
	case why != "":
	case id == c.Path:
		why = "you cannot kill yourself: answer, and you are done"
	case id.Covers(c.Path):
		why = fmt.Sprintf("agent %q is above you: only those above an agent may kill it", id)
	case !c.Path.Covers(id):
		why = fmt.Sprintf("agent %q is not below you: only those above an agent may kill it", id)
	case peer.Ended:
		why = hasEnded(id)
	}
	if why != "" {
		return refused(tc, run.KindError, "%s", why)
	}
	return run.Call{Op: run.OpKill, Agent: peer.Agent, To: id}
}

// maxPatience bounds the timeout of a wait, so that it fits a time.Duration.
const maxPatience = 1000 * time.Hour

func (c Caller) wait(tc provider.ToolCall, l Lookup) run.Call {
	call := run.Call{Op: run.OpWait}
	refuse := func(why string) run.Call { return refused(tc, run.KindError, "%s", why) }
	if text := tc.Arguments["timeout"]; text != "" {
		s, err := strconv.ParseFloat(text, 64)
		if err != nil || !(s > 0) {
			return refuse(fmt.Sprintf(`"timeout" argument: want a number of seconds above 0, not %q`, text))
		}
		call.Patience = time.Duration(min(s, maxPatience.Seconds()) * float64(time.Second))
	}
	ids, ok := parseIDs(tc.Arguments["from"])
	if !ok {
		return refuse(`"from" argument: want an array of ids`)
	}
	for _, id := range ids {
		from, peer, why := c.find(id, "from", l)
		switch {
		case why != "":
			return refuse(why)
		case from == c.Path:
			return refuse("you cannot wait for mail from yourself")
		case slices.Contains(call.From, from):
			continue
		case peer.Ended:
			call.Dead = append(call.Dead, from)
		}
		call.From = append(call.From, from)
	}
	return call
}

// parseIDs reads a list of ids: a JSON array, or ids separated by white space
// or commas. Ok is false if a JSON array is malformed.
func parseIDs(text string) (ids []string, ok bool) {
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		return ids, json.Unmarshal([]byte(text), &ids) == nil
	}
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' }), true
}

// find returns the run with an id, and its path. Argument is the name of the
// tool's argument that gave the id. The last result is the refusal, "" if there
// is such a run.
func (c Caller) find(id, argument string, l Lookup) (subjects.Path, Peer, string) {
	path, err := subjects.ParsePath(id)
	switch {
	case id == "":
		return path, Peer{}, fmt.Sprintf("%q argument is required", argument)
	case err == nil && path == c.Path:
		return path, Peer{}, ""
	case err == nil:
		if peer, ok := l.Run(path); ok {
			return path, peer, ""
		}
	}
	return path, Peer{}, fmt.Sprintf("there is no agent with the id %q", id)
}

func hasEnded(p subjects.Path) string { return fmt.Sprintf("agent %q has ended", p) }

// refuseConcurrentWaits refuses the waits for mail among the calls of a turn,
// if the turn waits for another call too. One wait could take the mail that
// another one waits for.
func refuseConcurrentWaits(calls []run.Call) {
	awaited := 0
	for _, c := range calls {
		if c.Awaited() {
			awaited++
		}
	}
	for i, c := range calls {
		if awaited > 1 && c.Op == run.OpWait && !c.Failed() {
			const why = WaitToolName + " error: nothing else that takes its time may be in the same turn"
			calls[i] = run.Call{Error: why, Kind: run.KindError}
		}
	}
}

package tool

import (
	"bytes"
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
// each other. What they do is that of the slash commands of the same names (the
// document "Sub-Agent Tools"); ids are paths.
const (
	ForkToolName      = "fork"
	SendToolName      = "send"
	CheckMailToolName = "check_mail"
	WaitToolName      = "wait"
	KillToolName      = "kill"
)

// mailNames are the names of MailTools.
var mailNames = []string{ForkToolName, SendToolName, CheckMailToolName, WaitToolName, KillToolName}

// MailTools defines fork, send, check_mail, wait and kill.
func MailTools() []provider.Tool {
	text := func(description string, required bool) provider.ToolParameter {
		return provider.ToolParameter{Type: "string", Description: description, Required: required}
	}
	return []provider.Tool{
		{
			Name: ForkToolName,
			Description: "Create a child agent that works beside you, and go on at once. It writes to you when it has done its task, and then waits for more from you. " +
				"The result is the child's id.",
			Parameters: map[string]provider.ToolParameter{
				"prompt": text(
					"The child's task; it knows nothing else. Without one the child is a copy of you that knows your whole conversation",
					false,
				),
			},
		},
		{
			Name:        SendToolName,
			Description: "Write a message to another agent whose id you know: a child, your parent, or another child of it. One that is idle goes on with it.",
			Parameters: map[string]provider.ToolParameter{
				"to":      text("Id of the agent", true),
				"message": text("What you have to say", true),
			},
		},
		{
			Name:        CheckMailToolName,
			Description: "Take the messages that others have written to you, with the ids of who wrote them.",
			Parameters:  map[string]provider.ToolParameter{},
		},
		{
			Name: WaitToolName,
			Description: "Wait until there is mail, and take it. With ids, wait until each of these agents has written, is idle or has ended; there is one result for each of them " +
				"in your order: received with its messages, running (when the time was over before it wrote), idle, or dead.",
			Parameters: map[string]provider.ToolParameter{
				"timeout": text("Seconds to wait at the most", false),
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
			Parameters:  map[string]provider.ToolParameter{"id": text("Id of the agent", true)},
		},
	}
}

// Peer is another run of the same tree.
type Peer struct {
	Agent string
	Ended bool
}

// mail decides on a call of one of MailTools.
func mail(tc provider.ToolCall, l Caller, k Known) run.Call {
	switch tc.Name {
	case ForkToolName:
		return fork(tc, l)
	case SendToolName:
		return send(tc, l, k)
	case WaitToolName:
		return wait(tc, l, k)
	case KillToolName:
		return kill(tc, l, k)
	}
	return run.Call{Op: run.OpMail}
}

func fork(tc provider.ToolCall, l Caller) run.Call {
	c := run.Call{Op: run.OpFork, Agent: l.Agent, AdHoc: l.AdHoc, Task: strings.TrimSpace(tc.Arguments["prompt"])}
	if c.Task != "" {
		c.Task = tc.Arguments["prompt"]
	}
	if l.Depth >= l.MaxDepth {
		return refused(tc, run.KindDepth, "%s", l.tooDeep())
	}
	if why := l.tooLarge(c); why != "" {
		return refused(tc, run.KindError, "%s", why)
	}
	return c
}

func send(tc provider.ToolCall, l Caller, k Known) run.Call {
	to, p, why := l.peer(tc.Arguments["to"], "to", k)
	switch {
	case why == "" && to == l.At:
		why = "you cannot write to yourself"
	case why == "" && tc.Arguments["message"] == "":
		why = `"message" argument is required`
	case why == "" && p.Ended:
		why = ended(to)
	case why == "" && l.MaxBytes > 0 && len(tc.Arguments["message"]) > l.MaxBytes:
		why = fmt.Sprintf(
			"the message is %d bytes, at most %d are passed on",
			len(tc.Arguments["message"]),
			l.MaxBytes,
		)
	case why == "" && k.Deaf(to, p):
		if why = fmt.Sprintf("agent %q cannot read mail", to); to.Covers(l.At) {
			why += ": what you have for it is your answer"
		}
	}
	if why != "" {
		return refused(tc, run.KindError, "%s", why)
	}
	return run.Call{Op: run.OpSend, Agent: p.Agent, To: to.String(), Task: tc.Arguments["message"]}
}

func kill(tc provider.ToolCall, l Caller, k Known) run.Call {
	id, p, why := l.peer(tc.Arguments["id"], "id", k)
	switch {
	case why != "":
	case id == l.At:
		why = "you cannot kill yourself: answer, and you are done"
	case id.Covers(l.At):
		why = fmt.Sprintf("agent %q is above you: only those above an agent may kill it", id)
	case !l.At.Covers(id):
		why = fmt.Sprintf("agent %q is not below you: only those above an agent may kill it", id)
	case p.Ended:
		why = ended(id)
	}
	if why != "" {
		return refused(tc, run.KindError, "%s", why)
	}
	return run.Call{Op: run.OpKill, Agent: p.Agent, To: id.String()}
}

func wait(tc provider.ToolCall, l Caller, k Known) run.Call {
	c := run.Call{Op: run.OpWait}
	refuse := func(why string) run.Call { return refused(tc, run.KindError, "%s", why) }
	if text := tc.Arguments["timeout"]; text != "" {
		s, err := strconv.ParseFloat(text, 64)
		if err != nil || !(s > 0) {
			return refuse(fmt.Sprintf(`"timeout" argument: want a number of seconds above 0, not %q`, text))
		}
		c.Patience = time.Duration(min(s, maxPatience.Seconds()) * float64(time.Second))
	}
	ids, ok := several(tc.Arguments["from"])
	if !ok {
		return refuse(`"from" argument: want an array of ids`)
	}
	for _, id := range ids {
		from, p, why := l.peer(id, "from", k)
		switch {
		case why != "":
			return refuse(why)
		case from == l.At:
			return refuse("you cannot wait for mail from yourself")
		case p.Ended:
			c.Dead = append(c.Dead, from.String())
		}
		c.From = append(c.From, from.String())
	}
	return c
}

// maxPatience is more than any run may wait.
const maxPatience = 1000 * time.Hour

// several reads a list of ids: a JSON array, or one id or several with blanks
// or commas between them.
func several(text string) (ids []string, ok bool) {
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		return ids, json.Unmarshal([]byte(text), &ids) == nil
	}
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' }), true
}

// peer finds the run of an id that an argument names; why says what is wrong
// with it, "" if nothing is.
func (l Caller) peer(id, argument string, k Known) (subjects.Path, Peer, string) {
	if id == "" {
		return subjects.Path{}, Peer{}, fmt.Sprintf("%q argument is required", argument)
	}
	unknown := fmt.Sprintf("there is no agent with the id %q", id)
	path, err := subjects.ParsePath(id)
	if err != nil {
		return path, Peer{}, unknown
	}
	if path == l.At {
		return path, Peer{}, ""
	}
	p, ok := k.Run(path)
	if !ok {
		return path, p, unknown
	}
	return path, p, ""
}

func ended(p subjects.Path) string { return fmt.Sprintf("agent %q has ended", p) }

// crowded refuses, of an answer's calls, to wait for mail beside others that
// are waited for: it could take theirs.
func crowded(calls []run.Call) {
	awaited := 0
	for _, c := range calls {
		if c.Awaited() {
			awaited++
		}
	}
	for i, c := range calls {
		if awaited > 1 && c.Op == run.OpWait && !c.Failed() {
			calls[i] = run.Call{
				Error: WaitToolName + " error: nothing else that takes its time may be in the same turn",
				Kind:  run.KindError,
			}
		}
	}
}

// done is the result of a call of one of MailTools that was carried out.
func done(t run.Turn, i int) string {
	c := t.Entry.Calls[i]
	switch c.Op {
	case run.OpFork:
		return c.To
	case run.OpSend:
		return "sent to " + c.To
	case run.OpKill:
		return "killed " + c.To
	case run.OpMail:
		return letters(of(t.Took, i))
	case run.OpWait:
		if len(c.From) == 0 {
			return letters(of(t.Took, i))
		}
		return found(c, of(t.Found, i), of(t.Took, i))
	case run.OpCall, run.OpReview:
	}
	return ""
}

// of is what a call has taken or found. A turn has none of it before it is
// carried out.
func of[T any](all [][]T, call int) []T {
	if call >= len(all) {
		return nil
	}
	return all[call]
}

// letter is one message as a model reads it.
type letter struct {
	From string `json:"from"`
	// text, or what a child tells when it has done its task
	Message json.RawMessage `json:"message"`
}

func letters(ms []run.Mail) string {
	if len(ms) == 0 {
		return "no mail"
	}
	all := make([]letter, len(ms))
	for i, m := range ms {
		all[i] = letterOf(m)
	}
	return encode(map[string]any{"messages": all})
}

func letterOf(m run.Mail) letter {
	switch {
	case m.Outcome != nil:
		return letter{m.From, json.RawMessage(encode(deathOf(*m.Outcome)))}
	case m.Idle:
		var c Completion
		if json.Unmarshal([]byte(m.Text), &c) == nil {
			return letter{m.From, json.RawMessage(encode(c))}
		}
	}
	return letter{m.From, json.RawMessage(encode(m.Text))}
}

// finding is what a wait tells of one of those that it waited for.
type finding struct {
	ID       string            `json:"id"`
	Status   run.PeerStatus    `json:"status"`
	Messages []json.RawMessage `json:"messages,omitempty"`
}

func found(c run.Call, stood []run.PeerStatus, took []run.Mail) string {
	all := make([]finding, len(c.From))
	for i, from := range c.From {
		all[i] = finding{ID: from, Status: run.PeerRunning}
		if i < len(stood) {
			all[i].Status = stood[i]
		}
		for _, m := range took {
			if m.From == from {
				all[i].Messages = append(all[i].Messages, letterOf(m).Message)
			}
		}
	}
	return encode(map[string]any{"agents": all})
}

// Completion is what a forked run tells when it has done its task (the
// structured completion message of the document "Sub-Agent Tools").
type Completion struct {
	// "idle", or "dead" of one that was ended
	Status  string `json:"status"`
	Success bool   `json:"success"`
	Summary string `json:"summary,omitzero"` // of a success
	Error   string `json:"error,omitzero"`
	Kind    string `json:"error_kind,omitzero"` // of a run that was ended
	// what there was before it failed
	Partial string `json:"partial,omitzero"`
}

// Completed is what a forked run tells of the last of its turns, an answer that
// calls nobody. One that knows that it has failed answers with the message
// itself.
func Completed(s run.State) Completion {
	last := s.Turns[len(s.Turns)-1].Entry
	if last.End != nil || len(last.Calls) > 0 {
		c := Completion{Status: string(run.PeerIdle), Error: run.TextInterrupted}
		if last.End != nil {
			c.Error = last.End.Text
		}
		if p := s.Partial(); p != nil {
			c.Partial = p.Text
		}
		return c
	}
	if c, ok := completion(last.Answer.Content); ok {
		return c
	}
	return Completion{Status: string(run.PeerIdle), Success: true, Summary: last.Answer.Content}
}

// completion reads an answer that is the message itself, in a fence perhaps.
// JSON of any other kind is just an answer.
func completion(text string) (c Completion, ok bool) {
	text = strings.TrimSpace(text)
	if fenced, open := strings.CutPrefix(text, "```"); open {
		_, fenced, _ = strings.Cut(fenced, "\n") // the language
		if fenced, open = strings.CutSuffix(fenced, "```"); !open {
			return c, false
		}
		text = strings.TrimSpace(fenced)
	}
	var told struct {
		Completion
		Success *bool `json:"success"`
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(&told) != nil || told.Success == nil || d.InputOffset() < int64(len(text)) {
		return c, false
	}
	c = told.Completion
	c.Status, c.Success = string(run.PeerIdle), *told.Success
	return c, true
}

// deathOf is what the parent of a forked run reads when that has ended.
func deathOf(o run.Outcome) Completion {
	c := Completion{
		Status:  string(run.PeerDead),
		Success: o.Status == run.StatusCompleted,
		Summary: o.Result,
		Error:   o.Error,
	}
	if !c.Success {
		c.Kind = string(KindOf(o.Kind))
	}
	if o.Partial != nil {
		c.Partial = o.Partial.Text
	}
	return c
}

// MailNotice is what a run that was idle is told of what has come for it.
func MailNotice(news []run.Mail) string {
	lines := make([]string, len(news))
	for i, m := range news {
		lines[i] = "got mail from " + m.From
		if m.Inline {
			lines[i] = m.Text
		}
	}
	return strings.Join(lines, "\n")
}

// ForkNotice is the result of its own fork as a copy of the parent reads it.
func ForkNotice(id, parent subjects.Path) string {
	return fmt.Sprintf(
		"You are now the child %s, a copy of %s that knows its conversation until here. It goes on without you. "+
			"Do what you were forked for; your answer goes to it as mail.",
		id,
		parent,
	)
}

// elsewhere is what a copy reads in place of the results that its parent waits
// for.
const elsewhere = "This result goes to your parent."

// Inherited is the conversation of a run until its n-th turn, as a copy that
// was forked in that turn is shown it. It ends with the results that are known
// at once: that it is a copy, and that what else the turn asked for is none of
// its. Before is what the run has inherited itself.
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
		return elsewhere, false
	}))...)
}

// Continued is a conversation with what came before it. One that had no task of
// its own, as a copy of its parent has none, goes on with its first answer.
func Continued(before, msgs []provider.Message) []provider.Message {
	if len(before) > 0 && msgs[0].Content == "" {
		msgs = msgs[1:]
	}
	return slices.Concat(before, msgs)
}

// Guidance is what a run is told of itself and of how to work with others, ""
// if it has none of the tools. Of these it uses some by writing lines of text.
func Guidance(at subjects.Path, names, written []string) string {
	names = slices.Concat(names, written)
	if !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(mailNames, n) }) {
		return ""
	}
	parts := []string{"## Sub-agents", fmt.Sprintf("Your id is %s.", at)}
	if slices.Contains(names, ForkToolName) {
		parts = append(parts, howToFork)
	}
	if len(written) > 0 {
		parts = append(parts, howToWrite(written))
	}
	if parent, _, _, below := at.Parent(); below {
		parts[1] += fmt.Sprintf(" Your parent's id is %s.", parent)
		parts = append(parts, howToAnswer)
	}
	return strings.Join(parts, "\n\n")
}

const howToFork = `You can fork children that work beside you while you go on.

Fork when a task stands on its own, when several approaches are worth trying at once, or when the work would fill your conversation with what you do not need. Do it yourself when it is small, when you need the result for your next step, or when it needs you all along.

A child tells you when it is done: {"status": "idle", "success": true, "summary": ...} or {"status": "idle", "success": false, "error": ..., "partial": ...}. Then it waits: send it more, or kill it. Keep track of the ids and of who does what. Children that should talk to each other have to be told each other's ids. Wait for their mail before you answer: if somebody waits for your answer, your children are ended with it.`

func howToWrite(names []string) string {
	forms := []string{
		"You do this by writing commands, each on a line of its own. Their results come with the next message; a message without a command is your answer.",
		"",
	}
	for _, f := range slashForms {
		if slices.Contains(names, toolOf(f.name)) {
			forms = append(forms, "- "+f.form)
		}
	}
	return strings.Join(forms, "\n")
}

const howToAnswer = `If you were forked: work on your task, and then answer with a summary of what you did and found out. Your answer goes to your parent. If you could not do it, answer with {"success": false, "error": ..., "partial": ...} alone.`

// encode is JSON without escapes for HTML. What is encoded here always can be.
func encode(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return string(bytes.TrimSpace(b.Bytes()))
}

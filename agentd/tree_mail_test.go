package agentd_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/axebus/axe/provider"
)

// mailTurn is the answer of treeModel for a run that is offered fork. It
// depends on the conversation alone. A forking run, in this order,
//
//  1. forks fan children with tasks that extend its own, and a copy of itself;
//  2. asks the first child to greet the second one, if there is one, and checks
//     its own mail;
//  3. waits until every fork has said all that is expected of it: the first
//     child that it was asked to greet, the second one that it was greeted, the
//     copy that it exists. It waits for the missing forks and for any mail, in
//     turn;
//  4. wakes the first child, which is idle now, and waits for its next answer;
//  5. kills the last child, and waits to be told that it is dead;
//  6. answers with the last answer of each fork.
//
// It gives up when a wait fails or times out.
//
// A copy checks its mail, where its parent's mail must not be, writes to its
// parent and answers.
func (m *treeModel) mailTurn(req *provider.Request) *provider.Response {
	p := readConversation(req)
	parent, _, isCopy := strings.Cut(p.label, "~")
	switch {
	case p.mailNotice:
		return toolTurn(use("check_mail"))
	case len(p.askedToGreet) > 0 && !p.sent["hi "+p.label]:
		return toolTurn(use("send", "to", p.askedToGreet[0], "message", "hi "+p.label))
	case isCopy && !p.sent["copy "+p.label]:
		return toolTurn(use("check_mail"), use("send", "to", parentID(req), "message", "copy "+p.label))
	case !isCopy && strings.Count(parent, ".") == m.forkDepth:
		return m.forkTurn(p)
	case !isCopy && (offers(req, "spawn_agents") || offers(req, "call_agent")) && !p.called && !m.isLeaf(p.label):
		// The agent to call stands in the first line of the system
		// text.
		agent, _, _ := strings.Cut(req.System, "\n")
		return m.delegate(req, agent, p.label, "acting")
	}
	return p.answer(p.callResults)
}

// forkTurn is the answer of a run that forks.
func (m *treeModel) forkTurn(p *mailMemory) *provider.Response {
	if !p.forked {
		var cs []provider.ToolCall
		for i := range m.fan {
			cs = append(cs, use("fork", "prompt", fmt.Sprintf("%s.%d", p.label, i)))
		}
		return toolTurn(append(cs, use("fork"))...)
	}
	first, last := p.forks[0], p.forks[m.fan-1]
	if m.fan > 1 && first != "" && p.forks[1] != "" && !p.sent["greet "+p.forks[1]] {
		return toolTurn(use("send", "to", first, "message", "greet "+p.forks[1]), use("check_mail"))
	}
	switch awaited := p.awaited(m.fan); {
	case p.waitFailed:
		return &provider.Response{Content: p.label + "(gave up)", Usage: turnUsage}
	case len(awaited) > 0 && p.waits%2 == 0:
		return toolTurn(m.waitCall(awaited...))
	case len(awaited) > 0:
		// A wait for a fork returns at once while the fork is idle. A
		// wait for any mail lets the others write.
		return toolTurn(m.waitCall())
	case !p.sent["again"] && !p.hasEnded(first):
		return toolTurn(use("send", "to", first, "message", "again"), m.waitCall(first))
	case !p.killed && last != "":
		return toolTurn(use("kill", "id", last), m.waitCall(last))
	}
	var parts []string
	for _, id := range p.forks {
		text := p.lastAnswer[id]
		if id == "" {
			text = "refused"
		}
		if copies := p.copies[id]; len(copies) > 0 {
			text += "<" + strings.Join(copies, ",") + ">"
		}
		parts = append(parts, text)
	}
	return p.answer(parts)
}

// waitCall is a call of wait for mail of the given runs, or for any mail.
func (m *treeModel) waitCall(from ...string) provider.ToolCall {
	if len(from) == 0 {
		return use("wait", "timeout", m.waitSeconds)
	}
	return use("wait", "timeout", m.waitSeconds, "from", from)
}

// forkedAnswer is the answer of an undisturbed run that forks. below makes the
// answer of a child, without the suffixes for the mail that the child got.
func (m *treeModel) forkedAnswer(label string, below func(label string) string) string {
	var parts []string
	for i := range m.fan {
		text := below(fmt.Sprintf("%s.%d", label, i))
		switch {
		case i == 0 && m.fan > 1:
			text += "+told+again"
		case i == 0:
			text += "+again"
		case i == 1:
			text += "+heard:" + label + ".0"
		}
		parts = append(parts, text)
	}
	copied := fmt.Sprintf("%s~1-%d", label, m.fan)
	return label + "(" + strings.Join(append(parts, copied+"<"+copied+">"), " ") + ")"
}

// mailMemory is all that a run with the style mail has done and read, as its
// conversation tells.
type mailMemory struct {
	label string

	// The ids of its forks in order; "" for a fork that was refused.
	forks []string
	// The texts of the messages that it has sent.
	sent map[string]bool
	// Whether it has forked, killed a fork, and called children.
	forked, killed, called bool
	// The results of the children that it has called.
	callResults []string
	// The number of waits, and whether one of them timed out or failed.
	waits      int
	waitFailed bool

	// The last answer of a fork, by id; "dead" and "failed" for a fork that
	// is dead or idle after a failure.
	lastAnswer map[string]string
	// The labels in the messages "copy LABEL" of a fork, by id.
	copies map[string][]string
	// The ids of the runs that it was asked to greet: "greet ID".
	askedToGreet []string
	// The labels of the runs that have greeted it: "hi LABEL".
	greetedBy []string
	// It was told "again".
	again bool
	// Its newest message is a notice that it has mail.
	mailNotice bool
}

// labelAndTurn returns the label of the run that a request is for, and the
// number of the turn.
func labelAndTurn(req *provider.Request) (label string, turn int) {
	if review := reviewLabel(req.Messages[0].Content); review != "" {
		return review, turnOf(req)
	}
	label = labelOfTask(req.Messages[0].Content)
	turn = 1
	for i, msg := range req.Messages {
		switch {
		case msg.Role == provider.Assistant:
			turn++
		case msg.Role == provider.User && i > 0 && req.Messages[i-1].Role != provider.Assistant:
			// A turn without an answer, since the model failed.
			turn++
		}
		if place := placeOfCopy(msg); place != "" {
			label = fmt.Sprintf("%s~%s", label, place)
			turn = 1
		}
	}
	return label, turn
}

// placeOfCopy finds the notice that begins a copy, and returns the turn and the
// call that forked it, as in 1-2. It is "" for any other message.
func placeOfCopy(msg provider.Message) string {
	for _, r := range msg.ToolResults {
		if after, ok := strings.CutPrefix(r.Content, "You are now the child "); ok {
			id, _, _ := strings.Cut(after, ",")
			words := strings.Split(id, "-")
			return strings.Join(words[len(words)-2:], "-")
		}
	}
	return ""
}

// parentID is the id of a run's parent, from the system text.
func parentID(req *provider.Request) string {
	_, id, _ := strings.Cut(req.System, "Your parent's id is ")
	id, _, _ = strings.Cut(id, ".")
	return id
}

// readConversation reads a conversation, without the part that a copy has
// inherited.
func readConversation(req *provider.Request) *mailMemory {
	label, _ := labelAndTurn(req)
	p := &mailMemory{
		label:      label,
		sent:       map[string]bool{},
		lastAnswer: map[string]string{},
		copies:     map[string][]string{},
	}
	var calls []provider.ToolCall
	for _, msg := range ownMessages(req.Messages) {
		p.mailNotice = strings.HasPrefix(msg.Content, "got mail from ") && msg.Role == provider.User
		calls = append(calls, msg.ToolCalls...)
		for i, r := range msg.ToolResults {
			p.readResult(calls[len(calls)-len(msg.ToolResults)+i], r)
		}
	}
	return p
}

// ownMessages is the part of a conversation after the notice that begins a
// copy.
func ownMessages(msgs []provider.Message) []provider.Message {
	for i, msg := range slices.Backward(msgs) {
		if placeOfCopy(msg) != "" {
			return msgs[i+1:]
		}
	}
	return msgs
}

// readResult adds a tool call of the run and its result.
func (p *mailMemory) readResult(tc provider.ToolCall, r provider.ToolResult) {
	switch tc.Name {
	case "fork":
		p.forked = true
		if r.IsError {
			r.Content = ""
		}
		p.forks = append(p.forks, r.Content)
	case "send":
		p.sent[tc.Arguments["message"]] = true
	case "kill":
		p.killed = true
	case "check_mail", "wait":
		if tc.Name == "wait" {
			p.waits++
			p.waitFailed = p.waitFailed || r.IsError || r.Content == "no mail"
		}
		for _, m := range messagesIn(r.Content) {
			p.readMessage(m)
		}
	default:
		p.called = true
		p.callResults = append(p.callResults, spawnResults(r.Content)...)
	}
}

// shownMessage is a mail message as a model is shown it.
type shownMessage struct {
	From    string          `json:"from"`
	Message json.RawMessage `json:"message"`
}

// messagesIn lists the mail messages in a tool result, in order.
func messagesIn(content string) []shownMessage {
	var result struct {
		Messages []shownMessage
		Agents   []struct {
			ID       string
			Messages []json.RawMessage
		}
	}
	if json.Unmarshal([]byte(content), &result) != nil {
		return nil
	}
	for _, a := range result.Agents {
		for _, m := range a.Messages {
			result.Messages = append(result.Messages, shownMessage{a.ID, m})
		}
	}
	return result.Messages
}

// readMessage adds a mail message: a text, or a notice about a fork.
func (p *mailMemory) readMessage(m shownMessage) {
	var notice struct {
		Status, Summary string
		Success         bool
	}
	var text string
	switch {
	case json.Unmarshal(m.Message, &text) == nil:
		p.readText(m.From, text)
	case json.Unmarshal(m.Message, &notice) != nil:
	case notice.Status == "dead":
		p.lastAnswer[m.From] = "dead"
	case !notice.Success:
		p.lastAnswer[m.From] = "failed"
	default:
		p.lastAnswer[m.From] = notice.Summary
	}
}

// readText adds a text message: a verb and an object.
func (p *mailMemory) readText(from, text string) {
	verb, object, _ := strings.Cut(text, " ")
	switch verb {
	case "greet":
		p.askedToGreet = append(p.askedToGreet, object)
	case "hi":
		p.greetedBy = append(p.greetedBy, object)
	case "again":
		p.again = true
	case "copy":
		p.copies[from] = append(p.copies[from], object)
	}
}

// hasEnded reports whether a fork will write no more.
func (p *mailMemory) hasEnded(id string) bool {
	return id == "" || p.lastAnswer[id] == "dead" || p.lastAnswer[id] == "failed"
}

// awaited are the forks that have not said yet all that is expected of them.
func (p *mailMemory) awaited(fan int) (ids []string) {
	asked := fan > 1 && p.sent["greet "+p.forks[1]]
	for i, id := range p.forks {
		if p.hasEnded(id) {
			continue
		}
		// The suffixes follow the last parenthesis of an answer.
		said := p.lastAnswer[id]
		suffixes := said[strings.LastIndex(said, ")")+1:]
		lacks := func(suffix string) bool { return !strings.Contains(suffixes, suffix) }
		first := i == 0
		second := i == 1 && i < fan
		copied := i == fan
		switch {
		case said == "",
			first && asked && lacks("+told"),
			first && p.sent["again"] && lacks("+again"),
			second && asked && lacks("+heard"),
			copied && len(p.copies[id]) == 0:
			ids = append(ids, id)
		}
	}
	return ids
}

// answer is the last answer of a run: its label, the parts, and suffixes for
// the mail that it has read: +told when it was asked to greet, +heard:LABELS
// when it was greeted, +again when it was told to go on.
func (p *mailMemory) answer(parts []string) *provider.Response {
	text := p.label
	if len(parts) > 0 {
		text += "(" + strings.Join(parts, " ") + ")"
	}
	if len(p.askedToGreet) > 0 {
		text += "+told"
	}
	if len(p.greetedBy) > 0 {
		text += "+heard:" + strings.Join(p.greetedBy, ",")
	}
	if p.again {
		text += "+again"
	}
	return &provider.Response{Content: text, Usage: turnUsage}
}

package agentd_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/axebus/axe/provider"
)

// What runs with the style mail do in a sim. It follows from what they are
// shown alone, so that whoever asks again is answered the same. A run that
// forks
//
//	forks      fan children with tasks that extend its own, and a copy of itself
//	tells      the first child to write to the second one, and looks at its mail
//	waits      until each child has answered, the first one that it has told and the second that it has heard,
//	           for all that are missing and for anybody in turn
//	wakes      the first child, which is idle then, and waits until it has answered again
//	kills      the last child, and waits for that too: it is dead
//	answers    with what each child has said last
//
// A copy looks at its mail, which is none of its parent's, says something to
// its parent and answers.

// played is what a run has done and heard so far.
type played struct {
	me string
	// of its forks, "" for one that was refused
	ids []string
	// what it has sent, and "forked", "killed" and "called"
	did map[string]bool
	// what each fork has answered last; "dead" and "failed"
	last    map[string]string
	said    map[string][]string
	tells   []string // to whom it has to write
	heard   []string
	again   bool
	results []string // of those that it has called
	waits   int
	gaveUp  bool // a wait was over
	// it was told of mail a moment ago
	noticed bool
}

// whose says whose turn a request is for: the task, with its place of each fork
// by which it is a copy, and the number.
func whose(req *provider.Request) (me string, turn int) {
	if review := reviewOf(req.Messages[0].Content); review != "" {
		return review, turnOf(req)
	}
	me, turn = label(req.Messages[0].Content), 1
	for i, msg := range req.Messages {
		switch {
		case msg.Role == provider.Assistant:
			turn++
		case msg.Role == provider.User && i > 0 && req.Messages[i-1].Role != provider.Assistant:
			// it has answered nothing, since its model failed
			turn++
		}
		if place := born(msg); place != "" {
			me, turn = me+"~"+place, 1
		}
	}
	return me, turn
}

// born is the place of a copy in its parent, "" if the message does not say
// that it is one.
func born(msg provider.Message) string {
	for _, r := range msg.ToolResults {
		if after, ok := strings.CutPrefix(r.Content, "You are now the child "); ok {
			id, _, _ := strings.Cut(after, ",")
			return placeOf(id)
		}
	}
	return ""
}

// placeOf is the last turn and call in an id.
func placeOf(id string) string {
	words := strings.Split(id, "-")
	return strings.Join(words[len(words)-2:], "-")
}

// recall reads what a run has done and heard from its conversation, without
// what it has inherited.
func recall(req *provider.Request) *played {
	me, _ := whose(req)
	p := &played{me: me, did: map[string]bool{}, last: map[string]string{}, said: map[string][]string{}}
	var calls []provider.ToolCall
	for _, msg := range ownPart(req) {
		p.noticed = strings.HasPrefix(msg.Content, "got mail from ") && msg.Role == provider.User
		calls = append(calls, msg.ToolCalls...)
		for i, r := range msg.ToolResults {
			p.note(calls[len(calls)-len(msg.ToolResults)+i], r)
		}
	}
	return p
}

// ownPart is a conversation from where a copy has begun to be one.
func ownPart(req *provider.Request) []provider.Message {
	for i, msg := range slices.Backward(req.Messages) {
		if born(msg) != "" {
			return req.Messages[i+1:]
		}
	}
	return req.Messages
}

func (p *played) note(tc provider.ToolCall, r provider.ToolResult) {
	switch tc.Name {
	case "fork":
		p.did["forked"] = true
		if r.IsError {
			r.Content = ""
		}
		p.ids = append(p.ids, r.Content)
	case "send":
		p.did[tc.Arguments["message"]] = true
	case "kill":
		p.did["killed"] = true
	case "check_mail", "wait":
		if tc.Name == "wait" {
			p.waits++
			p.gaveUp = p.gaveUp || r.IsError || r.Content == "no mail"
		}
		for _, l := range lettersIn(r.Content) {
			p.hear(l)
		}
	default:
		p.did["called"] = true
		p.results = append(p.results, spawned(r.Content)...)
	}
}

// shownLetter is one message as a model is shown it.
type shownLetter struct {
	From    string          `json:"from"`
	Message json.RawMessage `json:"message"`
}

// lettersIn are the messages in a result, in order.
func lettersIn(content string) []shownLetter {
	var told struct {
		Messages []shownLetter
		Agents   []struct {
			ID       string
			Messages []json.RawMessage
		}
	}
	if json.Unmarshal([]byte(content), &told) != nil {
		return nil
	}
	for _, a := range told.Agents {
		for _, m := range a.Messages {
			told.Messages = append(told.Messages, shownLetter{a.ID, m})
		}
	}
	return told.Messages
}

func (p *played) hear(l shownLetter) {
	var word struct {
		Status, Summary string
		Success         bool
	}
	var text string
	switch {
	case json.Unmarshal(l.Message, &text) == nil:
		p.read(l.From, text)
	case json.Unmarshal(l.Message, &word) != nil:
	case word.Status == "dead":
		p.last[l.From] = "dead"
	case !word.Success:
		p.last[l.From] = "failed"
	default:
		p.last[l.From] = word.Summary
	}
}

func (p *played) read(from, text string) {
	verb, rest, _ := strings.Cut(text, " ")
	switch verb {
	case "tell":
		p.tells = append(p.tells, rest)
	case "hi":
		p.heard = append(p.heard, rest)
	case "again":
		p.again = true
	case "say":
		p.said[from] = append(p.said[from], rest)
	}
}

// mails is the answer of a run that is offered fork.
func (m *treeModel) mails(req *provider.Request) *provider.Response {
	p := recall(req)
	parent, _, copied := strings.Cut(p.me, "~")
	switch {
	case p.noticed:
		return acts(does("check_mail", nil))
	case len(p.tells) > 0 && !p.did["hi "+p.me]:
		return acts(does("send", map[string]any{"to": p.tells[0], "message": "hi " + p.me}))
	case copied && !p.did["say "+p.me]:
		_, id, _ := strings.Cut(req.System, "Your parent's id is ")
		id, _, _ = strings.Cut(id, ".")
		return acts(does("check_mail", nil), does("send", map[string]any{"to": id, "message": "say " + p.me}))
	case !copied && strings.Count(parent, ".") == m.forkAt:
		return m.parent(p)
	case !copied && offers(req, "spawn_agents") && !p.did["called"] && !m.ends(p.me):
		sub, _, _ := strings.Cut(req.System, "\n")
		return acts(spawns(sub, p.me, m.fan))
	case !copied && offers(req, "call_agent") && !p.did["called"] && !m.ends(p.me):
		sub, _, _ := strings.Cut(req.System, "\n")
		var calls []provider.ToolCall
		for i := range m.fan {
			calls = append(
				calls,
				does("call_agent", map[string]any{"agent": sub, "task": fmt.Sprintf("%s.%d", p.me, i)}),
			)
		}
		return acts(calls...)
	}
	return p.answers(p.results)
}

// parent is the answer of a run that forks.
func (m *treeModel) parent(p *played) *provider.Response {
	if !p.did["forked"] {
		var calls []provider.ToolCall
		for i := range m.fan {
			calls = append(calls, does("fork", map[string]any{"prompt": fmt.Sprintf("%s.%d", p.me, i)}))
		}
		return acts(append(calls, does("fork", nil))...)
	}
	first, last := p.ids[0], p.ids[m.fan-1]
	if two := m.fan > 1 && first != "" && p.ids[1] != ""; two && !p.did["tell "+p.ids[1]] {
		return acts(does("send", map[string]any{"to": first, "message": "tell " + p.ids[1]}), does("check_mail", nil))
	}
	switch missing := p.missing(m.fan); {
	case p.gaveUp:
		return &provider.Response{Content: p.me + "(gave up)", Usage: usual}
	case len(missing) > 0:
		return m.wait(p, missing)
	case !p.did["again"] && !p.over(first):
		return acts(does("send", map[string]any{"to": first, "message": "again"}), m.waits(first))
	case !p.did["killed"] && last != "":
		return acts(does("kill", map[string]any{"id": last}), m.waits(last))
	}
	var parts []string
	for _, id := range p.ids {
		text := p.last[id]
		if id == "" {
			text = "refused"
		}
		if said := p.said[id]; len(said) > 0 {
			text += "<" + strings.Join(said, ",") + ">"
		}
		parts = append(parts, text)
	}
	return p.answers(parts)
}

// over reports whether no more is to be expected of a fork.
func (p *played) over(id string) bool {
	return id == "" || p.last[id] == "dead" || p.last[id] == "failed"
}

// missing are the forks of which more is expected.
func (p *played) missing(fan int) (ids []string) {
	for i, id := range p.ids {
		_, done, _ := cutLast(p.last[id], ")")
		told := fan > 1 && p.did["tell "+p.ids[1]]
		switch {
		case p.over(id):
		case p.last[id] == "",
			i == 0 && told && !strings.Contains(done, "+told"), i == 0 && p.did["again"] && !strings.Contains(done, "+again"),
			i == 1 && i < fan && told && !strings.Contains(done, "+heard"), i == fan && len(p.said[id]) == 0:
			ids = append(ids, id)
		}
	}
	return ids
}

// cutLast is strings.Cut at the last separator; without one all is behind it.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

// wait waits for all that are missing and for anybody in turn: who is idle is
// not waited for, whatever is missing.
func (m *treeModel) wait(p *played, missing []string) *provider.Response {
	if p.waits%2 == 0 {
		return acts(m.waits(missing...))
	}
	return acts(m.waits())
}

// answers is what a run says in the end.
func (p *played) answers(parts []string) *provider.Response {
	text := p.me
	if len(parts) > 0 {
		text += "(" + strings.Join(parts, " ") + ")"
	}
	if len(p.tells) > 0 {
		text += "+told"
	}
	if len(p.heard) > 0 {
		text += "+heard:" + strings.Join(p.heard, ",")
	}
	if p.again {
		text += "+again"
	}
	return &provider.Response{Content: text, Usage: usual}
}

func (m *treeModel) waits(from ...string) provider.ToolCall {
	args := map[string]any{"timeout": m.patience}
	if len(from) > 0 {
		args["from"] = from
	}
	return does("wait", args)
}

func does(name string, args map[string]any) provider.ToolCall {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	if args == nil {
		raw = []byte("{}")
	}
	return provider.NewToolCall("", name, raw)
}

func acts(calls ...provider.ToolCall) *provider.Response {
	for i := range calls {
		calls[i].ID = fmt.Sprintf("c%d", i)
	}
	return &provider.Response{Content: "acting", ToolCalls: calls, Usage: usual}
}

// usual is what each answer costs.
var usual = provider.Usage{InputTokens: 10, OutputTokens: 1}

// mailed is what a run that forks answers, where below is the answer of a fork
// without what it was told.
func (m *treeModel) mailed(label string, below func(label string) string) string {
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

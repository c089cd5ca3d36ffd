package chaostest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// forkMemory is the part of a run's conversation that is about its forks and
// its mail.
type forkMemory struct {
	// ids are the forks of the run, in the order of their calls.
	ids []string
	// last has the last answer of each fork, by id.
	last map[string]string
	// waits is the number of waits with a result.
	waits int
	// heard are the messages to the run, in the order of its reads.
	heard []string
	// told says that the newest message to the model is a notice of mail.
	told bool
}

// read takes the result of a tool call: the id of a fork, or mail. It ignores
// every other result.
func (p *forkMemory) read(content string) {
	if strings.HasPrefix(content, "r-") {
		p.ids = append(p.ids, content)
		return
	}
	var mail struct {
		Messages []struct{ Message string }
		Agents   []struct {
			ID       string
			Messages []struct{ Summary string }
		}
	}
	if json.Unmarshal([]byte(content), &mail) != nil {
		return
	}
	for _, m := range mail.Messages {
		p.heard = append(p.heard, m.Message)
	}
	for _, a := range mail.Agents {
		for _, m := range a.Messages {
			p.last[a.ID] = m.Summary
		}
	}
	if len(mail.Agents) > 0 {
		p.waits++
	}
}

// writesCommands reports whether the models of the run's tree call tools by
// slash commands. Those of every other tree do.
func (q parsedRequest) writesCommands() bool {
	tree, _, _ := strings.Cut(q.label, ".")
	return tree != "" && (tree[len(tree)-1]-'0')%2 == 1
}

// slash returns a call of a tool as a slash command.
func slash(tool string, arguments any) string {
	args, _ := arguments.(map[string]string)
	switch tool {
	case "fork":
		return fmt.Sprintf("/slash fork %q", args["prompt"])
	case "send":
		return fmt.Sprintf("/slash send %s %q", args["to"], args["message"])
	case "kill":
		return "/slash kill " + args["id"]
	case "wait":
		from, _ := arguments.(map[string]any)["from"].([]string)
		return "/slash wait " + strings.Join(from, " ")
	}
	if tool != "check_mail" {
		panic("no slash command calls " + tool)
	}
	return "/slash check-mail"
}

// mail makes the next calls of a post or of one of its forks. If it makes none,
// the returned text is the answer. A fork answers its task, and then each
// message. A post is in a wait whenever a fork writes to it, so no notice costs
// it a turn. Every tree takes the same number of turns.
func (q parsedRequest) mail(invoke func(tool string, arguments any)) string {
	p := q.post
	parts := p.heard
	switch forked := strings.Count(q.label, ".") == 2; {
	case p.told:
		invoke("check_mail", struct{}{})
	case forked:
	case len(p.ids) == 0:
		for i := range width {
			invoke("fork", map[string]string{"prompt": fmt.Sprintf("%s.%d", q.label, i)})
		}
	case p.waits == 0:
		invoke("wait", map[string]any{"from": p.ids})
	case p.waits == 1:
		invoke("send", map[string]string{"to": p.ids[0], "message": onceMore})
		invoke("kill", map[string]string{"id": p.ids[width-1]})
		invoke("wait", map[string]any{"from": p.ids[:1]})
	default:
		for _, id := range p.ids {
			parts = append(parts, p.last[id])
		}
	}
	return q.label + "(" + strings.Join(parts, " ") + ")"
}

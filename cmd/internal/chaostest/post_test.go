package chaostest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// post is what a run that can fork has been told by others.
type post struct {
	ids []string // of its forks
	// what each of them has answered last
	last  map[string]string
	waits int      // that are over
	heard []string // what was written to it
	// that there is mail, a moment ago
	told bool
}

// read takes the result of a tool call.
func (p *post) read(content string) {
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

// odd reports whether a run is of one of the trees whose post writes commands.
func (q question) odd() bool {
	tree, _, _ := strings.Cut(q.label, ".")
	return tree != "" && (tree[len(tree)-1]-'0')%2 == 1
}

// slash is a call as a line of text.
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
	return "/slash check-mail"
}

// mail is what a post does next, or says in the end, and its forks: they
// answer, and once more with what they are sent. What each of them waits for is
// one thing at a time, so every tree takes the same turns.
func (q question) mail(invoke func(tool string, arguments any)) string {
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

package agentd_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
)

// A run of treeModel that writes slash commands is answered like a run that
// calls tools. Its requests are translated to tool calls and results, and the
// answers are translated back to commands.

// slashToCalls translates the request of a run with slash commands. Any other
// request is returned as it is.
func slashToCalls(req *provider.Request) *provider.Request {
	if !strings.Contains(req.System, "- /slash check-mail") {
		return req
	}
	as := *req
	as.Tools, as.Messages = slices.Clone(req.Tools), nil
	for _, name := range []string{"fork", "send", "check_mail", "wait", "kill"} {
		as.Tools = append(as.Tools, provider.Tool{Name: name})
	}
	var wrote []provider.ToolCall
	for _, m := range req.Messages {
		said, results := strings.CutPrefix(m.Content, "Results of your commands, in their order:\n\n")
		switch {
		case m.Role == provider.Assistant && len(m.ToolCalls) == 0:
			wrote = tool.Commands(&provider.Response{Content: m.Content}, nil)
			m.ToolCalls = wrote
		case m.Role == provider.User && results:
			m = provider.Message{Role: provider.ToolRole, ToolResults: readResults(wrote, said)}
		}
		as.Messages = append(as.Messages, m)
	}
	return &as
}

// readResults takes the results of commands apart. Each result stands below the
// line of its command.
func readResults(wrote []provider.ToolCall, said string) []provider.ToolResult {
	var all []provider.ToolResult
	for i, text := range strings.Split("\n\n"+said, "\n\n/slash ")[1:] {
		_, text, _ = strings.Cut(text, "\n")
		text = strings.TrimSuffix(text, "\n")
		failed := !successful.MatchString(text)
		all = append(all, provider.ToolResult{CallID: wrote[i].ID, Content: text, IsError: failed})
	}
	return all
}

// successful matches the result of a command that was carried out. Nothing but
// the text tells it from the result of a mistake.
var successful = regexp.MustCompile(
	`^(r(-\d+)+|no mail|sent to \S+|killed \S+|\{.*\}|You are now the child .*|This result goes to your parent\.)$`,
)

// callsToSlash translates calls of the mail tools in an answer to lines of
// text.
func callsToSlash(resp *provider.Response) *provider.Response {
	as := *resp
	as.ToolCalls = nil
	for _, c := range resp.ToolCalls {
		if line := slashCommand(c); line != "" {
			as.Content += "\n" + line
		} else {
			as.ToolCalls = append(as.ToolCalls, c)
		}
	}
	return &as
}

// slashCommand is the line for a tool call; "" if there is none.
func slashCommand(c provider.ToolCall) string {
	switch c.Name {
	case "fork":
		if c.Arguments["prompt"] == "" {
			return "/slash fork"
		}
		return "/slash fork " + strconv.Quote(c.Arguments["prompt"])
	case "send":
		return fmt.Sprintf("/slash send %s %q", c.Arguments["to"], c.Arguments["message"])
	case "check_mail":
		return "/slash check-mail"
	case "kill":
		return "/slash kill " + c.Arguments["id"]
	case "wait":
		var from []string
		// Without the argument the wait is for any mail.
		_ = json.Unmarshal([]byte(c.Arguments["from"]), &from)
		return strings.Join(append([]string{"/slash wait --timeout", c.Arguments["timeout"]}, from...), " ")
	}
	return ""
}

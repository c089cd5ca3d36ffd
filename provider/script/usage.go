package script

import "github.com/axebus/axe/provider"

// tokens estimates the tokens of a text: a quarter of its bytes, rounded up.
func tokens(size int) int { return (size + 3) / 4 }

func requestSize(req *provider.Request) int {
	n := len(req.System)
	for _, m := range req.Messages {
		n += len(m.Content) + callsSize(m.ToolCalls)
		for _, r := range m.ToolResults {
			n += len(r.Content)
		}
	}
	return n
}

func responseSize(resp *provider.Response) int { return len(resp.Content) + callsSize(resp.ToolCalls) }

func callsSize(calls []provider.ToolCall) int {
	n := 0
	for _, c := range calls {
		n += len(c.Name) + len(c.RawArguments())
	}
	return n
}

package provider

import (
	"encoding/json"
	"slices"
)

// Bytes returns the size of the text and the tools of a request. It is not the
// size of any wire format.
func (r *Request) Bytes() int {
	n := len(r.System) + bytesOf(r.Messages)
	if len(r.Tools) > 0 {
		tools, _ := json.Marshal(r.Tools) // strings alone cannot fail
		n += len(tools)
	}
	return n
}

// NewBytes returns the size of the messages after the model's last answer, all
// of them if there is no answer.
func (r *Request) NewBytes() int {
	for i, m := range slices.Backward(r.Messages) {
		if m.Role == Assistant {
			return bytesOf(r.Messages[i+1:])
		}
	}
	return bytesOf(r.Messages)
}

func bytesOf(ms []Message) (n int) {
	for _, m := range ms {
		n += len(m.Content)
		for _, c := range m.ToolCalls {
			n += len(c.Name) + len(c.Raw)
		}
		for _, r := range m.ToolResults {
			n += len(r.Content)
		}
	}
	return n
}

package run_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// answer is the model's answer: calls, some of which are refused, or the final
// answer if there are none. -1 calls stand for the entry of a run's end, which
// no model answered.
type answer struct {
	calls      int
	sequential bool
	refused    int // the refused calls, a bit for each
	// the model fails instead of answering
	broken bool
}

func (a answer) String() string {
	switch a.calls {
	case -1:
		return "end"
	case 0:
		return "final"
	}
	return fmt.Sprintf("%d calls refused=%b sequential=%t", a.calls, a.refused, a.sequential)
}

// fill puts the answer into an entry.
func (a answer) fill(e *run.Entry) {
	e.Answer, e.Start = &provider.Response{}, &run.Start{}
	e.Sequential = a.sequential
	e.Timeout = 30 * time.Second
	e.Timer = epoch.Add(time.Hour)
	for i := range a.calls {
		c := run.Call{Agent: "a", Deadline: e.Timer}
		if a.refused&(1<<i) != 0 {
			c = run.Call{Agent: "a", Error: "refused", Kind: run.KindUnknownAgent}
		}
		e.Calls = append(e.Calls, c)
		e.Answer.ToolCalls = append(e.Answer.ToolCalls, provider.ToolCall{ID: "c"})
	}
}

// conversation is the results of the turns so far, as the model is shown them.
func conversation(turns []run.Turn) string {
	var b strings.Builder
	for i, t := range turns {
		for _, r := range tool.Results(subjects.Root, i+1, t) {
			fmt.Fprintf(&b, "[%s]", r.Content)
		}
		b.WriteByte(';')
	}
	return b.String()
}

package agentd_test

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// watch puts the first of the agents, and so all that work for it, under a
// supervisor, which joins them.
func (p plot) watch(agents []configs.Agent) configs.Agent {
	agents[0].Supervision = configs.Supervision{Mode: p.Watched, Agent: "watcher", Timeout: 20 * time.Second}
	if p.Watched == configs.SupervisedHuman && p.Seed%2 == 0 {
		agents[0].Supervision.OnTimeout = configs.Approve
	}
	return configs.Agent{
		Name:         "watcher",
		Model:        "sim/tree",
		Digest:       "d",
		SystemPrompt: "watcher",
		Retry:        agents[0].Retry,
	}
}

// verdicts are what a supervisor makes of a turn. It is content as a rule.
var verdicts = []string{
	`{"decision":"continue"}`, `{"decision":"continue"}`, `{"decision":"continue"}`, `{"decision":"continue"}`, `{"decision":"continue"}`,
	`{"decision":"reorient","correction":"do without"}`, `{"decision":"pause","reason":"who pays?"}`, "hm",
}

// judge is the answer of a supervisor, which follows from what it is shown.
func (p plot) judge(key string) *provider.Response {
	return &provider.Response{Content: verdicts[p.chance(uint64(len(verdicts)), "verdict", key)], Usage: usual}
}

// reviewOf is the label of a supervisor's run, "" if a text is not what one is
// asked: that of the run which it looks at, and something that follows from
// what it sees.
func reviewOf(text string) string {
	text = strings.TrimPrefix(text, "Task: ")
	if !strings.HasPrefix(text, "You supervise another agent.") {
		return ""
	}
	h := fnv.New64a()
	h.Write([]byte(text))
	return fmt.Sprintf("%s~v%x", label(text), h.Sum64())
}

// visit has people come to a tree: who decides on what is held, and who stops a
// run and writes to it a while later.
func (w *walk) visit(i int, f fruit, r subjects.Run) {
	if w.Watched == configs.SupervisedHuman {
		for n, approve := range []bool{true, false} {
			w.later(5+7*n, r.Approve(w.key(fmt.Sprintf("p%d", n))), fmt.Sprintf(`{"approve":%t}`, approve))
		}
	}
	if f.Stop == 0 {
		return
	}
	if f.Path > 0 {
		r = w.childOf(i, f)
	}
	w.later(f.Stop, r.Interrupt(w.key("stop")), "")
	w.later(f.Stop+15, r.Mail(w.key("m")), `{"from":"user","text":"go on"}`)
}

// later writes a message when some seconds are over.
func (w *walk) later(seconds int, subject, body string) {
	time.AfterFunc(time.Duration(seconds)*time.Second, func() {
		// the walk may be over
		_, _ = w.conn.Write(w.ctx, bus.Message{Subject: subject, Body: []byte(body)})
	})
}

func (w *walk) key(name string) subjects.Key {
	k, err := subjects.ParseKey(name)
	if err != nil {
		w.tb.Fatal(err)
	}
	return k
}

// folded are the runs of a tree as their messages make them, without their
// outcomes.
func (s *sim) folded(tree subjects.Tree) map[subjects.Run]run.State {
	runs := map[subjects.Run]run.State{}
	for _, m := range s.stored(tree) {
		at, err := s.conn.Space().Parse(m.Subject)
		if err != nil {
			s.tb.Fatal(err)
		}
		e, err := eventOf(at, m)
		if err != nil {
			s.tb.Fatalf("%s: %v", m.Subject, err)
		}
		if e == nil {
			continue
		}
		if runs[at.Run], err = runs[at.Run].Apply(e); err != nil {
			s.tb.Fatalf("%s: %v", m.Subject, err)
		}
	}
	return runs
}

// eventOf is what a message says to its run; nil for nothing.
func eventOf(at subjects.Address, m bus.Stored) (run.Event, error) {
	meta := run.Meta{Seq: m.Seq, Time: m.Time}
	switch at.Kind { //nolint:exhaustive // the rest is of no run, or ends it
	case subjects.Call:
		return run.Called{Meta: meta}, nil
	case subjects.Log:
		e, err := run.DecodeEntry(m.Body)
		return e.Event(meta), err
	case subjects.Reply:
		o, err := run.DecodeOutcome(m.Body)
		return run.Replied{Meta: meta, Turn: at.Turn, Index: at.Index, Outcome: o}, err
	case subjects.Timer:
		return run.TimedOut{Meta: meta, Turn: at.Turn}, nil
	case subjects.Mail:
		letter, err := run.DecodeMail(m.Body)
		letter.Key = at.Key.String()
		return run.Mailed{Meta: meta, Mail: letter}, err
	case subjects.Interrupt:
		return run.Interrupted{Meta: meta}, nil
	case subjects.Approve:
		a, err := run.DecodeApproval(m.Body)
		return run.Approved{Meta: meta, Approval: a}, err
	case subjects.Cancel:
		return run.Cancelled{Meta: meta}, nil
	}
	return nil, nil
}

// carriedOut reports whether the n-th turn of a run was.
func carriedOut(s run.State, n int) bool {
	return n <= len(s.Turns) && s.Turns[n-1].CarriedOut()
}

package agentd_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
)

// TestSubmissionTwice: the same id is the same tree, at once, while it runs and
// after its end.
func TestSubmissionTwice(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead([]string{"leaf"}, call("leaf", "x"))
		s.parts["leaf"] = after(30*time.Second, says("leaf"))
		s.hire("w1", engagement{})
		s.hire("w2", engagement{})
		r := s.root("lead")
		s.send(r, "go")
		s.send(r, "go")
		time.Sleep(10 * time.Second)
		s.send(r, "something else")
		s.completed(r, "c0=leaf")
		s.send(r, "go")
		time.Sleep(5 * time.Minute)
		for what, n := range map[string]int{
			"calls":   len(s.all(r.Call())),
			"results": len(s.all(r.Space.Result(r.Agent, r.Tree))),
			"entries": len(s.all(r.Log())),
			"leaves":  len(s.asked("leaf")),
		} {
			if n != 1 {
				t.Errorf("%d %s", n, what)
			}
		}
		if n := len(s.asked("lead")); n != 2 {
			t.Errorf("%d turns", n)
		}
		if _, queued, err := s.conn.QueuedSubmission(s.ctx, r.Space.Submissions()); queued || err != nil {
			t.Errorf("a submission was not acknowledged: %v", err)
		}
	})
}

// TestIDOfAnotherAgentsTree is refused, clearly, and the tree that has it goes
// on.
func TestIDOfAnotherAgentsTree(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead(nil)
		s.agents = append(s.agents, define("other", nil))
		s.parts["lead"] = after(30*time.Second, says("done"))
		s.hire("w", engagement{})
		r, other := s.root("lead"), s.root("other")
		other.Tree = r.Tree
		s.send(r, "go")
		time.Sleep(time.Second)
		s.send(other, "go")
		s.failed(other, run.KindError, "submission refused: id "+r.Tree.String()+" is that of another agent's tree")
		s.completed(r, "done")
		if len(s.asked("other")) != 0 {
			t.Error("the other agent was asked")
		}
	})
}

// TestSecondCall of a run is refused by the fence; one without a fence changes
// nothing.
func TestSecondCall(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		s.parts["lead"] = turns(splits("leaf", 1), sums)
		s.parts["leaf"] = after(30*time.Second, repeats)
		s.hire("w", engagement{})
		r := s.submit("lead", "go")
		s.asking("leaf", 1)
		for _, run := range []bus.Message{{Subject: r.Call()}, {Subject: s.child(r, "leaf", 0).Call()}} {
			first := s.all(run.Subject)[0]
			again := bus.Message{
				Subject: run.Subject,
				Body:    []byte(`{"task":"evil"}`),
				Fence:   bus.After(run.Subject, 0),
			}
			for k := range first.Header {
				if k[:4] == "Axe-" {
					again.Header = append(again.Header, [2]string{k, first.Header.Get(k)})
				}
			}
			_, err := s.conn.Write(s.ctx, again)
			if refused, ok := errors.AsType[*bus.ConflictError](err); !ok || refused.Last != first.Seq {
				t.Errorf("the second call of %s: %v", run.Subject, err)
			}
			again.Fence = bus.Fence{}
			s.write(again)
		}
		s.completed(r, "c0=go.0")
		time.Sleep(time.Minute)
		if n := len(s.asked("")); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
	})
}

// TestSecondCallElsewhere: calls by hand, without a fence, reach other workers
// while the first one works. They are no calls of the run.
func TestSecondCallElsewhere(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead(nil)
		s.parts["lead"] = after(30*time.Second, repeats)
		for i := range 4 {
			s.hire("w"+strconv.Itoa(i), engagement{})
		}
		s.settle()
		r := s.submit("lead", "good")
		s.asking("lead", 1)
		first := s.all(r.Call())[0]
		for range 4 {
			again := bus.Message{Subject: r.Call(), Body: []byte(`{"task":"evil"}`)}
			for k := range first.Header {
				if k[:4] == "Axe-" {
					again.Header = append(again.Header, [2]string{k, first.Header.Get(k)})
				}
			}
			s.write(again)
		}
		s.completed(r, "good")
		time.Sleep(time.Minute)
		if n := len(s.asked("")); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestFirstOutcomeCounts: two are stored in one slot, by zombies. A worker that
// has seen the first one come and one that reads them both later show the model
// the same.
func TestFirstOutcomeCounts(t *testing.T) {
	for name, cold := range map[string]bool{"warm": false, "cold": true} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.agents = []configs.Agent{
					define("lead", []string{"slow", "slower"}),
					define("slow", nil),
					define("slower", nil),
				}
				s.parts["lead"] = turns(calls(call("slow", "x"), call("slower", "x")), sums)
				s.parts["slow"] = after(20*time.Second, says("third"))
				s.parts["slower"] = after(time.Minute, says("slower"))
				first := s.hire("w1", engagement{agents: s.agents[:1]})
				s.hire("leaves", engagement{agents: s.agents[1:]})
				s.settle()
				r := s.submit("lead", "go")
				s.asking("slower", 1)
				for _, text := range []string{"first", "second"} {
					s.write(
						bus.Message{
							Subject: r.Reply(1, 0),
							Body:    []byte(`{"status":"completed","result":"` + text + `"}`),
						},
					)
					time.Sleep(time.Second)
				}
				if cold {
					first.leave(s)
					s.hire("w2", engagement{agents: s.agents[:1]})
				}
				s.completed(r, "c0=first|c1=slower")
				if n := len(s.all(r.Reply(1, 0))); n != 3 {
					t.Errorf("%d outcomes in the slot, want 3", n)
				}
			})
		})
	}
}

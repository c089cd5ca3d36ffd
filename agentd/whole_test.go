package agentd_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
)

// forgetful is a worker that keeps no run between its triggers: it reads each
// of them whole.
var forgetful = agentd.Config{Cache: 1}

// TestKeyThatIsUsedAgain: who publishes by hand may use one key for several
// messages. All of them are said, and a worker that reads the run whole hears
// what one heard that was there.
func TestKeyThatIsUsedAgain(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", nil)}
		s.parts["lead"] = after(time.Minute, sayNews)
		first := s.hire("w1", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		for i := range 3 {
			s.asking("lead", i+1)
			s.pub(r.Interrupt(s.key("stop")), "")
			s.eventually("it is idle", func() bool { return len(s.entries(r)) == i+1 })
			s.pub(r.Mail(s.key("m")), fmt.Sprintf(`{"from":"user","text":"go on, %d"}`, i))
		}
		s.asking("lead", 4)
		first.kill()
		s.hire("w2", engagement{Config: forgetful})
		s.completed(r, "user: go|user: go on, 0|user: go on, 1|user: go on, 2")
		s.clean()
	})
}

// TestTimersAreReadWhole: the timer of a turn that is supervised may fire for
// what it was set for before, and any timer twice when a server comes back.
// Which firing counted is the same for a worker that comes later.
func TestTimersAreReadWhole(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{
			define("lead", []string{"lost"}, timeout(60), watched(configs.Supervised)),
			define("watcher", nil),
			define("lost", nil),
		}
		s.parts["watcher"] = says(`{"decision":"continue"}`)
		s.parts["lead"] = turns(calls(call("lost", "x")), calls(call("lost", "y")), sums)
		s.hire("w", engagement{Config: forgetful, agents: s.agents[:2]})
		elsewhere := s.hire("v", engagement{agents: s.agents[2:]})
		s.settle()
		elsewhere.kill()
		r := s.submit("lead", "go")
		s.eventually("it waits", func() bool { return len(s.all(s.child(r, "lost", 0).Call())) == 1 })
		s.pub(r.Fired(1), "{}")
		time.Sleep(90 * time.Second) // by then it has fired
		s.pub(r.Fired(1), "{}")
		s.completed(r, "c0="+failedCall("lost", "timeout after 60s"))
		if n := len(s.all(r.Fired(1))); n != 3 {
			t.Errorf("the timer has fired %d times, want 3", n)
		}
		s.clean()
	})
}

// TestManySubjects: a run with more messages than one read covers is read whole
// all the same, with its outcome, and with a tombstone that is older than its
// call.
func TestManySubjects(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", nil)}
		s.parts["lead"] = after(10*time.Minute, says("never"))
		first := s.hire("w1", engagement{})
		s.settle()
		r, q := s.submit("lead", "go"), s.root("lead")
		s.asking("lead", 1)
		s.pub(q.Cancel(), "")
		for i := range 1100 {
			s.pub(r.Mail(s.key(fmt.Sprint("m", i))), `{"from":"user","text":"hello"}`)
			s.pub(q.Mail(s.key(fmt.Sprint("m", i))), `{"from":"user","text":"hello"}`)
		}
		s.eventually(
			"they are stored",
			func() bool { return len(s.all(r.All())) > 1100 && len(s.all(q.All())) > 1100 },
		)
		first.kill()
		s.pub(r.Space.Result(r.Agent, r.Tree), `{"status":"completed","result":"another worker's answer"}`)
		s.hire("w2", engagement{Config: forgetful})
		s.send(q, "go")
		s.failed(q, run.KindCancelled, "cancelled")
		time.Sleep(5 * time.Minute)
		if n := len(s.asked("lead")); n != 1 {
			t.Errorf("the model was asked %d times, and its run had an outcome", n)
		}
	})
}

package agentd_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/configs"
)

// TestLettersToWhoIsBusy: letters to a run whose model is being asked, many
// more than a worker takes at once, keep that worker from nothing else; and
// none of them is lost.
func TestLettersToWhoIsBusy(t *testing.T) {
	const letters = 200
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("busy", nil), define("lead", []string{"leaf"}), define("leaf", nil)}
		s.parts["busy"] = turns(after(30*time.Minute, says("done")))
		s.parts["lead"] = turns(calls(call("leaf", "x")), calls(call("leaf", "y")), sums)
		s.hire("w", engagement{Config: agentd.Config{Slots: 8}})
		s.settle()
		a := s.submit("busy", "go")
		s.asking("busy", 1)
		for i := range letters {
			s.pub(a.Mail(s.key(fmt.Sprint("m", i))), fmt.Sprintf(`{"from":"user","text":"letter %d."}`, i))
		}
		time.Sleep(time.Second)
		began := time.Now()
		s.completed(s.submit("lead", "go"), "c0=leaf")
		s.within(began, time.Minute)
		s.plays("busy", sayNews)
		s.pub(a.Interrupt(s.key("stop")), "")
		s.pub(a.Mail(s.key("last")), `{"from":"user","text":"The last."}`)
		o := s.result(a, time.Hour)
		if n := strings.Count(o.Result, "letter "); n != letters || !strings.HasSuffix(o.Result, "The last.") {
			t.Errorf("%d letters were read, want %d: %.300s", n, letters, o.Result)
		}
		s.clean()
	})
}

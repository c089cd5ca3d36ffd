package agentd_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
)

// TestIdleWordSurvives: a fork's answer is on the log and its word to the
// parent could not be written. A letter that comes before that is tried again
// moves the run on, and the word is written nevertheless.
func TestIdleWordSurvives(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(map[string][]part{
			"r": {
				calls(
					uses("fork", "prompt", "one"),
				), after(10*time.Second+again/2, calls(uses("send", "to", "r-1-0", "message", "more"))),
				after(time.Minute, calls(uses("check_mail"))), sums,
			},
			"r-1-0": {after(10*time.Second, says("first")), calls(uses("check_mail")), says("second")},
		})
		var broken atomic.Bool
		s.hire("w", engagement{intercept: func(at bus.Point) error {
			if at.Op == "write" && !at.After && strings.HasSuffix(at.Subject, "-idle1") &&
				broken.CompareAndSwap(false, true) {
				return errBroken
			}
			return nil
		}})
		s.settle()
		s.completed(
			s.submit("lead", "go"),
			`c0={"messages":[{"from":"r-1-0","message":{"status":"idle","success":true,"summary":"first"}},`+
				`{"from":"r-1-0","message":{"status":"idle","success":true,"summary":"second"}}]}`,
		)
		s.clean()
	})
}

// again is what a worker waits until it tries again what failed on the bus.
const again = time.Second

// TestForkInTurn: where one call is made after the other, the outcome of one
// that comes after a fork counts, though the fork goes on.
func TestForkInTurn(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(
			map[string][]part{
				"r": {calls(uses("fork", "prompt", "one"), call("leaf", "x"), call("leaf", "y")), sums},
			},
		)
		s.agents[0].Delegation.Styles = append(s.agents[0].Delegation.Styles, configs.StyleCall)
		s.agents[0].SubAgents = []string{"leaf"}
		sequential(&s.agents[0])
		s.agents = append(s.agents, define("leaf", nil))
		s.parts["leaf"] = repeats
		s.hire("w", engagement{})
		s.settle()
		s.completed(s.submit("lead", "go"), "c0=r-1-0|c1=x|c2=y")
		s.clean()
	})
}

// TestSentOutLate: who was held up while it sent out what a turn has asked for
// looks again before it asks the model: another worker has gone on.
func TestSentOutLate(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(map[string][]part{
			"r":     {calls(uses("fork", "prompt", "one")), sums},
			"r-1-0": {after(time.Hour, says("never"))},
		})
		var held atomic.Bool
		s.hire("w1", engagement{Config: agentd.Config{Slots: 1}, mute: &held, intercept: func(at bus.Point) error {
			if at.Op == "write" && !at.After && strings.HasSuffix(at.Subject, ".r-1-0.call") &&
				held.CompareAndSwap(false, true) {
				time.Sleep(time.Minute)
				held.Store(false)
			}
			return nil
		}})
		s.settle()
		r := s.submit("lead", "go")
		s.asking("lead", 1)
		s.hire("w2", engagement{})
		s.completed(r, "c0=r-1-0")
		time.Sleep(2 * time.Minute)
		if asks := s.asksOf("r"); len(asks) != 2 || asks[1].worker != "w2" {
			t.Errorf("the model was asked %d times", len(asks))
		}
		s.clean()
	})
}

// TestAskedOnNewKnowledge: who was held up between reading a run and asking its
// model reads it again: the worker that had it before may have gone on
// meanwhile, though its lease was over.
func TestAskedOnNewKnowledge(t *testing.T) {
	for name, plan := range map[string][]part{
		"an answer": {after(15*time.Second, says("done"))},
		"a turn":    {after(15*time.Second, calls(uses("check_mail"))), sums},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.mailer(map[string][]part{"r": plan})
				var mute, held atomic.Bool
				mute.Store(true)
				s.hire("w1", engagement{Config: agentd.Config{Slots: 1}, mute: &mute})
				s.settle()
				r := s.submit("lead", "go")
				s.asking("lead", 1)
				s.hire("w2", engagement{opening: func() {
					if held.CompareAndSwap(false, true) {
						time.Sleep(10 * time.Second)
					}
				}})
				s.result(r, time.Hour)
				time.Sleep(2 * time.Minute)
				if !held.Load() {
					t.Error("nobody took the run over")
				}
				if asks := s.asksOf("r"); len(asks) != len(plan) {
					t.Errorf("the model was asked %d times, want %d", len(asks), len(plan))
				}
				s.clean()
			})
		})
	}
}

package agentd_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// returns reads the returns of a run, by their keys.
func (h *harness) returns(r subjects.Run) map[string]run.Return {
	all := map[string]run.Return{}
	for _, m := range h.readAll(r.All()) {
		at, err := h.conn.Space().Parse(m.Subject)
		if err != nil || at.Kind != subjects.Returned {
			continue
		}
		var ret run.Return
		if err := json.Unmarshal(m.Body, &ret); err != nil {
			h.tb.Fatal(err)
		}
		all[at.Key.String()] = ret
	}
	return all
}

// returnKey is the key of the return of a delivery of a run's call. The first
// delivery is 1.
func (h *harness) returnKey(r subjects.Run, delivery int) string {
	return subjects.ReturnKey(h.readAll(r.Call())[0].Seq, delivery).String()
}

// TestDeathsPoison: a run ends as poisoned once Config.Poison workers have died
// with its trigger in hand. Workers that drained and handed it on do not count.
func TestDeathsPoison(t *testing.T) {
	t.Parallel()
	thorough(t)
	const limit = 3
	for deaths, want := range map[int]run.Kind{limit - 1: "", limit: run.KindPoisoned} {
		t.Run(strconv.Itoa(deaths), func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.callingLead(nil)
				h.models["lead"] = delayed(time.Minute, says("done"))
				r := h.submit("lead", "go")
				ends := strings.Split("drain drain drain drain drain"+strings.Repeat(" die drain drain", deaths), " ")
				for i, end := range ends {
					w := h.startWorker(fmt.Sprint(end, i), workerOptions{
						Config: agentd.Config{Poison: limit, Grace: 100 * time.Millisecond},
					})
					h.awaitRequests("lead", i+1)
					if end == "drain" {
						w.drain()
					} else {
						w.kill()
					}
					if end == "die" && strings.Count(strings.Join(ends[:i+1], " "), "die") == limit {
						break
					}
				}
				h.startWorker("patient", workerOptions{Config: agentd.Config{Poison: limit}})
				if want == "" {
					h.expectCompleted(r, "done")
					return
				}
				const drains = 5 + 2*(limit-1)
				h.expectFailed(r, want, fmt.Sprintf("given up after %d deliveries of the message that moves it: "+
					"%d ended without a word from their worker; %d that were handed on do not count",
					drains+limit, limit, drains))
			})
		})
	}
}

// TestDeathsBeforeItBegins: of the deliveries to workers that die before they
// begin with the trigger, half of Config.Poison count. A worker that dies later
// counts always.
func TestDeathsBeforeItBegins(t *testing.T) {
	thorough(t)
	t.Parallel()
	const limit, unbegun = 4, 10
	for begun, want := range map[int]run.Kind{1: "", 2: run.KindPoisoned} {
		t.Run(strconv.Itoa(begun), func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.callingLead(nil)
				h.models["lead"] = delayed(time.Minute, says("done"))
				r := h.submit("lead", "go")
				cfg := agentd.Config{Poison: limit}
				for i := range 1 + begun {
					w := h.startWorker(fmt.Sprint("dies", i), workerOptions{Config: cfg})
					h.awaitRequests("lead", i+1)
					w.kill()
					if i == 0 {
						h.fetchCall(r, unbegun-1)
					}
				}
				h.startWorker("patient", workerOptions{Config: cfg})
				if want == "" {
					h.expectCompleted(r, "done")
					return
				}
				h.expectFailed(r, want, fmt.Sprintf("given up after %d deliveries of the message that moves it: "+
					"%d ended without a word from their worker; %d whose worker may not have begun do not count",
					unbegun+begun, limit, unbegun-limit/2))
			})
		})
	}
}

// fetchCall takes the call of a run for a number of times, and gives it back at
// once without a word.
func (h *harness) fetchCall(r subjects.Run, times int) {
	_, js := h.conn.NATS()
	consumer, err := js.Consumer(h.ctx, h.conn.Space().Stream(0).Name, "agent_"+r.Agent.String())
	if err != nil {
		h.tb.Fatal(err)
	}
	for range times {
		m, err := consumer.Next()
		if err == nil {
			err = m.Nak()
		}
		if err != nil {
			h.tb.Fatal(err)
		}
	}
}

// TestLostLeasesPoisonNothing: a worker that was frozen for longer than its
// lease finds that another worker has the run, and stores a return. Its
// delivery does not count against the run.
func TestLostLeasesPoisonNothing(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		const limit, freezes = 2, 6
		h.callingLead(nil)
		h.models["lead"] = delayed(3*time.Minute, says("done"))
		frozen := make([]atomic.Bool, freezes+1)
		start := func(i int) {
			cfg := agentd.Config{Poison: limit, Slots: 1} // no slot for another delivery
			h.startWorker(fmt.Sprint("w", i), workerOptions{Config: cfg, frozen: &frozen[i]})
		}
		start(0)
		h.awaitReady()
		r := h.submit("lead", "go")
		for i := range freezes {
			h.awaitRequests("lead", i+1)
			frozen[i].Store(true)
			start(i + 1)
			h.awaitRequests("lead", i+2)
			frozen[i].Store(false)
			key := h.returnKey(r, i+1)
			h.eventually("the return of "+key, func() bool {
				c := h.returns(r)[key].Cause
				return c != "" && c != run.ReturnBegun
			})
			if got := h.returns(r)[key]; got.Cause != run.ReturnLeaseLost || got.AskedMS < 1000 || got.Turn != 1 {
				t.Errorf("return %+v, want cause %s, turn 1, and a second at least", got, run.ReturnLeaseLost)
			}
			h.workers[i].drain()
		}
		if o := h.expectCompleted(r, "done"); o.Worker != fmt.Sprint("w", freezes) {
			t.Errorf("worker %s answered, want the last one", o.Worker)
		}
		if n := len(h.requests("lead")); n != freezes+1 {
			t.Errorf("%d requests, want %d: one, and one for each takeover", n, freezes+1)
		}
		h.checkVerified()
	})
}

// TestReturnTellsTheSuccessor: the return of a drained worker has the turn, the
// attempt and the time for which the model was asked. It is stored before the
// call goes back. The successor logs it and goes on with the same attempt.
// Verify counts the request as wasted. All of that holds too if the successor
// stores that it begins, as it does beyond half of Config.Poison.
func TestReturnTellsTheSuccessor(t *testing.T) {
	t.Parallel()
	for _, poison := range []int{0, 2} { // 0 for the default
		t.Run(strconv.Itoa(poison), func(t *testing.T) { testReturnTells(t, poison) })
	}
}

func testReturnTells(t *testing.T, poison int) {
	t.Helper()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil, withRetry(3))}
		h.models["lead"] = failsTimes(1, busy, delayed(time.Minute, says("done")))
		r := h.root("lead")
		var stored, backBefore atomic.Bool
		w := h.startWorker("one", workerOptions{
			Config: agentd.Config{Grace: 2 * time.Second, Poison: poison},
			atStep: func(s step) error {
				switch {
				case s.Op == "write" && s.After && strings.Contains(s.Subject, ".in.returned."):
					stored.Store(true)
				case s.Op == "nak" && s.Subject == r.Call() && !stored.Load():
					backBefore.Store(true)
				}
				return nil
			},
		})
		h.submitTo(r, "go")
		h.awaitRequests("lead", 2)
		time.Sleep(3 * time.Second)
		log, lines := storyLog(slog.LevelInfo)
		w.drain()
		if !stored.Load() || backBefore.Load() {
			t.Errorf("the return is stored: %t, the call went back before: %t, want true and false",
				stored.Load(), backBefore.Load())
		}
		h.startWorker("two", workerOptions{Config: agentd.Config{Log: log, Poison: poison}})
		if o := h.expectCompleted(r, "done"); o.Retries != 1 || o.Worker != "two" {
			t.Errorf("worker %s answered after %d retries, want two after 1", o.Worker, o.Retries)
		}
		got := h.returns(r)
		key := h.returnKey(r, 1)
		// The wait of 3 s above, and the grace of 2 s.
		want := map[string]run.Return{
			key: {Cause: run.ReturnDrained, Turn: 1, AskedMS: 5000, Attempt: 2, Worker: "one"},
		}
		if ms := got[key].AskedMS; ms > 5000 && ms < 5200 { // awaitRequests polls
			want[key] = run.Return{Cause: run.ReturnDrained, Turn: 1, AskedMS: ms, Attempt: 2, Worker: "one"}
		}
		if poison == 2 {
			want[h.returnKey(r, 2)] = run.Return{Cause: run.ReturnBegun, Worker: "two"}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the returns of the run (-want +got):\n%s", diff)
		}
		h.expectLines(lines(), `level=INFO msg="run handed on" tree=`+r.Tree.String()+
			` agent=`+r.Agent.String()+` path=r turn=1 from=one cause=drained`)
		if report := h.verifyAll(); report.WastedRequests != 1 || report.WastedMS != got[key].AskedMS {
			t.Errorf("verify counts %d requests and %d ms as wasted, want 1 and %d",
				report.WastedRequests, report.WastedMS, got[key].AskedMS)
		}
	})
}

// TestFailureIsReturned: a return names the error of a write that failed, cut
// between two characters if it is long. A run without a fault has no return.
func TestFailureIsReturned(t *testing.T) {
	t.Parallel()
	long := "a" + strings.Repeat("é", 200)
	for name, tt := range map[string]struct {
		fail error
		want string
	}{
		"failed":           {errBusBroken, errBusBroken.Error()},
		"failed at length": {errors.New(long), long[:299] + "…"},
		"without a fault":  {},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.callingLead([]string{"leaf"}, call("leaf", "x"))
				var failed atomic.Bool
				failed.Store(tt.fail == nil)
				h.startWorker("w", workerOptions{atStep: func(s step) error {
					if s.Op == "write" && strings.HasSuffix(s.Subject, ".log") && failed.CompareAndSwap(false, true) {
						return tt.fail
					}
					return nil
				}})
				r := h.submit("lead", "go")
				h.expectCompleted(r, "c0=leaf")
				want := map[string]run.Return{}
				if tt.fail != nil {
					// A request that took no time counts as
					// 1 ms.
					want[h.returnKey(r, 1)] = run.Return{
						Cause: run.ReturnFailed, Error: tt.want, Turn: 1, AskedMS: 1, Worker: "w",
					}
				}
				if diff := cmp.Diff(want, h.returns(r)); diff != "" {
					t.Errorf("the returns of the run (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestLateReturnsChangeNothing: returns that come late, from outside, or with
// bodies that no worker writes do not change a tree. Neither do messages of a
// kind that this version does not know.
func TestLateReturnsChangeNothing(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		h.models["leaf"] = delayed(30*time.Second, says("leaf"))
		h.startWorker("w", workerOptions{})
		r := h.submit("lead", "go")
		h.awaitRequests("leaf", 1)
		publish := func() {
			call := h.readAll(r.Call())[0].Seq
			for _, at := range []subjects.Run{r, h.child(r, "leaf", 0)} {
				h.publish(at.Returned(subjects.ReturnKey(call, 1)), `{"cause":"drained","worker":"w"}`)
				h.publish(at.Returned(subjects.ReturnKey(call, 2)), `{"cause":"lease_lost","worker":"w","turn":7}`)
				h.publish(at.Returned(subjects.ReturnKey(call, 3)), `nonsense`)
				h.publish(at.Returned(h.key("no-delivery")), `{"cause":"drained"}`)
				unknown := strings.TrimSuffix(at.Call(), "call") + "in.later.7-1"
				h.publish(unknown, `{"cause":"drained"}`)
			}
		}
		publish()
		h.expectCompleted(r, "c0=leaf")
		publish()
		time.Sleep(time.Minute)
		if n := len(h.requests("")); n != 3 {
			t.Errorf("%d requests, want three", n)
		}
		if err := h.workers[0].WaitIdle(h.ctx); err != nil {
			t.Errorf("the worker is not idle: %v", err)
		}
		if report := h.verifyAll(); report.Violations() > 0 || report.WastedRequests > 0 {
			t.Errorf("verify: %+v, want no violation and no wasted request", report)
		}
	})
}

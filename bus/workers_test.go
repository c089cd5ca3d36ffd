package bus

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/axebus/axe/subjects"
)

// TestWorkersOfAnUnusedBus: a bus has no workers, and that is no error, until
// the first worker has stored its entry.
func TestWorkersOfAnUnusedBus(t *testing.T) {
	t.Parallel()
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	if all, err := c.Workers().List(t.Context(), time.Time{}); err != nil || len(all) > 0 {
		t.Errorf("before the first entry: got %d entries, %v; want none", len(all), err)
	}
	if _, err := c.Workers().Swap(t.Context(), subjects.WorkerOf("w1"), 0, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if all, err := c.Workers().List(t.Context(), time.Time{}); err != nil || len(all) != 1 {
		t.Errorf("after it: got %d entries, %v; want one", len(all), err)
	}
}

// TestIsGone: a worker without a process is gone. One that answers is not, nor
// one that is away for a moment. Soon after a reconnect no worker is gone.
func TestIsGone(t *testing.T) {
	t.Parallel()
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		server := serveT(t, ServerConfig{})
		c, other := openT(t, Dial{Server: server}, true), openT(t, Dial{Server: server}, false)
		answer := func(name string) {
			none := Answers{Recall: func(string) []byte { return nil }}
			if err := other.Workers().Answer(t.Context(), subjects.WorkerOf(name), none); err != nil {
				t.Error(err)
			}
			if err := other.nc.Flush(); err != nil {
				t.Error(err)
			}
		}
		expect := func(name string, want bool) {
			t.Helper()
			if got := c.Workers().IsGone(t.Context(), subjects.WorkerOf(name)); got != want {
				t.Errorf("worker %s is gone: %t, want %t", name, got, want)
			}
		}
		answer("there")
		expect("there", false)
		expect("nobody", true)
		time.AfterFunc(goneInterval*3/2, func() { answer("away") })
		expect("away", false)
		if err := c.nc.ForceReconnect(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		expect("nobody", false)
		time.Sleep(settleTime)
		expect("nobody", true)
	})
}

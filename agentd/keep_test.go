package agentd_test

import (
	"errors"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// limitBytes sets the size from which on no new tree begins.
func (h *harness) limitBytes(size string) {
	h.edit(func(c *jetstream.StreamConfig) {
		c.Metadata = maps.Clone(c.Metadata)
		c.Metadata["axe-max-bytes"] = size
	})
}

// TestFullStreams: at the size of the streams a worker begins no new tree. Its
// running trees end. With room again the waiting tasks go on. A worker that
// waits for room drains at once.
func TestFullStreams(t *testing.T) {
	thorough(t)
	t.Parallel()
	withPartitions(t, 1, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		h.models["lead"] = turns(calls(call("leaf", "1"), call("leaf", "2")), joinsResults)
		h.models["leaf"] = delayed(time.Minute, repeats)
		log, lines := storyLog(slog.LevelInfo)
		w := h.startWorker("w", workerOptions{Config: agentd.Config{Log: log}})
		h.awaitReady()
		running := h.submit("lead", "x")
		h.awaitRequests("leaf", 2)
		h.limitBytes("1")
		time.Sleep(10 * time.Second)
		if err := h.conn.Health.Room(h.ctx); !errors.Is(err, bus.ErrNoRoom) {
			h.tb.Errorf("room: got %v, want %v", err, bus.ErrNoRoom)
		}
		waiting := h.submit("lead", "y")
		h.expectCompleted(running, "c0=1|c1=2")
		time.Sleep(5 * time.Minute)
		if ms := h.readTree(waiting.Tree); len(ms) > 0 {
			t.Errorf("%d messages of a tree without room, want none", len(ms))
		}
		h.expectLines(withText(lines(), "level=ERROR"), `limit="keep-bytes=1"`)
		began := time.Now()
		w.stop()
		<-w.ended
		h.tookAtMost(began, 10*time.Second)
		h.startWorker("v", workerOptions{})
		h.awaitReady()
		h.limitBytes("0")
		h.expectCompleted(waiting, "c0=1|c1=2")
		h.checkVerified()
	})
}

// TestTreeThatIsKeptTooShort: a worker refuses a tree that may take longer than
// its messages are kept, and says which time is right.
func TestTreeThatIsKeptTooShort(t *testing.T) {
	t.Parallel()
	withPartitions(t, 1, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		h.models["leaf"] = repeats
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		h.edit(func(c *jetstream.StreamConfig) {
			c.MaxAge = time.Minute
			c.Duplicates = time.Minute
		})
		time.Sleep(5 * time.Second)
		h.expectFailed(h.submit("leaf", "x"), run.KindError,
			"submission refused: the tree may take 1h0m0s and its messages are kept for 1m0s; "+
				"submit it with a shorter time (Axe-Timeout: 48), or start a worker with a longer --keep")
		r := h.root("leaf")
		h.submitTo(r, "y", [2]string{subjects.HeaderTimeout, "48"})
		h.expectCompleted(r, "y")
	})
}

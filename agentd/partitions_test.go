package agentd_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// TestPartitions: the same workers serve trees of all partitions. One tree of
// each partition is cancelled, and the others complete.
func TestPartitions(t *testing.T) {
	t.Parallel()
	withPartitions(t, 4, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		h.models["lead"] = turns(splitsTask("leaf", 3), joinsResults)
		h.models["leaf"] = delayed(10*time.Second, repeats)
		h.startWorker("w1", workerOptions{})
		h.startWorker("w2", workerOptions{})
		h.awaitReady()
		byPartition := map[int][]subjects.Run{}
		n := 0
		for ; n < 20 || len(byPartition) < 4 && n < 1000; n++ {
			r := h.submit("lead", strconv.Itoa(n))
			byPartition[r.Partition()] = append(byPartition[r.Partition()], r)
		}
		if len(byPartition) != 4 {
			t.Fatalf("a thousand trees are in %d partitions, want 4", len(byPartition))
		}
		h.awaitRequests("leaf", 3*n)
		people := client.New(h.conn)
		for _, trees := range byPartition {
			if err := people.Cancel(h.ctx, trees[0].Tree, subjects.Root, "enough"); err != nil {
				t.Errorf("cancel %s: %v", trees[0], err)
			}
		}
		for _, trees := range byPartition {
			if o := h.awaitOutcome(trees[0], time.Minute); o.Kind != run.KindCancelled {
				t.Errorf("%s: %s %s, want it cancelled", trees[0], o.Status, o.Error)
			}
			for _, r := range trees[1:] {
				if o := h.awaitOutcome(r, time.Minute); o.Status != run.StatusCompleted {
					t.Errorf("%s: %s, want it completed", r, o.Error)
				}
			}
		}
		h.checkVerified()
	})
}

// TestCopyIsOfTheSamePartition: a copy is in the partition of its original,
// since it refers to the original's messages by their sequences.
func TestCopyIsOfTheSamePartition(t *testing.T) {
	t.Parallel()
	withPartitions(t, 4, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		h.models["lead"] = turns(splitsTask("leaf", 2), joinsResults)
		h.startWorker("w1", workerOptions{})
		h.awaitReady()
		people := client.New(h.conn)
		for i := range 8 {
			r := h.submit("lead", strconv.Itoa(i))
			h.awaitOutcome(r, time.Minute)
			id, err := people.Fork(
				h.ctx,
				client.ForkTask{Tree: r.Tree, Path: subjects.Root, Turn: 1, Prompt: "and now?"},
			)
			if err != nil {
				t.Fatal(err)
			}
			copied := r.Space.Run(r.Agent, id, subjects.Root)
			if copied.Partition() != r.Partition() {
				t.Errorf("the copy of %s is in partition %d, want %d", r, copied.Partition(), r.Partition())
			}
			if o := h.awaitOutcome(copied, time.Minute); o.Status != run.StatusCompleted {
				t.Errorf("%s: %s, want it completed", copied, o.Error)
			}
		}
	})
}

// TestDeadLettersOfPartitions: dead letters of all partitions have different
// numbers. An error about a dead letter names its number too.
func TestDeadLettersOfPartitions(t *testing.T) {
	t.Parallel()
	withPartitions(t, 4, func(h *harness) {
		h.callingLead(nil)
		h.startWorker("w1", workerOptions{})
		h.awaitReady()
		for i := range 12 {
			h.publish(fmt.Sprintf("axe.submit.lead.not-an-id-%d", i), "garbage")
		}
		people := client.New(h.conn)
		var all []client.DeadLetter
		h.eventually("twelve dead letters", func() bool {
			var err error
			if all, err = people.DeadLetters(h.ctx); err != nil {
				t.Fatal(err)
			}
			return len(all) == 12
		})
		seen := map[uint64]bool{}
		for i, l := range all {
			if seen[l.ID] || i > 0 && l.Time.Before(all[i-1].Time) {
				t.Errorf("dead letter %d of %s has the number of another one, or is older than the one before it",
					l.ID, l.Time)
			}
			seen[l.ID] = true
			again, err := people.DeadLetter(h.ctx, l.ID)
			if err != nil || again.Subject != l.Subject {
				t.Errorf("dead letter %d is of %s by its number, and of %s in the list: %v",
					l.ID, again.Subject, l.Subject, err)
			}
		}
		if _, err := people.DeadLetter(h.ctx, 1<<40); !errors.Is(err, client.ErrUnknownDeadLetter) {
			t.Errorf("a dead letter with an unknown number: error %v, want %v", err, client.ErrUnknownDeadLetter)
		}

		_, js := h.conn.NATS()
		if err := js.DeleteStream(h.ctx, "OBJ_AXE_OBJECTS"); err != nil {
			t.Fatal(err)
		}
		r := h.root("lead")
		seq, err := h.conn.Write(h.ctx, bus.Message{
			Subject: r.Dead(), Header: [][2]string{{"Axe-Object", "x"}, {"Axe-Size", "1"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("dead letter %d: ", seq*4+uint64(r.Partition()))
		if _, err := people.DeadLetters(h.ctx); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("a dead letter with a lost body: error %v, want %s…", err, want)
		}
	})
}

package agentd_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// TestPartitions: trees of all partitions are served by the same workers,
// cancelled, forked and verified, and each of them is on one stream.
func TestPartitions(t *testing.T) {
	onStageOver(t, 4, func(s *stage) {
		s.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		s.parts["lead"] = turns(splits("leaf", 3), sums)
		s.parts["leaf"] = after(10*time.Second, repeats)
		s.hire("w1", engagement{})
		s.hire("w2", engagement{})
		s.settle()
		byPart := map[int][]subjects.Run{}
		n := 0
		for ; n < 20 || len(byPart) < 4 && n < 1000; n++ {
			r := s.submit("lead", strconv.Itoa(n))
			byPart[r.Partition()] = append(byPart[r.Partition()], r)
		}
		if len(byPart) != 4 {
			t.Fatalf("a thousand trees are in %d partitions", len(byPart))
		}
		s.asking("leaf", 3*n)
		people := client.New(s.conn)
		for _, trees := range byPart { // one of each
			if err := people.Cancel(s.ctx, trees[0].Tree, subjects.Root, "enough"); err != nil {
				t.Error(err)
			}
		}
		for _, trees := range byPart {
			if o := s.result(trees[0], time.Minute); o.Kind != run.KindCancelled {
				t.Errorf("%s: %s %s", trees[0], o.Status, o.Error)
			}
			for _, r := range trees[1:] {
				if o := s.result(r, time.Minute); o.Status != run.StatusCompleted {
					t.Errorf("%s: %s", r, o.Error)
				}
			}
		}
		s.clean()
	})
}

// TestCopyIsOfTheSamePartition, since what it knows from the tree that it goes
// on from is known by its place in a stream.
func TestCopyIsOfTheSamePartition(t *testing.T) {
	onStageOver(t, 4, func(s *stage) {
		s.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		s.parts["lead"] = turns(splits("leaf", 2), sums)
		s.hire("w1", engagement{})
		s.settle()
		people := client.New(s.conn)
		for i := range 8 {
			r := s.submit("lead", strconv.Itoa(i))
			s.result(r, time.Minute)
			id, err := people.Fork(
				s.ctx,
				client.ForkTask{Tree: r.Tree, Path: subjects.Root, Turn: 1, Prompt: "and now?"},
			)
			if err != nil {
				t.Fatal(err)
			}
			copied := r.Space.Run(r.Agent, id, subjects.Root)
			if copied.Partition() != r.Partition() {
				t.Errorf("%s is of partition %d, its copy of %d", r, r.Partition(), copied.Partition())
			}
			if o := s.result(copied, time.Minute); o.Status != run.StatusCompleted {
				t.Errorf("%s: %s", copied, o.Error)
			}
		}
	})
}

// TestDeadLettersOfPartitions have numbers of their own.
func TestDeadLettersOfPartitions(t *testing.T) {
	onStageOver(t, 4, func(s *stage) {
		s.lead(nil)
		s.hire("w1", engagement{})
		s.settle()
		for i := range 12 {
			s.pub(fmt.Sprintf("axe.submit.lead.not-an-id-%d", i), "garbage")
		}
		people := client.New(s.conn)
		var all []client.DeadLetter
		s.eventually("twelve dead letters", func() bool {
			var err error
			if all, err = people.DeadLetters(s.ctx); err != nil {
				t.Fatal(err)
			}
			return len(all) == 12
		})
		seen := map[uint64]bool{}
		for i, l := range all {
			if seen[l.ID] || i > 0 && l.Time.Before(all[i-1].Time) {
				t.Errorf("letter %d at %s", l.ID, l.Time)
			}
			seen[l.ID] = true
			again, err := people.DeadLetter(s.ctx, l.ID)
			if err != nil || again.Subject != l.Subject {
				t.Errorf("letter %d is %s, and %s of all: %v", l.ID, again.Subject, l.Subject, err)
			}
		}
		if _, err := people.DeadLetter(s.ctx, 1<<40); !errors.Is(err, client.ErrUnknownDeadLetter) {
			t.Error(err)
		}
	})
}

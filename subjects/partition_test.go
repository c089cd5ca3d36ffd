package subjects

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// TestPartitionIsThatOfNATS: a tree is in the partition that a subject mapping
// of the NATS server computes for its id. A thousand trees use all partitions.
func TestPartitionIsThatOfNATS(t *testing.T) {
	for _, n := range []int{2, 3, 4, 16, 64} {
		mapping, err := server.NewSubjectTransform("tree.*", fmt.Sprintf("{{partition(%d,1)}}", n))
		if err != nil {
			t.Fatal(err)
		}
		s, used := Space{}.Spread(n), map[int]bool{}
		for i := range 1000 {
			tree := must(t, ParseTree, fmt.Sprintf("T%dx", i*i))
			want, err := mapping.Match("tree." + tree.String())
			if err != nil {
				t.Fatal(err)
			}
			if got := s.PartitionOf(tree); strconv.Itoa(got) != want {
				t.Fatalf("tree %s is in partition %d of %d, the server computes %s", tree, got, n, want)
			}
			used[s.PartitionOf(tree)] = true
		}
		if len(used) != n {
			t.Errorf("a thousand trees are in %d of %d partitions, want all", len(used), n)
		}
	}
}

// TestStoredSubjectNamesItsPartition: each stored subject of a tree has the
// partition that follows from the tree's id. Any other partition is refused.
// Live copies and submissions have none.
func TestStoredSubjectNamesItsPartition(t *testing.T) {
	one := must(t, NewSpace, "team.axe")
	if one.Spread(1) != one || one.Spread(0) != one || one.Spread(4).Spread(1) != one {
		t.Error("a space of one partition differs from one that is not spread")
	}
	s := one.Spread(4)
	agent := must(t, ParseAgent, "lead")
	for i := range 20 {
		tree := must(t, ParseTree, fmt.Sprint("T", i))
		p := s.PartitionOf(tree)
		r := s.Run(agent, tree, Root.Child(2, 1))
		if r.Partition() != p {
			t.Errorf("run %s is in partition %d, want %d, that of its tree", r, r.Partition(), p)
		}
		stored := fmt.Sprintf("team.axe.%d.", p)
		for _, subject := range []string{
			r.Call(), r.Log(), r.Reply(3, 0), r.Mail(must(t, ParseKey, "k")), r.Fired(1), r.Due(1),
			r.Cancel(), s.Result(agent, tree),
			r.Timer(1), r.Dead(), s.Tally(tree, Root),
		} {
			rest, ok := strings.CutPrefix(subject, stored)
			if !ok {
				t.Errorf("%s does not begin with %s", subject, stored)
			}
			if got, ok := s.PartitionIn(subject); got != p || !ok {
				t.Errorf("%s names partition %d, %t, want %d, true", subject, got, ok, p)
			}
			if live := s.Live(subject); live != "team.axe.live."+rest {
				t.Errorf("the live copy of %s is %s, want team.axe.live.%s", subject, live, rest)
			}
			for name, wrong := range map[string]string{
				"another partition": fmt.Sprintf("team.axe.%d.%s", (p+1)%4, rest),
				"no partition":      "team.axe." + rest, "a partition that does not exist": "team.axe.4." + rest,
			} {
				if err := s.parseStored(wrong); !errors.Is(err, ErrToken) {
					t.Errorf("%s, with %s: error %v, want one that wraps ErrToken", wrong, name, err)
				}
			}
			if err := s.parseStored(subject); err != nil {
				t.Errorf("%s: error %v, want none", subject, err)
			}
			if err := one.parseStored(subject); err == nil {
				t.Errorf("a space that is not spread parses %s", subject)
			}
		}
		for _, subject := range []string{
			s.Submit(agent, tree), s.Live(r.Call()), s.Live(s.Result(agent, tree)), r.Progress(),
		} {
			if a, err := s.Parse(subject); err != nil || a.Run.Tree != tree || a.Run.Space != s {
				t.Errorf("%s parses to %+v, error %v, want tree %s", subject, a, err, tree)
			}
		}
	}
	for filter, want := range map[string]string{
		s.Calls(agent): "team.axe.*.run.lead.*.*.call", s.All(): "team.axe.*.>",
		s.Submissions(): "team.axe.submit.>", s.Live(s.Results()): "team.axe.live.result.>",
	} {
		if filter != want {
			t.Errorf("got the filter %s, want %s", filter, want)
		}
	}
	if _, ok := s.PartitionIn(s.Timers()); ok {
		t.Error("PartitionIn found a partition in a filter for all partitions")
	}
	st := s.Stream(2)
	if st.Name != "TEAM_AXE_RUNS_2" || st.All != "team.axe.2.>" || st.Subjects[0] != "team.axe.2.run.>" ||
		s.Stream(0).Name != one.Stream(0).Name {
		t.Errorf("the stream of partition 2 is %+v, that of partition 0 %+v; want TEAM_AXE_RUNS_2 and %s",
			st, s.Stream(0), one.Stream(0).Name)
	}
}

// parseStored returns the error of parsing a stored subject of any kind.
func (s Space) parseStored(subject string) error {
	rest, _, _ := s.unprefixed(subject)
	var err error
	switch kind, _, _ := strings.Cut(rest, "."); kind {
	case "timer":
		_, _, err = s.ParseTimer(subject)
	case "dead":
		_, err = s.ParseDead(subject)
	case "tally":
		_, _, err = s.ParseTally(subject)
	default:
		_, err = s.Parse(subject)
	}
	return err
}

// TestAbsolute: a stored message of a tree has the same place in every space. A
// subject of another tree, a timer, a submission and a pattern have none.
func TestAbsolute(t *testing.T) {
	other, err := NewSpace("acme.eu")
	if err != nil {
		t.Fatal(err)
	}
	tree := Tree{"T1"}
	for _, from := range []Space{{}, other, other.Spread(3)} {
		r := from.Run(Agent{"a"}, tree, Root)
		all := []string{r.Call(), r.Log(), r.Reply(1, 0), r.Dead(), from.Tally(tree, Root), r.Result()}
		for _, subject := range all {
			rel, ok := from.Relative(subject)
			if again, err := Absolute(from, tree, rel); !ok || err != nil || again != subject {
				t.Errorf("%s: got %s, %t, %v", subject, again, ok, err)
			}
			for _, to := range []Space{{}, other.Spread(7)} {
				moved, err := Absolute(to, tree, rel)
				if back, _ := to.Relative(moved); err != nil || back != rel {
					t.Errorf("%s in another space: got %s, %v", rel, moved, err)
				}
			}
		}
	}
	for _, rel := range []string{
		"", "run", "run.a.T2.r.call", "timer.a.T1.r.0", "submit.a.T1", "run.a.T1.>", "run.*.T1.r.log",
		"run.a.T1.r. log", "live.a.T1.r", "result.a.T1\nx",
	} {
		if got, err := Absolute(Space{}, tree, rel); err == nil {
			t.Errorf("%q: got %s, want an error", rel, got)
		}
	}
}

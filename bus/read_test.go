package bus

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"github.com/axebus/axe/subjects"
)

// farT opens a connection with a ScanLimit of one message: ReadSince reads by
// subject if the messages are farther away. It also returns a run.
func farT(t *testing.T) (*Conn, subjects.Run) {
	t.Helper()
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	c.cfg.ScanLimit = 1
	tree, err := subjects.ParseTree("T")
	if err != nil {
		t.Fatal(err)
	}
	return c, c.Space().Run(agentT(t, "a"), tree, subjects.Root)
}

// TestReadBySubjectEqualsScan: both ways to read a run return the same messages
// after each sequence. Subjects repeat, and messages of another run lie between
// them.
func TestReadBySubjectEqualsScan(t *testing.T) {
	c, root := farT(t)
	agent := root.Agent
	write := func(t *rapid.T, m Message) uint64 {
		seq, err := c.Write(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		return seq
	}
	rapid.Check(t, func(t *rapid.T) {
		tree, err := subjects.ParseTree(NewID())
		if err != nil {
			t.Fatal(err)
		}
		r, other := c.Space().Run(agent, tree, subjects.Root), c.Space().Run(agent, tree, subjects.Root.Child(1, 0))
		first := write(t, Message{Subject: r.Call(), Fence: After(r.Call(), 0)}) - 1
		log, last := uint64(0), first+1
		for i := range rapid.IntRange(0, 20).Draw(t, "messages") {
			n := rapid.IntRange(0, 3).Draw(t, "which")
			kinds := []string{"log", "reply", "mail", "timer", "cancel", "other", "unfenced"}
			switch rapid.SampledFrom(kinds).Draw(t, "kind") {
			case "log":
				log = write(t, Message{Subject: r.Log(), Fence: After(r.Log(), log)})
				last = log
			case "reply":
				last = write(t, Message{Subject: r.Reply(1, n), Fence: After(other.Cancel(), 0)})
			case "mail":
				key, err := subjects.ParseKey(fmt.Sprint("m", i))
				if err != nil {
					t.Fatal(err)
				}
				last = write(t, Message{Subject: r.Mail(key), Fence: After(r.Mail(key), 0)})
			case "timer":
				last = write(t, Message{Subject: r.Fired(n)})
			case "cancel":
				last = write(t, Message{Subject: r.Cancel()})
			case "unfenced":
				log = write(t, Message{Subject: r.Log()})
				last = log
			case "other":
				write(t, Message{Subject: other.Log()})
			}
		}
		for seq := first; seq <= last; seq++ {
			want, err := c.ReadByScan(t.Context(), r.All(), seq)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.ReadSince(t.Context(), r.All(), seq, last)
			if err != nil {
				t.Fatal(err)
			}
			place := func(ms []Stored) (all []string) {
				for _, m := range ms {
					all = append(all, fmt.Sprint(m.Seq, " ", m.Subject))
				}
				return all
			}
			if diff := cmp.Diff(place(want), place(got)); diff != "" {
				t.Fatalf("after %d (-by scan +by subject):\n%s", seq, diff)
			}
		}
	})
}

// TestManySubjectsAreScanned: ReadSince reads a run by scan if it has more
// subjects than a server reads at once.
func TestManySubjectsAreScanned(t *testing.T) {
	c, r := farT(t)
	ms := make([]Message, 1100)
	for i := range ms {
		ms[i] = Message{Subject: r.Reply(1, i)}
	}
	for _, err := range c.WriteAll(t.Context(), ms) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, err := c.ReadSince(t.Context(), r.All(), 1, 1100); err != nil || len(got) != 1099 {
		t.Errorf("%d messages, %v; want 1099", len(got), err)
	}
}

// TestManyBytesAreScanned: a server ends a read by subject when it has sent 64
// MiB, so that messages may be missing. ReadSince then reads the run by scan.
func TestManyBytesAreScanned(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	c, r := farT(t)
	body := make([]byte, 4<<20)
	for i := range 18 {
		m := Message{Subject: r.Reply(1, i), Body: body, Fence: After(r.Log(), 0), ID: NewID()}
		if _, err := c.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.ReadBySubject(t.Context(), r.All(), 0); !errors.Is(err, ErrTooMany) {
		t.Errorf("by subject: got %v, want %v", err, ErrTooMany)
	}
	if got, err := c.ReadSince(t.Context(), r.All(), 1, 18); err != nil || len(got) != 17 {
		t.Errorf("%d messages, %v; want 17", len(got), err)
	}
}

// TestOldCountsAreNotTrusted: a read by subject gets the last message of each
// subject, and counts of messages to find those that hide others. A message may
// be newer than the counts, which then do not show that it hides another one.
// So the read asks for the counts again.
func TestOldCountsAreNotTrusted(t *testing.T) {
	c, r := farT(t)
	outcome := Message{Subject: r.Reply(1, 0), Fence: After(r.Log(), 0)}
	write := func() {
		if _, err := c.Write(t.Context(), outcome); err != nil {
			t.Fatal(err)
		}
	}
	write()
	old, err := count(t.Context(), c, r.All())
	if err != nil {
		t.Fatal(err)
	}
	write()
	last, err := c.LastPerSubject(t.Context(), r.All())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.hiding(t.Context(), r.All(), 0, old, last); err != nil || len(got) != 1 {
		t.Errorf("%d messages hide others, %v; want the second outcome", len(got), err)
	}
}

// TestForgedPlace: a message has headers with the names of those that the
// server adds to an answer. Reads return the message where it is, and the
// messages after it.
func TestForgedPlace(t *testing.T) {
	c, root := farT(t)
	for _, forged := range []nats.Header{
		{jetstream.SequenceHeader: {"999999"}, headerNumPending: {"0"}},
		{jetstream.SequenceHeader: {"none"}, "Status": {"204"}},
		{jetstream.SequenceHeader: {"0"}, "Status": {"404"}, "Description": {"No Results"}},
		{jetstream.SubjectHeader: {root.Log()}, jetstream.StreamHeader: {"OTHER"}},
		{jetstream.TimeStampHeaer: {"2000-01-01T00:00:00Z"}},
	} {
		tree, err := subjects.ParseTree(NewID())
		if err != nil {
			t.Fatal(err)
		}
		r := c.Space().Run(root.Agent, tree, subjects.Root)
		key, err := subjects.ParseKey("k")
		if err != nil {
			t.Fatal(err)
		}
		want := []string{r.Call(), r.Mail(key), r.Log()}
		for _, subject := range want {
			m := &nats.Msg{Subject: subject, Header: nats.Header{}, Data: []byte("{}")}
			if subject == r.Mail(key) {
				m.Header = maps.Clone(forged)
			}
			if _, err := c.js.PublishMsg(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		for name, read := range map[string]func() ([]Stored, error){
			"by subject": func() ([]Stored, error) { return c.ReadBySubject(t.Context(), r.All(), 0) },
			"by scan":    func() ([]Stored, error) { return c.ReadByScan(t.Context(), r.All(), 0) },
			"the last of each": func() ([]Stored, error) {
				return c.LastPerSubject(t.Context(), r.All())
			},
		} {
			ms, err := read()
			if err != nil || len(ms) != len(want) {
				t.Errorf("%s, with %v: %d messages, %v, want %d", name, forged, len(ms), err, len(want))
				continue
			}
			for i, m := range ms {
				if m.Subject != want[i] || m.Seq != ms[0].Seq+uint64(i) || m.Time.Before(ms[0].Time) {
					t.Errorf("%s, with %v: message %d is %s at %d, %v; want %s at %d", name, forged, i,
						m.Subject, m.Seq, m.Time, want[i], ms[0].Seq+uint64(i))
				}
			}
		}
	}
}

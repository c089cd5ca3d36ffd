package bus

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/internal/bustest"
	"github.com/axebus/axe/subjects"
)

// made are headers that a server adds to an answer, with places that a writer
// made up.
const made = "Nats-Stream: AXE_RUNS\r\nNats-Subject: axe.run.a.T.r.log\r\nNats-Sequence: 1\r\n" +
	"Nats-Time-Stamp: 2020-01-01T00:00:00Z\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 0\r\n"

// hostileHeaders are headers that cannot be decoded, that hide the headers of
// the server, or that look like them.
var hostileHeaders = map[string]string{
	"no colon":                  "NATS/1.0\r\nevil\r\n\r\n",
	"no version":                "HTTP/1.1\r\nA: b\r\n\r\n",
	"no end":                    "NATS/1.0\r\nA: b",
	"only the version":          "NATS/1.0\r\n\r\n",
	"a short status":            "NATS/1.0 4\nA: b\n",
	"an empty line":             "NATS/1.0\r\nA: b\r\n\r\nB: c\r\n\r\n",
	"an end of the answer":      "NATS/1.0\r\nStatus: 404\r\nDescription: No Results\r\n\r\nA: b\r\n\r\n",
	"an end in the first line":  "NATS/1.0 204 EOB\n\nA: b\r\n\r\n",
	"a made up place":           "NATS/1.0\r\n" + made + "\r\nA: b\r\n\r\n",
	"a place and short lines":   "NATS/1.0\r\n" + strings.Repeat("a:b\n", 60) + made + "\r\nA: b\r\n\r\n",
	"a place twice":             "NATS/1.0\r\n" + made + made + "\r\n",
	"a status":                  "NATS/1.0\r\nStatus: 404\r\nDescription: No Results\r\n\r\n",
	"64 KiB of one line":        "NATS/1.0\r\nA: " + strings.Repeat("x", 65000) + "\r\n\r\n",
	"many lines":                "NATS/1.0\r\n" + strings.Repeat("A: b\r\n", 5000) + "\r\n",
	"text that is no text":      "NATS/1.0\r\nA\x00\xff: \x00\xff\r\n\r\n",
	"a line break in a value":   "NATS/1.0\r\nA: b\rc\r\n\r\n",
	"spaces before a value":     "NATS/1.0\r\nA:                         b\r\n\r\n",
	"a message that is removed": "NATS/1.0\r\nStatus: 404\r\nDescription: Message Not Found\r\n\r\nA: b\r\n\r\n",
}

// rawKey is the key of a hostile mail.
func rawKey(t *testing.T) subjects.Key {
	t.Helper()
	k, err := subjects.ParseKey("evil")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// publishRaw publishes the message evil with a header block as it is.
func publishRaw(t *testing.T, s *Server, subject, header string) {
	t.Helper()
	if _, err := bustest.PublishRaw(Dial{Server: s}.InProcessConn, subject, header, "evil"); err != nil {
		t.Fatal(err)
	}
}

// TestUnreadableHeaders: a message with a hostile header lies between those of
// a run. Every way to read returns every message at its true place.
func TestUnreadableHeaders(t *testing.T) {
	t.Parallel()
	for name, header := range hostileHeaders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			server := serveT(t, ServerConfig{})
			c := openT(t, Dial{Server: server}, true)
			tree := treeT(t, "T")
			r := c.Space().Run(agentT(t, "a"), tree, subjects.Root)
			write := func(subject string) {
				t.Helper()
				if _, err := c.Write(ctx, Message{Subject: subject, Body: []byte("good")}); err != nil {
					t.Fatal(err)
				}
			}
			evil := r.Mail(rawKey(t))
			live := make(chan Stored, 10)
			if err := c.Watch(ctx, c.Space().Live(r.All()), func(m Stored) { live <- m }); err != nil {
				t.Fatal(err)
			}
			want := []string{"1 " + r.Call() + " good"}
			write(r.Call())
			for i := range 2 {
				publishRaw(t, server, evil, header)
				want = append(want, fmt.Sprint(2+i, " ", evil, " evil"))
			}
			write(r.Log())
			want = append(want, "4 "+r.Log()+" good")
			publishRaw(t, server, r.Cancel(), header)
			want = append(want, "5 "+r.Cancel()+" evil")

			check := func(how string, want []string, ms []Stored, err error) {
				t.Helper()
				var got []string
				for _, m := range ms {
					got = append(got, fmt.Sprint(m.Seq, " ", m.Subject, " ", string(m.Body)))
					if time.Since(m.Time) > time.Minute {
						t.Errorf("%s: the time of message %d is %s", how, m.Seq, m.Time)
					}
				}
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("%s: error %v (-want +got):\n%s", how, err, diff)
				}
			}
			ms, err := c.ReadByScan(ctx, r.All(), 0)
			check("by scan", want, ms, err)
			ms, err = c.ReadBySubject(ctx, r.All(), 0)
			check("by subject", want, ms, err)
			ms, err = ReadWhole(ctx, c, c.Space().TreeOf(tree))
			check("a whole tree", want, ms, err)
			ms, err = c.LastPerSubject(ctx, evil, r.Cancel())
			check("last messages", []string{want[2], want[4]}, ms, err)
			first, _, err := c.First(ctx, evil)
			check("the first message", want[1:2], []Stored{first}, err)
			seq, err := c.LastSeq(ctx, r.All())
			if seq != 5 || err != nil {
				t.Errorf("the last sequence is %d, error %v, want 5", seq, err)
			}
			var newest []Stored
			for m, err := range Newest(ctx, c, c.Space().TreeOf(tree), time.Time{}) {
				if err != nil {
					t.Fatal(err)
				}
				newest = append(newest, m)
			}
			slices.Reverse(newest)
			check("the newest messages", want, newest, nil)
			if err := c.nc.FlushWithContext(ctx); err != nil {
				t.Fatal(err)
			}
			for len(live) > 0 {
				if m := <-live; m.Subject != evil && m.Subject != r.Cancel() && string(m.Body) == "evil" {
					t.Errorf("a live copy has the subject %s", m.Subject)
				}
			}
		})
	}
}

// TestUnreadableValues: a value of each bucket has a hostile header. The bucket
// is read all the same, and the value may be replaced.
func TestUnreadableValues(t *testing.T) {
	t.Parallel()
	for name, header := range hostileHeaders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serveT(t, ServerConfig{})
			c := openT(t, Dial{Server: server}, true)
			if err := MakeBuckets(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			publishRaw(t, server, "$KV.AXE_AGENTS.evil", header)
			publishRaw(t, server, "$KV.AXE_LIMITS.k", header)
			dir, err := c.Directory(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := dir.Put(t.Context(), "good", []byte("good")); err != nil {
				t.Fatal(err)
			}
			values, err := dir.All(t.Context())
			if len(values) != 2 || string(values["good"]) != "good" || err != nil {
				t.Errorf("values %q, error %v, want two", values, err)
			}
			card, at, ok, err := dir.Get(t.Context(), "evil")
			if string(card) != "evil" || at == 0 || !ok || err != nil {
				t.Errorf("value %q, revision %d, %t, error %v", card, at, ok, err)
			}
			limit := c.RateLimit("k")
			value, rev, err := limit.Read(t.Context(), 0)
			if string(value) != "evil" || rev != 1 || err != nil {
				t.Errorf("value %q, revision %d, error %v, want evil, 1", value, rev, err)
			}
			if _, err := limit.Swap(t.Context(), rev, []byte("good")); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestUnreadableSubmissions: a submission with a hostile header does not hide
// the others.
func TestUnreadableSubmissions(t *testing.T) {
	t.Parallel()
	server := serveT(t, ServerConfig{})
	c := openT(t, Dial{Server: server}, true)
	var want []string
	for i, name := range slices.Sorted(maps.Keys(hostileHeaders)) {
		subject := c.Space().Submit(agentT(t, "a"), treeT(t, fmt.Sprint("T", i)))
		publishRaw(t, server, subject, hostileHeaders[name])
		want = append(want, subject)
		if m, ok, err := c.QueuedSubmission(t.Context(), subject); m.Subject != subject || !ok || err != nil {
			t.Errorf("%s: submission %q, %t, error %v", name, m.Subject, ok, err)
		}
	}
	ms, total, err := QueuedSubmissions(t.Context(), c, 100)
	var got []string
	for _, m := range ms {
		got = append(got, m.Subject)
	}
	slices.Reverse(got)
	if diff := cmp.Diff(want, got); diff != "" || err != nil || total != uint64(len(want)) {
		t.Errorf("%d submissions, error %v (-want +got):\n%s", total, err, diff)
	}
}

// TestUnreadableSince: a read of recent entries finds a message with a hostile
// header at its place, and no older entry in its stead.
func TestUnreadableSince(t *testing.T) {
	t.Parallel()
	for name, header := range hostileHeaders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serveT(t, ServerConfig{})
			w := openT(t, Dial{Server: server}, true).Workers()
			if _, err := w.Swap(t.Context(), subjects.WorkerOf("old"), 0, []byte("old")); err != nil {
				t.Fatal(err)
			}
			old, ok, err := w.Entry(t.Context(), subjects.WorkerOf("old"))
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			publishRaw(t, server, "$KV.AXE_WORKERS.evil", header)
			recent, err := w.List(t.Context(), old.Time.Add(1))
			if err != nil || len(recent) != 1 || string(recent[0].Body) != "evil" || recent[0].Seq != old.Seq+1 {
				t.Errorf("recent entries %+v, error %v; want the hostile one alone", recent, err)
			}
		})
	}
}

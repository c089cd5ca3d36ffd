package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

func TestSubmitAndWait(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		s.hire()
		tree := s.submit("echo", "hello", "")
		s.answers(tree, "echo: hello")
		begin := time.Now()
		s.answers(tree, "echo: hello")
		if waited := time.Since(begin); waited > 100*time.Millisecond {
			t.Errorf("a result that is there took %v", waited)
		}
	})
}

// TestOneTreePerKey: two submissions of one key at once, and one more
// afterwards, are one run.
func TestOneTreePerKey(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		first := s.submit("lead", "a", "2026-11-21 nightly")
		if again := s.submit("lead", "b", "2026-11-21 nightly"); again != first {
			t.Errorf("trees %s and %s", first, again)
		}
		s.hire()
		o, err := s.Wait(t.Context(), first)
		if err != nil || o.Status != run.StatusCompleted {
			t.Fatalf("%+v, %v", o, err)
		}
		s.submit("lead", "c", "2026-11-21 nightly")
		time.Sleep(time.Minute)
		s.answers(first, o.Result)
		calls := 0
		ms, err := s.conn.ReadByScan(t.Context(), s.conn.Space().TreeOf(first), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			if strings.HasSuffix(m.Subject, ".call") {
				calls++
			}
		}
		if calls != 3 {
			t.Errorf("%d calls, want those of the root and of two children", calls)
		}
		if _, err := s.Submit(t.Context(), client.Task{Agent: s.agent("echo"), ID: first}); !errors.Is(
			err,
			client.ErrIDTaken,
		) {
			t.Errorf("another agent's id: %v", err)
		}
	})
}

func TestKey(t *testing.T) {
	for key, want := range map[string]string{
		"abc123":         "abc123",
		"2026-11-21":     "",
		"":               "",
		"a b":            "",
		"\xff":           "",
		"é":              "",
		"with.dots":      "",
		"axe.submit.*.>": "",
	} {
		got := client.TreeID(key)
		if want != "" && got.String() != want {
			t.Errorf("%q: %s, want %s", key, got, want)
		}
		if want == "" && len(got.String()) != 32 {
			t.Errorf("%q: %s, want 32 digits", key, got)
		}
		if got != client.TreeID(key) {
			t.Errorf("%q: not the same twice", key)
		}
	}
	if client.TreeID("a.b") == client.TreeID("a-b") {
		t.Error("two keys are one tree")
	}
}

func FuzzKey(f *testing.F) {
	f.Add("nightly 2026-11-21")
	f.Fuzz(func(t *testing.T, key string) {
		tree := client.TreeID(key)
		if parsed, err := subjects.ParseTree(tree.String()); err != nil || parsed != tree {
			t.Errorf("%q: %q, %v", key, tree, err)
		}
	})
}

func TestUnknownTree(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		s.hire()
		begin := time.Now()
		_, err := s.Wait(t.Context(), client.TreeID("nosuch"))
		if !errors.Is(err, client.ErrUnknownTree) || !strings.Contains(err.Error(), "nosuch") {
			t.Errorf("wait: %v", err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		if err := s.Cancel(t.Context(), client.TreeID("nosuch"), subjects.Root, ""); !errors.Is(
			err,
			client.ErrUnknownTree,
		) {
			t.Errorf("cancel: %v", err)
		}
		if err := s.Follow(t.Context(), client.TreeID("nosuch"), nil); !errors.Is(err, client.ErrUnknownTree) {
			t.Errorf("follow: %v", err)
		}
	})
}

// TestUnknownAgent: a submission that is refused has a result all the same.
func TestUnknownAgent(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		s.hire()
		tree := s.submit("nobody", "x", "")
		o, err := s.Wait(t.Context(), tree)
		if err != nil || o.Kind != run.KindUnknownAgent {
			t.Errorf("%+v, %v", o, err)
		}
	})
}

func TestTimeout(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		s.hire()
		tree, err := s.Submit(t.Context(), client.Task{Agent: s.agent("slow"), Text: "x", Timeout: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		o, err := s.Wait(t.Context(), tree)
		if err != nil || o.Kind != run.KindTimeout {
			t.Errorf("%+v, %v", o, err)
		}
		if took := time.Since(begin); took < 29*time.Second || took > 35*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestWaitEndsWithItsContext, with the cause, whether or not a worker is there.
func TestWaitEndsWithItsContext(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		tree := s.submit("echo", "x", "")
		if queued, err := s.Queued(t.Context(), tree); err != nil || !queued {
			t.Errorf("queued: %t, %v", queued, err)
		}
		why := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, why)
		defer cancel()
		if _, err := s.Wait(ctx, tree); !errors.Is(err, why) {
			t.Errorf("wait: %v", err)
		}
		s.hire()
		s.answers(tree, "echo: x")
		if queued, err := s.Queued(t.Context(), tree); err != nil || queued {
			t.Errorf("queued: %t, %v", queued, err)
		}
	})
}

// TestFirstResultCounts: of two outcomes, as two zombies would leave them,
// everybody sees the first.
func TestFirstResultCounts(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		tree := s.submit("echo", "x", "")
		for _, text := range []string{"first", "second"} {
			m := bus.Message{
				Subject: s.conn.Space().Result(
					s.agent("echo"),
					tree,
				), Body: []byte(`{"status":"completed","result":"` + text + `"}`),
			}
			if _, err := s.conn.Write(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			s.answers(tree, "first")
		}
	})
}

// TestMalformedResult: what is no outcome is an error, and the wait is over.
func TestMalformedResult(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		tree := s.submit("echo", "x", "")
		m := bus.Message{Subject: s.conn.Space().Result(s.agent("echo"), tree), Body: []byte(`{"status":"perhaps"}`)}
		if _, err := s.conn.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if o, err := s.Wait(t.Context(), tree); err == nil || !strings.Contains(err.Error(), "perhaps") {
			t.Errorf("%+v, %v", o, err)
		}
	})
}

func TestNoStreams(t *testing.T) {
	server, err := bus.Serve(bus.ServerConfig{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conn, err := bus.Open(t.Context(), bus.Config{Dial: bus.Dial{Server: server}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := client.New(conn)
	agent, _ := subjects.ParseAgent("echo")
	if _, err := c.Submit(t.Context(), client.Task{Agent: agent}); !errors.Is(err, bus.ErrNoStream) {
		t.Errorf("submit: %v", err)
	}
	if _, err := c.Wait(t.Context(), client.TreeID("x")); !errors.Is(err, bus.ErrNoStream) {
		t.Errorf("wait: %v", err)
	}
	if err := c.Cancel(t.Context(), client.TreeID("x"), subjects.Root, ""); !errors.Is(err, bus.ErrNoStream) {
		t.Errorf("cancel: %v", err)
	}
}

// TestDeadLetters: a letter brings its message whole, however large, and what
// its run was asked.
func TestDeadLetters(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		s.hire()
		text := strings.Repeat("x", 9<<20)
		r := s.conn.Space().Run(s.agent("echo"), client.TreeID("T1"), subjects.Root)
		body, err := json.Marshal(run.Input{Task: text})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.conn.Write(t.Context(), bus.Message{Subject: r.Call(), Body: body}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		letters, err := s.DeadLetters(t.Context())
		if err != nil || len(letters) != 1 {
			t.Fatalf("%d letters, %v", len(letters), err)
		}
		l := letters[0]
		if l.Run != r || l.Subject != r.Call() || !bytes.Equal(l.Body, body) ||
			!strings.HasPrefix(l.Reason, "malformed call: ") {
			t.Errorf("letter of %s: %s, %d bytes, %s", l.Run, l.Subject, len(l.Body), l.Reason)
		}
		if in, _, ok, err := s.OriginalCall(t.Context(), l); !ok || err != nil || in.Task != text {
			t.Errorf("asked %d bytes, %t, %v", len(in.Task), ok, err)
		}
		if tried, err := s.Retried(t.Context(), l); tried || err != nil {
			t.Errorf("tried %t, %v", tried, err)
		}
		if _, err := s.DeadLetter(t.Context(), l.ID+1); !errors.Is(err, client.ErrUnknownDeadLetter) {
			t.Errorf("another letter: %v", err)
		}
	})
}

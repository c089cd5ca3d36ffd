package subjects

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/nats-io/nats-server/v2/server"
	"pgregory.net/rapid"
)

// build returns the subject that an address was parsed from. It returns "" for
// an Other, which does not keep its kind and key.
func build(s Space, a Address) string {
	switch a.Kind {
	case Submission:
		return a.By.On(s.Submit(a.Run.Agent, a.Run.Tree))
	case Call:
		return a.Run.Call()
	case Tool:
		return a.Run.ToolCall()
	case Log:
		return a.Run.Log()
	case Reply:
		return a.Run.Reply(a.Turn, a.Index)
	case Timer:
		return a.Run.Fired(a.Turn)
	case Due:
		return a.Run.Due(a.Turn)
	case Mail:
		return a.By.On(a.Run.Mail(a.Key))
	case Interrupt:
		return a.By.On(a.Run.Interrupt(a.Key))
	case Approve:
		return a.By.On(a.Run.Approve(a.Key))
	case Settle:
		return a.By.On(a.Run.Settle(a.Key))
	case Returned:
		return a.Run.Returned(a.Key)
	case Cancel:
		return a.Run.Cancel()
	case Result:
		return s.Result(a.Run.Agent, a.Run.Tree)
	case Progress:
		return a.Run.Progress()
	case CancelBy:
		return a.By.On(a.Run.Cancel())
	case Other:
	}
	return ""
}

// drawBy draws a user, or none.
func drawBy(t *rapid.T, none bool) By {
	if none && rapid.Bool().Draw(t, "unknown") {
		return By{}
	}
	name := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}|by`)
	b, err := ParseBy(name.Draw(t, "role"), name.Draw(t, "user"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestParseInvertsBuild: every built subject parses to its parts, and so does
// its live copy. The parts tell whether every worker takes the message.
func TestParseInvertsBuild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := NewSpace(
			rapid.SampledFrom([]string{"", "axe", "live", "run", "a.b", "a.live.run"}).Draw(t, "prefix"),
		)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := drawPath(t)
		want := Address{
			Kind: Kind(rapid.IntRange(int(Submission), int(Progress)).Draw(t, "kind")),
			Run:  s.Run(drawAgent(t), drawTree(t), p),
		}
		switch want.Kind {
		case Reply:
			want.Turn, want.Index = rapid.IntRange(1, 50).Draw(t, "turn"), rapid.IntRange(0, 99).Draw(t, "index")
		case Timer:
			want.Turn = rapid.IntRange(0, 50).Draw(t, "turn")
		case Due:
			want.Turn = rapid.IntRange(1, 50).Draw(t, "turn")
		case Returned:
			want.Key = ReturnKey(rapid.Uint64Min(1).Draw(t, "seq"), rapid.IntRange(1, 999_999_999).Draw(t, "delivery"))
		case Mail, Interrupt, Approve, Settle:
			want.Key, want.By = drawKey(t, p), drawBy(t, true)
		case Submission:
			want.Run.Path, want.By = Root, drawBy(t, true)
		case CancelBy:
			want.By = drawBy(t, false)
		case Result:
			want.Run.Path = Root
		case Other:
			t.Skip()
		case Call, Tool, Log, Cancel, Progress:
		}
		subject := build(s, want)
		if got, err := s.Parse(subject); err != nil || got != want {
			t.Fatalf("%s parses to %+v, error %v, want %+v", subject, got, err, want)
		}
		all := append(s.RootEnds(), s.DueTimers(), s.Submissions())
		matches := slices.ContainsFunc(all, func(filter string) bool {
			return server.SubjectMatchesFilter(subject, filter)
		})
		if want.AnyWorker() != matches {
			t.Fatalf("any worker takes %s: %t, want %t", subject, !matches, matches)
		}
		if want.Kind == Progress {
			return // its subject is live
		}
		if got, err := s.Parse(s.Live(subject)); err != nil || got != want {
			t.Fatalf("%s parses to %+v, error %v, want %+v", s.Live(subject), got, err, want)
		}
	})
}

// TestParseRefuses: Parse knows only well-formed subjects of runs, submissions
// and results in its space, and their live copies.
func TestParseRefuses(t *testing.T) {
	for _, subject := range []string{
		"", "axe", "axe.", "axe.run", "run.a.T.r.call", "other.run.a.T.r.call",
		"AXE.run.a.T.r.call", "axerun.a.T.r.call", "axe..run.a.T.r.call",
		"axe.run.a.T.r", "axe.run.a.T.r.call.x", "axe.run.a.T.r.Call", "axe.run.A.T.r.call",
		"axe.run.a.T-1.r.call", "axe.run.a.T.x.call",
		"axe.run.*.T.r.call", "axe.run.a.*.r.call", "axe.run.a.T.*.call", "axe.run.a.T.r.*",
		"axe.run.a.T.r.>", "axe.>", "axe.run.a.T.r.call ",
		"axe.run.a.T.r.in", "axe.run.a.T.r.in.1", "axe.run.a.T.r.in.0.0", "axe.run.a.T.r.in.1.x",
		"axe.run.a.T.r.in.1.00", "axe.run.a.T.r.in.1.0.0",
		"axe.run.a.T.r.in.timer.x", "axe.run.a.T.r.in.timer.", "axe.run.a.T.r.in.timer.-1", "axe.run.a.T.r.in.1.-1",
		"axe.run.a.T.r.due", "axe.run.a.T.r.due.0", "axe.run.a.T.r.due.x", "axe.run.a.T.r.due.1.1",
		"axe.run.a.T.r.log.1",
		"axe.run.a.T.r.in..x", "axe.run.a.T.r.in.mail.", "axe.run.a.T.r.in.mail.*",
		"axe.run.a.T.r.in.*.x", "axe.run.a.T.r.in.ma il.x", "axe.run.a.T.r.in.mail.\x00",
		"axe.submit.a", "axe.submit.a.T.x", "axe.result.a", "axe.result.a.T.r", "axe.timer.a.T.r.1", "axe.dead.a.T.r",
		"axe.live", "axe.live.", "axe.live.live.run.a.T.r.call", "axe.part.a.T.r",
		"axe.live.part.a.T", "axe.live.part.a.T.r.x",
		"axe.run.a.T.r.call.by.operator.alice", "axe.run.a.T.r.log.by.operator.alice",
		"axe.run.a.T.r.in.1.0.by.operator.alice", "axe.run.a.T.r.in.timer.1.by.operator.alice",
		"axe.run.a.T.r.in.returned.1-1.by.operator.alice", "axe.run.a.T.r.due.1.by.operator.alice",
		"axe.result.a.T.by.operator.alice", "axe.live.part.a.T.r.by.operator.alice",
		"axe.submit.a.T.by.operator", "axe.submit.a.T.by.operator.alice.x", "axe.submit.a.T.by.operator.",
		"axe.submit.a.T.by.*.alice", "axe.submit.a.T.By.operator.alice", "axe.run.a.T.r.cancel.by.operator.al ice",
		"axe.run.a.T.r.cancel.by.operator", "axe.run.a.T.r.in.mail.k.by..alice", "axe.run.a.T.r.in.by.operator.alice",
	} {
		if a, err := (Space{}).Parse(subject); !errors.Is(err, ErrToken) || a != (Address{}) {
			t.Errorf("%q parses to %+v, error %v, want one that wraps ErrToken", subject, a, err)
		}
	}
}

// drawKey draws the key of a message: of a run's mail, of its idle notice, or
// of a person's mail.
func drawKey(t *rapid.T, from Path) Key {
	turn := rapid.IntRange(1, 50).Draw(t, "of turn")
	switch rapid.IntRange(0, 2).Draw(t, "key") {
	case 0:
		return from.MailKey(turn, rapid.IntRange(0, 99).Draw(t, "of call"))
	case 1:
		return from.IdleKey(turn)
	}
	k, err := ParseKey(rapid.StringMatching("[A-Za-z0-9_-]{1,600}").Draw(t, "name"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestParseKeyRefuses: ParseKey refuses a key that is empty, too long or no
// token of a subject.
func TestParseKeyRefuses(t *testing.T) {
	for _, s := range []string{"", "a.b", "a b", "*", ">", "é", "a\x00", strings.Repeat("x", 601)} {
		if k, err := ParseKey(s); !errors.Is(err, ErrToken) || k != (Key{}) {
			t.Errorf("%q parses to %v, error %v, want one that wraps ErrToken", s, k, err)
		}
	}
}

// TestParseOther: a message to a run, of a kind of a later version, parses to
// an Other of the run.
func TestParseOther(t *testing.T) {
	var s Space
	r := s.Run(must(t, ParseAgent, "a"), must(t, ParseTree, "T"), Root)
	for _, subject := range []string{
		"axe.run.a.T.r.in.letter.V1StGXR8", "axe.run.a.T.r.in.word.1", "axe.live.run.a.T.r.in.letter.x",
	} {
		if got, err := s.Parse(subject); err != nil || got != (Address{Kind: Other, Run: r}) {
			t.Errorf("%s parses to %+v, error %v, want an Other of %v", subject, got, err, r)
		}
	}
}

// seeds adds subjects of all kinds, and inboxes, to the corpus.
func seeds(f *testing.F) {
	f.Helper()
	for _, s := range []string{
		"axe.submit.lead.T1", "axe.run.a.T.r.call", "axe.run.a.T.r-1-0.log",
		"axe.run.a.T.r-1-0.in.2.3", "axe.run.a.T.r.in.timer.0", "axe.run.a.T.r.due.1",
		"axe.run.a.T.r.in.mail.x", "axe.run.a.T.r.cancel", "axe.result.a.T",
		"axe.live.run.a.T.r.log", "axe.live.part.a.T.r", "axe.part.a.T.r",
		"axe.timer.a.T.r.1", "_INBOX.abc", "_INBOX.abc.def", "_INBOX.", "_INBOX.a..b", "_INBOX.a*",
		"_INBOX.>", "_INBOX.a b", "_INBOX.\v", "axe.live.result.a.T",
		"_INBOX_alice.abc", "_INBOX_.abc", "_INBOX_a!.abc", "_INBOX_alice",
	} {
		f.Add(s)
	}
}

// FuzzParse: a subject that parses is built again from its address. The result
// is the same subject, or the stored subject of a live copy.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, subject string) {
		var s Space
		a, err := s.Parse(subject)
		if err != nil {
			if !errors.Is(err, ErrToken) || a != (Address{}) {
				t.Fatalf("%q parses to %+v, error %v, want none and an error that wraps ErrToken", subject, a, err)
			}
			return
		}
		if !printable(subject) {
			t.Fatalf("%q parses to %+v, want an error: it cannot be published to", subject, a)
		}
		if a.Kind == Other {
			stored := strings.Replace(subject, "axe.live.", "axe.", 1)
			if !strings.HasPrefix(stored, strings.TrimSuffix(a.Run.All(), ">")+"in.") {
				t.Fatalf("%q parses to an Other of %s, want one of the run in the subject", subject, a.Run)
			}
			return
		}
		if built := build(s, a); built != subject && s.Live(built) != subject {
			t.Fatalf("%q parses to %+v, which builds %q, want the same or its live copy", subject, a, built)
		}
	})
}

// inbox begins an inbox of all users, or one of a user alone.
var inbox = regexp.MustCompile(`^_INBOX(_[A-Za-z0-9_-]{1,64})?\.`)

// FuzzCheckReply: CheckReply accepts only a reply subject, a result or an
// inbox, without wildcards, white space and empty tokens.
func FuzzCheckReply(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, subject string) {
		var s Space
		if err := s.CheckReply(subject); err != nil {
			if !errors.Is(err, ErrToken) {
				t.Fatalf("%q: error %v, want one that wraps ErrToken", subject, err)
			}
			return
		}
		if !printable(subject) {
			t.Fatalf("%q was accepted, want an error: it cannot be published to", subject)
		}
		if inbox.MatchString(subject) {
			return
		}
		a, err := s.Parse(subject)
		if err != nil || a.Kind != Reply && a.Kind != Result || build(s, a) != subject {
			t.Fatalf("%q was accepted and parses to %+v, error %v, want a reply or a result", subject, a, err)
		}
	})
}

// printable reports whether a message can be published to a subject. A token
// must not be empty. It must have printable characters alone, and no white
// space and no wildcard.
func printable(subject string) bool {
	for tok := range strings.SplitSeq(subject, ".") {
		bad := func(r rune) bool {
			return r == '*' || r == '>' || r == unicode.ReplacementChar || unicode.IsSpace(r) || !unicode.IsPrint(r)
		}
		if tok == "" || strings.ContainsFunc(tok, bad) {
			return false
		}
	}
	return true
}

// TestCheckReply: a caller may name a reply subject of a run, a result or an
// inbox. Any other subject is refused.
func TestCheckReply(t *testing.T) {
	var s Space
	for _, subject := range []string{
		"axe.run.a.T.r.in.1.0", "axe.run.a.T.r-1-0-2-3.in.50.99", "axe.result.a.T", "_INBOX.x",
		"_INBOX.V1StGXR8Z5jdHi6BmyT.8", "_INBOX.a-b_c.$1",
	} {
		if err := s.CheckReply(subject); err != nil {
			t.Errorf("%q: error %v, want none", subject, err)
		}
	}
	for _, subject := range []string{
		"", "_INBOX", "_INBOX.", "_INBOX.*", "_INBOX.>", "_INBOX.a.>", "_INBOX..a", "_INBOX.a..b",
		"_INBOX.a.", "_INBOX.a b", "_INBOX.a\tb", "_INBOX.a\r\n",
		"_INBOX.\v", "_INBOX.\f", "_INBOX.\x00", "_INBOX.\x7f", "_INBOX.\u00a0", "_INBOX.é",
		"_INBOX." + strings.Repeat("a", 300), "_inbox.a", "x._INBOX.a",
		"axe.run.a.T.r.call", "axe.run.a.T.r.log", "axe.run.a.T.r.cancel",
		"axe.run.a.T.r.in.timer.1", "axe.run.a.T.r.in.mail.x", "axe.run.a.T.r.in.0.0",
		"axe.live.run.a.T.r.in.1.0", "axe.live.result.a.T", "axe.live.part.a.T.r", "axe.submit.a.T",
		"axe.timer.a.T.r.1", "axe.dead.a.T.r",
		"axe.run.a.T.r.in.1.>", "axe.run.*.T.r.in.1.0", "axe.result.a.*",
		"$JS.API.STREAM.DELETE.AXE_RUNS", "$KV.agents.a", "other.result.a.T",
	} {
		if err := s.CheckReply(subject); !errors.Is(err, ErrToken) {
			t.Errorf("%q: error %v, want one that wraps ErrToken", subject, err)
		}
	}
}

// TestParseTimersAndDeadLetters: ParseTimer and ParseDead invert Run.Timer and
// Run.Dead, and refuse every other subject.
func TestParseTimersAndDeadLetters(t *testing.T) {
	s := must(t, NewSpace, "team.axe")
	r := s.Run(must(t, ParseAgent, "lead"), must(t, ParseTree, "T1"), Root.Child(2, 1))
	if got, turn, err := s.ParseTimer(r.Timer(3)); got != r || turn != 3 || err != nil {
		t.Errorf("%s parses to %v, turn %d, error %v, want %v, turn 3", r.Timer(3), got, turn, err, r)
	}
	if got, err := s.ParseDead(r.Dead()); got != r || err != nil {
		t.Errorf("%s parses to %v, error %v, want %v", r.Dead(), got, err, r)
	}
	for _, subject := range []string{
		"", r.Call(), r.Fired(1), "axe.timer.a.T.r.1", "team.axe.timer.a.T.r",
		"team.axe.timer.a.T.r.x", "team.axe.timer.A.T.r.1", "team.axe.timer.a.T.r.1.1",
	} {
		if got, _, err := s.ParseTimer(subject); !errors.Is(err, ErrToken) {
			t.Errorf("%q parses to a timer of %v, error %v, want one that wraps ErrToken", subject, got, err)
		}
	}
	for _, subject := range []string{
		"", r.Call(), "axe.dead.a.T.r", "team.axe.dead.a.T", "team.axe.dead.a.T.x", "team.axe.dead.a.T.r.1",
	} {
		if got, err := s.ParseDead(subject); !errors.Is(err, ErrToken) {
			t.Errorf("%q parses to a dead letter of %v, error %v, want one that wraps ErrToken", subject, got, err)
		}
	}
}

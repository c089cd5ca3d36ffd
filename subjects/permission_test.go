package subjects

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPatterns: the patterns of an agent, or of all, are those of its subjects
// with a wildcard for each token that is not known. In a space with partitions
// they are for all partitions.
func TestPatterns(t *testing.T) {
	lead, err := ParseAgent("lead")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range []Run{
		Space{}.Patterns(lead), Space{}.Patterns(Agent{}).Root(), Space{}.Spread(4).Patterns(lead),
	} {
		got = append(got, r.Log(), r.Mail(AnyKey), r.AnyReply(), r.AnyFired(), r.AnyTimer(), r.Result(), r.Submit(),
			r.Tally(), r.Progress())
	}
	want := []string{
		"axe.run.lead.*.*.log", "axe.run.lead.*.*.in.mail.*", "axe.run.lead.*.*.in.*.*",
		"axe.run.lead.*.*.in.timer.*", "axe.timer.lead.*.*.*", "axe.result.lead.*", "axe.submit.lead.*",
		"axe.tally.*.*", "axe.live.part.lead.*.*",
		"axe.run.*.*.r.log", "axe.run.*.*.r.in.mail.*", "axe.run.*.*.r.in.*.*", "axe.run.*.*.r.in.timer.*",
		"axe.timer.*.*.r.*", "axe.result.*.*", "axe.submit.*.*", "axe.tally.*.r", "axe.live.part.*.*.r",
		"axe.*.run.lead.*.*.log", "axe.*.run.lead.*.*.in.mail.*", "axe.*.run.lead.*.*.in.*.*",
		"axe.*.run.lead.*.*.in.timer.*", "axe.*.timer.lead.*.*.*", "axe.*.result.lead.*", "axe.submit.lead.*",
		"axe.*.tally.*.*", "axe.live.part.lead.*.*",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("patterns (-want +got):\n%s", diff)
	}
}

// TestTreeIn: a subject or filter is of a tree only if every subject that it
// matches is.
func TestTreeIn(t *testing.T) {
	for filter, want := range map[string]string{
		"axe.run.lead.T1.r.call": "T1", "axe.run.*.T1.>": "T1", "axe.run.*.T1": "T1", "axe.result.*.T1": "T1",
		"axe.timer.lead.T1.r.0": "T1", "axe.tally.T1.r": "T1", "axe.dead.lead.T1.r": "T1", "axe.submit.lead.T1": "T1",
		"axe.run.*.*.r.call": "", "axe.run.>": "", "axe.>": "", ">": "", "": "", "axe.run.lead": "",
		"axe.*.lead.T1":   "",
		"axe.>.lead.T1.x": "", "axe.run.>.T1": "", "axe.tally.*.T1": "", "axe.tally.>": "", "axe.run.T1.*.r": "",
		"other.run.lead.T1.r.call": "", "axe.live.run.lead.T1.r.log": "", "axe.worker.lead.T1": "",
		"axe.run.lead.T-1.r.call": "", "axe.1.run.lead.T1.r.call": "", "$KV.AXE_AGENTS.T1": "",
	} {
		got, ok := Space{}.TreeIn(filter)
		if got.String() != want || ok != (want != "") {
			t.Errorf("%q: tree %q, %v, want %q", filter, got, ok, want)
		}
	}
	space := Space{}.Spread(4)
	tree, err := ParseTree("T1")
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := space.TreeIn(space.TreeOf(tree)); !ok || got != tree {
		t.Errorf("%s: %v, %v", space.TreeOf(tree), got, ok)
	}
	for _, filter := range []string{"axe.*.run.*.T1.>", "axe.run.*.T1.>", "axe.9.run.*.T1.>"} {
		if got, ok := space.TreeIn(filter); ok {
			t.Errorf("%s is of the tree %s, want of none: it is not of one partition", filter, got)
		}
	}
}

// TestParseRead: ParseRead inverts ReadAPI. A tree that is no token is an error.
func TestParseRead(t *testing.T) {
	tree, err := ParseTree("T1")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Tree{tree, {}} {
		got, api, err := Space{}.ParseRead(Space{}.ReadAPI(want) + "STREAM.INFO.AXE_RUNS")
		if err != nil || got != want || api != "STREAM.INFO.AXE_RUNS" {
			t.Errorf("%v: tree %v, request %s, %v", want, got, api, err)
		}
	}
	for _, subject := range []string{
		"axe.read", "axe.read.T1", "axe.read.*.INFO", "axe.read.>.INFO", "axe.read..INFO", "axe.reads.T1.INFO",
		"other.read.T1.INFO",
	} {
		if _, _, err := (Space{}).ParseRead(subject); err == nil {
			t.Errorf("%s parses", subject)
		}
	}
}

// TestInboxes: an inbox begins with _INBOX, or with that of a user, and has no
// wildcard.
func TestInboxes(t *testing.T) {
	for subject, want := range map[string]bool{
		"_INBOX.x": true, "_INBOX.x.1": true, Inboxes("ci") + ".x": true, "_INBOX_a-b_c.x": true,
		"_INBOX": false, "_INBOX_ci": false, "_INBOX.": false, "_INBOX.*": false, "_INBOX.x.>": false,
		"_INBOXES.x": false, "_INBOX_.x": false, "_INBOX_*.x": false, "axe.run.lead.T1.r.cancel": false,
		"_INBOX.x..y": false, "_INBOX.x y": false, "_INBOX." + strings.Repeat("x", 300): false,
	} {
		if got := IsInbox(subject); got != want {
			t.Errorf("%q: %v, want %v", subject, got, want)
		}
	}
	for user, want := range map[string]string{"ci": "_INBOX_ci", "": "", "a.b": "", "a b": "", "*": "", "é": ""} {
		if got := Inboxes(user); got != want {
			t.Errorf("inboxes of %q: %q, want %q", user, got, want)
		}
	}
}

package subjects

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestByOfSubjects: only the end of a subject says which user has sent it. A
// tree or an agent may have the name by.
func TestByOfSubjects(t *testing.T) {
	for subject, want := range map[string]string{
		"axe.submit.a.T.by.submitter.ci":                 "ci (submitter)",
		"axe.run.a.T.r.in.approve.k.by.operator.alice":   "alice (operator)",
		"axe.live.run.a.T.r.in.mail.k.by.operator.al-ic": "al-ic (operator)",
		"axe.run.a.T.r.cancel.by.operator.alice":         "alice (operator)",
		"axe.run.a.T.r.in.new.k.by.operator.alice":       "alice (operator)",
		"axe.run.a.T.r.cancel":                           "",
		"axe.run.a.by.r.cancel":                          "",
		"axe.run.by.by.r.in.mail.by":                     "",
		"axe.run.a.T.r.in.by.by":                         "",
		"axe.submit.by.by":                               "",
	} {
		a, err := Space{}.Parse(subject)
		if err != nil || a.By.String() != want || a.By.IsZero() != (want == "") {
			t.Errorf("%s is by %q, error %v, want %q", subject, a.By, err, want)
		}
	}
}

// TestPinned: permissions pin the user that ends one of their subjects. A
// wildcard pins none, and neither does a subject of another space.
func TestPinned(t *testing.T) {
	for patterns, want := range map[string]string{
		"": "", "axe.>": "", "axe.submit.*.*": "", "axe.submit.*.*.by.operator.*": "", "axe.submit.*.*.by.*.>": "",
		"_INBOX.x axe.submit.*.* axe.submit.*.*.by.operator.alice": "alice (operator)",
		"axe.*.run.*.*.*.in.approve.*.by.operator.alice":           "alice (operator)",
		"axes.submit.*.*.by.operator.alice":                        "",
		"by.operator.alice":                                        "",
	} {
		if got := Pinned(Space{}, strings.Fields(patterns)); got.String() != want {
			t.Errorf("%q pin %q, want %q", patterns, got, want)
		}
	}
	for pattern, want := range map[string]string{
		"axe.submit.*.*.by.submitter.ci": "axe.submit.*.*.by.submitter.*", "axe.submit.*.*": "axe.submit.*.*",
		"axe.read.*.>": "axe.read.*.>",
	} {
		if got := AnyUser(pattern); got != want {
			t.Errorf("%s for any user is %s, want %s", pattern, got, want)
		}
		before, _, _ := strings.Cut(pattern, ".by.")
		if got := Unsigned(pattern); got != before {
			t.Errorf("%s without its user is %s, want %s", pattern, got, before)
		}
	}
}

// TestByInJSON: a By is an object, and a malformed one is an error.
func TestByInJSON(t *testing.T) {
	want, err := ParseBy("operator", "alice")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(want)
	var got By
	if err != nil || string(b) != `{"role":"operator","user":"alice"}` || json.Unmarshal(b, &got) != nil ||
		got != want {
		t.Errorf("%v is %s in JSON, error %v, and decodes to %v", want, b, err, got)
	}
	err = json.Unmarshal([]byte(`{"role":"operator","user":"a.b"}`), &got)
	if !errors.Is(err, ErrToken) || got != want {
		t.Errorf("a malformed user decodes to %v, error %v", got, err)
	}
	if err := json.Unmarshal([]byte(`{}`), &got); err != nil || !got.IsZero() {
		t.Errorf("an empty object decodes to %v, error %v", got, err)
	}
}

// TestApprovers: a user is an approver by its name or by its role. A sender
// that is not known is none, unless there are no entries.
func TestApprovers(t *testing.T) {
	alice, err := ParseBy("operator", "alice")
	if err != nil {
		t.Fatal(err)
	}
	for entries, want := range map[string][2]bool{
		"": {true, true}, "user:alice": {true, false}, "role:operator": {true, false}, "user:bob": {false, false},
		"user:bob role:operator": {true, false}, "user:operator": {false, false}, "role:alice": {false, false},
		"user: role:": {false, false},
	} {
		a := Approvers(strings.Fields(entries))
		if got := [2]bool{a.Names(alice), a.Names(By{})}; got != want {
			t.Errorf("%q name alice, and a sender that is not known: %v, want %v", entries, got, want)
		}
	}
	for entry, want := range map[string]bool{
		"user:alice": true, "role:operator": true, "alice": false, "user:": false, "user:a.b": false, "role:*": false,
		"group:x": false, "": false,
	} {
		if err := ParseApprover(entry); (err == nil) != want || err != nil && !errors.Is(err, ErrToken) {
			t.Errorf("%q: %v", entry, err)
		}
	}
}

package roles_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/internal/roles"
	"github.com/axebus/axe/subjects"
)

// letters are the roles in testdata/operations.txt.
var letters = map[string]roles.Role{
	"s": roles.Submitter, "b": roles.Observer, "o": roles.Operator, "w": roles.Worker, "p": roles.Provisioner,
	"a": roles.Archivist, "m": roles.Monitor,
}

// TestOperationsTable: each role has the operations of the table, and no others
// of them.
func TestOperationsTable(t *testing.T) {
	table, err := os.ReadFile("testdata/operations.txt")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(table)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		rows++
		var want, got []roles.Role
		for _, letter := range words[2:] {
			if letter != "-" {
				want = append(want, letters[letter])
			}
		}
		for _, r := range roles.All() {
			p := r.Permissions(roles.Scope{User: string(r)})
			if words[0] == "publish" && p.MayPublish(words[1]) || words[0] == "subscribe" && p.MaySubscribe(words[1]) {
				got = append(got, r)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", words[0], words[1], diff)
		}
	}
	if rows < 80 {
		t.Errorf("%d rows", rows)
	}
}

// TestForbiddenOperations: the check of a role tries more than a hundred
// operations that the role does not have, each once, and each subject that it
// has.
func TestForbiddenOperations(t *testing.T) {
	for _, r := range roles.All() {
		scope := roles.Scope{User: string(r)}
		allowed, forbidden := 0, 0
		seen := map[string]bool{}
		for _, o := range r.Operations(scope) {
			if o.Allowed {
				allowed++
			} else {
				forbidden++
			}
			if seen[o.String()] {
				t.Errorf("%s: %s comes twice", r, o)
			}
			seen[o.String()] = true
		}
		p := r.Permissions(scope)
		if forbidden < 100 || allowed < len(p.Subscribe)+1 {
			t.Errorf("%s: %d allowed and %d forbidden operations", r, allowed, forbidden)
		}
	}
}

// TestScopes: a prefix, partitions and agents bound the subjects. A submitter
// of an agent submits to no other one.
func TestScopes(t *testing.T) {
	space, err := subjects.NewSpace("acme.eu")
	if err != nil {
		t.Fatal(err)
	}
	lead, err := subjects.ParseAgent("lead")
	if err != nil {
		t.Fatal(err)
	}
	scope := roles.Scope{Space: space.Spread(4), User: "u", Agents: []subjects.Agent{lead}}
	submitter, worker := roles.Submitter.Permissions(scope), roles.Worker.Permissions(scope)
	for subject, want := range map[string]bool{
		"acme.eu.submit.lead.T": true, "acme.eu.submit.other.T": false, "axe.submit.lead.T": false,
		"acme.eu.read.T.DIRECT.GET.ACME_EU_RUNS": true,
	} {
		if got := submitter.MayPublish(subject); got != want {
			t.Errorf("submitter, %s: %v, want %v", subject, got, want)
		}
	}
	for subject, want := range map[string]bool{
		"acme.eu.2.run.lead.T.r.log": true, "acme.eu.run.lead.T.r.log": false, "acme.eu.2.run.other.T.r.log": false,
		"$JS.API.DIRECT.GET.ACME_EU_RUNS_3":                           true,
		"$JS.API.DIRECT.GET.ACME_EU_RUNS_4":                           false,
		"$JS.API.CONSUMER.CREATE.ACME_EU_RUNS_1.agent_lead_in":        true,
		"$JS.API.CONSUMER.CREATE.ACME_EU_RUNS_1.agent_other":          false,
		"$KV.ACME_EU_AGENTS.lead":                                     true,
		"$KV.ACME_EU_AGENTS.other":                                    false,
		"acme.eu.2.run.lead.T.r.in.approve.k":                         false,
		"$JS.API.CONSUMER.CREATE.ACME_EU_RUNS.x.acme.eu.*.run.lead.*": false,
	} {
		if got := worker.MayPublish(subject); got != want {
			t.Errorf("worker, %s: %v, want %v", subject, got, want)
		}
	}
	scope.Domain = "hub"
	worker = roles.Worker.Permissions(scope)
	for subject, want := range map[string]bool{
		"$JS.hub.API.DIRECT.GET.ACME_EU_RUNS_3":   true,
		"$JS.API.DIRECT.GET.ACME_EU_RUNS_3":       true,
		"$JS.other.API.DIRECT.GET.ACME_EU_RUNS_3": false,
		"$JS.hub.API.STREAM.DELETE.ACME_EU_RUNS":  false,
		"$JS.hub.API.$KV.ACME_EU_AGENTS.lead":     true,
		"$JS.hub.API.$KV.ACME_EU_AGENTS.other":    false,
	} {
		if got := worker.MayPublish(subject); got != want {
			t.Errorf("worker of a domain, %s: %v, want %v", subject, got, want)
		}
	}
	if got := roles.Allowing(roles.Scope{Space: space}, "acme.eu.submit.lead.T"); !slices.Equal(got,
		[]roles.Role{roles.Submitter, roles.Operator}) {
		t.Errorf("roles that submit: %v", got)
	}
}

// TestConf: a plan is valid in the form of a server's configuration.
func TestConf(t *testing.T) {
	var b bytes.Buffer
	for _, r := range roles.All() {
		u := roles.User{Name: string(r), Role: r, Permissions: r.Permissions(roles.Scope{User: string(r)})}
		if err := u.WriteConf(&b); err != nil {
			t.Fatal(err)
		}
	}
	checkConf(t, b.String())
}

// TestOfViolation: the roles that have the subject of a violation are named.
// The prefix may be one of the user's own, of several tokens, and the bus may
// have partitions and a domain.
func TestOfViolation(t *testing.T) {
	const (
		cancels = "; roles that have it: operator, worker, archivist"
		has     = " it: observer, operator, worker, provisioner, archivist, monitor"
		reads   = "; roles that have" + has
	)
	for subject, want := range map[string]string{
		"$JS.API.STREAM.PURGE.KV_AXE_MEMORY": "; roles that have it: operator",
		"acme.submit.lead.T1":                "; roles that have it: submitter, operator",
		"acme.eu.submit.lead.T1":             "; roles that have it: submitter, operator",
		"axe.run.lead.T.r.cancel":            cancels,
		"axe.2.run.lead.T.r.cancel":          cancels,
		"$JS.API.STREAM.INFO.AXE_RUNS":       reads,
		"$JS.API.STREAM.INFO.AXE_RUNS_2":     reads,
		"$JS.API.STREAM.INFO.ACME_EU_RUNS":   "; roles for the bus of ACME_EU_RUNS that have" + has,
		"$JS.hub.API.STREAM.INFO.AXE_RUNS":   reads,
		"$JS.API.STREAM.DELETE.AXE_RUNS":     "",
		"acme.eu.other.lead.T1":              "",
		"axe":                                "",
	} {
		err := errors.New(`Permissions Violation for Publish to "` + subject + `"`)
		if got := roles.OfViolation(err); got != want {
			t.Errorf("%s: got %q, want %q", subject, got, want)
		}
	}
	if got := roles.OfViolation(errors.New("timeout")); got != "" {
		t.Errorf("no violation: got %q, want nothing", got)
	}
}

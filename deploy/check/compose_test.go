package check_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// composeProject loads compose.yaml as Compose does: against the schema, with
// the variables, anchors and profiles.
func composeProject(t *testing.T, env map[string]string) (*types.Project, error) {
	t.Helper()
	dir, err := filepath.Abs("../docker")
	if err != nil {
		t.Fatal(err)
	}
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  dir,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(dir, "compose.yaml")}},
		Environment: env,
	}, func(o *loader.Options) {
		o.SetProjectName("axe", true)
		o.Profiles = []string{"*"}
	})
}

// TestCompose: compose.yaml is as Compose wants it. Every container is hardened
// and has the secrets that it needs, and no others. Every command has the flags
// that its program knows.
func TestCompose(t *testing.T) {
	p, err := composeProject(t, map[string]string{"AXE_USER": "1000:1000"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"axe", "nats-1", "nats-2", "nats-3", "provision", "ui", "worker"}
	if got := slices.Sorted(maps.Keys(p.Services)); !slices.Equal(got, want) {
		t.Fatalf("got the services %q, want %q", got, want)
	}
	for name, s := range p.Services {
		if s.User != "1000:1000" || !s.ReadOnly || s.Privileged || !slices.Equal(s.CapDrop, []string{"ALL"}) ||
			len(s.CapAdd) > 0 || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) {
			t.Errorf("%s is not hardened: user %q, read-only %v, capabilities -%q +%q, %q", name, s.User, s.ReadOnly,
				s.CapDrop, s.CapAdd, s.SecurityOpt)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: other machines reach the port %s", name, port.Published)
			}
		}
		lasting := s.Restart == types.RestartPolicyUnlessStopped
		if checked := s.HealthCheck != nil; checked != lasting {
			t.Errorf("%s has a health check: %v, want %v", name, checked, lasting)
		}
		if strings.HasPrefix(name, "nats-") {
			checkNATS(t, name, s)
		} else {
			checkAxe(t, name, s)
		}
	}
	w := p.Services["worker"]
	if w.Deploy == nil || w.Deploy.Replicas == nil || *w.Deploy.Replicas != 2 {
		t.Error("there are not two workers")
	}
	if least := grace(t, w.Command) + afterGrace; time.Duration(*w.StopGracePeriod) < least {
		t.Errorf("a worker is killed after %s, want %s at least", w.StopGracePeriod, least)
	}
	for name, c := range p.Configs {
		if strings.HasPrefix(name, "accounts") || strings.HasPrefix(name, "tenants") {
			continue // axe auth init makes them
		}
		if _, err := os.Stat(c.File); err != nil {
			t.Errorf("config %s: %v", name, err)
		}
	}
}

// checkNATS checks a container of a server: cluster.conf names all files that
// it has.
func checkNATS(t *testing.T, name string, s types.ServiceConfig) {
	t.Helper()
	conf, err := os.ReadFile("../nats/cluster.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range s.Secrets {
		if !strings.Contains(string(conf), f.Target) {
			t.Errorf("%s: cluster.conf does not use %s", name, f.Target)
		}
	}
	if len(s.Secrets) != 3 || len(s.Configs) != 3 || s.StopSignal != "SIGUSR2" || *s.Environment["NATS_NAME"] != name {
		t.Errorf("%s has the files %v and %v, the signal %s, the name %s", name, s.Secrets, s.Configs, s.StopSignal,
			*s.Environment["NATS_NAME"])
	}
	if len(s.Volumes) != 1 || s.Volumes[0].Target != "/var/lib/nats" || filepath.Base(s.Volumes[0].Source) != name {
		t.Errorf("%s has the volumes %v, want one of its own for the streams", name, s.Volumes)
	}
}

// checkAxe checks a container of the image of axe.
func checkAxe(t *testing.T, name string, s types.ServiceConfig) {
	t.Helper()
	command := append(slices.Clone(s.Entrypoint), s.Command...)
	if len(command) == 1 {
		command = append(command, "ps") // the person says which
	}
	checkCommand(t, name, command)
	if s.HealthCheck != nil {
		checkCommand(t, name+"'s health check", s.HealthCheck.Test[1:])
	}
	given := map[string]bool{}
	for _, secret := range s.Secrets {
		given[secret.Source] = true
	}
	creds := credsOf(command)
	for secret := range given {
		if secret != "ca.pem" && secret != creds && (secret != "http.token" || name != "ui") {
			t.Errorf("%s has the secret %s", name, secret)
		}
	}
	if !given["ca.pem"] || !given[creds] {
		t.Errorf("%s lacks ca.pem or %s", name, creds)
	}
}

// TestComposeNeedsAUser: without AXE_USER the containers would run as the user
// of the image, which cannot read the secrets. Compose names the variable.
func TestComposeNeedsAUser(t *testing.T) {
	_, err := composeProject(t, nil)
	if err == nil || !strings.Contains(err.Error(), "AXE_USER") {
		t.Errorf("error %v, want one that names AXE_USER", err)
	}
}

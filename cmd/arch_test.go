package cmd_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/axebus/axe"

// allowedImports maps a package to everything that it may import besides the
// standard library. An entry is one package; with /... it is that package and
// all packages below it. All other imports are forbidden. Tests may import
// anything. Every package may import internal/text.
var allowedImports = map[string][]string{
	"internal/text":  {},
	"internal/files": {},
	"internal/pause": {},

	"internal/ballast":   {},
	"internal/httpguard": {},
	"internal/sdnotify":  {},

	"subjects": {},
	"secret":   {},
	"price":    {"provider"},

	"provider":               {},
	"provider/internal/wire": {"provider", "internal/traceparent"},
	"provider/anthropic":     {"provider", "provider/internal/wire", "secret"},
	"provider/openai":        {"provider", "provider/internal/wire", "secret"},
	"provider/ollama":        {"provider", "provider/internal/wire", "secret"},
	"provider/script":        {"provider", "internal/files", "internal/pause", "github.com/BurntSushi/toml"},
	"provider/catalog":       {"provider/...", "secret"},
	"provider/providertest":  {"provider", "github.com/google/go-cmp/cmp"},

	"configs": {
		"subjects", "secret", "price", "internal/files", "internal/pause", "github.com/BurntSushi/toml",
	},
	"configs/examples": {},

	"bus/grant": {"subjects", "github.com/nats-io/..."},
	"bus": {
		"bus/grant", "secret", "subjects",
		"internal/pause",
		"github.com/nats-io/...",
		"github.com/synadia-io/orbit.go/...",
		"github.com/gofrs/flock",
		"golang.org/x/...",
	},
	"bus/busbench":       {"bus", "bus/grant", "github.com/nats-io/..."},
	"bus/auth":           {"bus/grant", "internal/roles", "subjects", "github.com/nats-io/..."},
	"internal/roles":     {"subjects"},
	"internal/bustest":   {"github.com/nats-io/..."}, // for tests
	"internal/testbus":   {"bus"},                    // for tests
	"internal/testflags": {},                         // for tests
	"internal/peertest":  {},                         // for tests

	"agentd/run":       {"provider", "subjects"},
	"internal/history": {"agentd/run", "bus", "internal/pause", "subjects"},
	"internal/tool":    {"provider", "agentd/run", "subjects"},
	"internal/builtin": {
		"provider", "agentd/run", "internal/files", "internal/sandbox", "secret", "github.com/bmatcuk/doublestar/v4",
		"github.com/JohannesKaufmann/html-to-markdown/v2/...", "golang.org/x/net/html",
	},
	"internal/toolset": {
		"agentd/run", "bus", "client", "configs", "internal/sandbox", "internal/traceparent", "secret", "subjects",
		"github.com/google/jsonschema-go/jsonschema",
	},
	"internal/mcpclient": {
		"configs", "internal/toolset", "internal/pause", "internal/traceparent", "agentd/run",
		"github.com/modelcontextprotocol/go-sdk/...",
	},
	"internal/prompt":      {"configs"},
	"internal/check":       {"configs", "internal/prompt", "provider/catalog"},
	"agentd/memory":        {"subjects", "internal/files", "github.com/gofrs/flock"},
	"internal/verify":      {"agentd/run", "subjects"},
	"internal/archive":     {"subjects"},
	"internal/sandbox":     {"golang.org/x/sys/unix"},
	"internal/ratelimit":   {"bus", "internal/pause", "provider"},
	"internal/budget":      {"subjects", "bus", "internal/pause"},
	"internal/presence":    {"subjects", "bus", "agentd/run", "internal/pause"},
	"internal/trace":       {"subjects"},
	"internal/traceparent": {},
	"internal/otlp": {
		"agentd/run", "client", "internal/trace", "provider", "subjects", "go.opentelemetry.io/proto/otlp/...",
		"google.golang.org/protobuf/...", "golang.org/x/net/http/httpguts",
	},
	"internal/metrics": {"bus", "agentd/run", "price", "provider", "github.com/prometheus/client_golang/..."},
	"client": {
		"bus", "subjects", "agentd/run", "internal/archive", "internal/history", "internal/pause", "internal/presence",
		"provider", "golang.org/x/sync/...",
	},
	"agentd": {
		"agentd/run", "internal/tool", "internal/builtin", "internal/sandbox", "internal/toolset", "internal/mcpclient",
		"internal/prompt", "agentd/memory", "internal/ratelimit", "internal/budget", "internal/metrics",
		"bus",
		"configs", "price", "provider", "provider/catalog", "secret",
		"internal/history", "internal/pause", "internal/presence", "internal/trace", "internal/traceparent",
		"subjects", "golang.org/x/sync/...",
		"github.com/cespare/xxhash/v2",
	},

	"internal/mcpserver": {
		"agentd", "agentd/run", "bus", "client", "internal/httpguard", "internal/pause", "internal/roles", "subjects",
		"github.com/modelcontextprotocol/go-sdk/...",
	},

	"cmd/internal/chaostest": {}, // tests alone

	"cmd/internal/bench": {
		"agentd",
		"agentd/run",
		"bus",
		"bus/busbench",
		"client",
		"cmd/internal/web",
		"internal/ballast",
		"internal/metrics",
		"internal/pause",
		"secret",
		"configs",
		"price",
		"provider",
		"provider/openai",
		"subjects",
		"golang.org/x/sync/...",
	},

	"cmd/internal/top": {
		"agentd/run", "bus", "client", "cmd/internal/cli", "internal/pause", "internal/presence", "price", "provider",
		"subjects", "github.com/charmbracelet/...",
	},
	"cmd/internal/web": {
		"agentd/run", "bus", "client", "cmd/internal/cli", "internal/httpguard", "internal/pause", "internal/roles",
		"internal/toolset",
		"price", "subjects", "github.com/spf13/cobra",
	},
	"cmd/internal/cli": withBelow(
		"golang.org/x/term",
		"github.com/charmbracelet/x/ansi",
		"github.com/lmittmann/tint",
		"github.com/spf13/cobra",
	),
	"cmd/agentd": withBelow(
		"cmd/internal/cli",
		"cmd/internal/web",
		"golang.org/x/term",
		"github.com/lmittmann/tint",
		"github.com/spf13/cobra",
	),
	"cmd/axe-submit": withBelow(
		"cmd/internal/cli",
		"golang.org/x/term",
		"github.com/lmittmann/tint",
		"github.com/spf13/cobra",
	),
	"cmd/axe": withBelow(
		"cmd/internal/cli",
		"cmd/internal/web",
		"cmd/internal/top",
		"cmd/internal/bench",
		"golang.org/x/sync/errgroup",
		"golang.org/x/term",
		"github.com/lmittmann/tint",
		"github.com/spf13/cobra",
	),
}

// withBelow returns the packages that the commands are built on, and more.
func withBelow(more ...string) []string {
	return append(
		more, "agentd/...", "client", "bus", "bus/auth", "bus/grant", "configs/...", "price", "provider/...",
		"subjects", "internal/...",
	)
}

// pkg is a package of the module, as go list prints it.
type pkg struct {
	ImportPath string
	Imports    []string
	GoFiles    []string
}

// packages lists the module's packages that have code besides tests, by their
// path inside the module.
func packages(t *testing.T) map[string]pkg {
	t.Helper()
	out, err := exec.CommandContext(
		t.Context(),
		"go",
		"list",
		"-json=ImportPath,Imports,GoFiles",
		module+"/...",
	).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Logf("%s", exit.Stderr)
		}
		t.Fatal(err)
	}
	all := map[string]pkg{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles) > 0 {
			all[strings.TrimPrefix(p.ImportPath, module+"/")] = p
		}
	}
}

// matches reports whether an entry of allowedImports permits an import.
func matches(entry, imp string) bool {
	if root, ok := strings.CutSuffix(entry, "/..."); ok {
		return imp == root || strings.HasPrefix(imp, root+"/")
	}
	return imp == entry
}

// allowed reports whether the package name may import imp.
func allowed(name, imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	if !strings.Contains(first, ".") {
		return true // standard library
	}
	imp = strings.TrimPrefix(imp, module+"/")
	return imp == "internal/text" ||
		slices.ContainsFunc(allowedImports[name], func(entry string) bool { return matches(entry, imp) })
}

// TestArrows: every package imports only packages that allowedImports permits.
func TestArrows(t *testing.T) {
	all := packages(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, ok := allowedImports[name]; !ok {
			t.Errorf("%s has no row in allowedImports", name)
			continue
		}
		for _, imp := range all[name].Imports {
			if !allowed(name, imp) {
				t.Errorf("%s must not import %s", name, imp)
			}
		}
	}
}

// TestTableOfArrows: an entry without /... permits one package and none below
// it. An import against the direction of the arrows is forbidden.
func TestTableOfArrows(t *testing.T) {
	for _, tt := range []struct {
		name, imp string
		want      bool
	}{
		{"agentd/run", "time", true},
		{"agentd/run", module + "/provider", true},
		{"agentd/run", module + "/provider/anthropic", false},
		{"agentd/run", "golang.org/x/sync/errgroup", false},
		{"provider/catalog", module + "/provider/anthropic", true},
		{"provider", module + "/provider/catalog", false},
		{"bus", "github.com/nats-io/nats.go/jetstream", true},
		{"bus", module + "/provider", false},
		{"internal/tool", module + "/internal/text", true},
		{"agentd", "github.com/nats-io/nats.go", false},
		{"client", module + "/agentd", false},
		{"cmd/axe", module + "/client", true},
		{"cmd/axe", module + "/cmd/axe-submit", false},
		{"cmd/internal/cli", module + "/cmd/axe", false},
	} {
		if got := allowed(tt.name, tt.imp); got != tt.want {
			t.Errorf("%s imports %s: got allowed %t, want %t", tt.name, tt.imp, got, tt.want)
		}
	}
}

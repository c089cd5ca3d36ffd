package cli

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestBuildString: String describes a build in one line, for each way in which
// the go command records a build.
func TestBuildString(t *testing.T) {
	const commit = "b5e3e66b5a72ac1e4878a51fb485fe1949bd0c84"
	vcs := func(dirty string) []debug.BuildSetting {
		return []debug.BuildSetting{
			{Key: "vcs", Value: "git"},
			{Key: "vcs.revision", Value: commit},
			{Key: "vcs.time", Value: "2026-11-24T00:38:18Z"},
			{Key: "vcs.modified", Value: dirty},
		}
	}
	tests := []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{
			"go build in a clone",
			debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.1.0"}, Settings: vcs("false")},
			"v0.1.0, commit b5e3e66b5a72, date 2026-11-24T00:38:18Z, go1.26.8",
		},
		{
			"in a clone with changes",
			debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.1.0+dirty"}, Settings: vcs("true")},
			"v0.1.0+dirty, commit b5e3e66b5a72, date 2026-11-24T00:38:18Z, go1.26.8",
		},
		{
			"go install of a version",
			debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.1.0", Sum: "h1:…"}},
			"v0.1.0, commit unknown, date unknown, go1.26.8",
		},
		{"without a build record", debug.BuildInfo{}, "(devel), commit unknown, date unknown, " + runtime.Version()},
	}
	for _, tt := range tests {
		want := tt.want + " " + runtime.GOOS + "/" + runtime.GOARCH
		if got := buildOf("axe", &tt.info).String(); got != want {
			t.Errorf("%s: got %s, want %s", tt.name, got, want)
		}
	}
}

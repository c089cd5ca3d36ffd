package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// unknown stands for a part of a Build that the binary does not hold.
const unknown = "unknown"

// Build names the source of a program. The go command records it: go build in a
// clone records the last tag, or a pseudo-version, and the commit. go install
// of a version records that version alone. Go test and -buildvcs=false record
// nothing.
type Build struct {
	Program string `json:"program"`
	// Version is the module's version, "(devel)" if it is not known. It ends
	// in "+dirty" if the clone had changes that were not committed.
	Version string `json:"version"`
	// Commit is the full id of the commit, "unknown" if it is not known.
	Commit string `json:"commit"`
	// Date is the time of the commit in RFC 3339, "unknown" if it is not
	// known.
	Date string `json:"date"`
	// Go is the version of the compiler, Platform is OS/ARCH.
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ReadBuild returns the build of this process. Program is its name.
func ReadBuild(program string) Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(program, info)
}

func buildOf(program string, info *debug.BuildInfo) Build {
	b := Build{
		Program: program, Version: cmp.Or(info.Main.Version, "(devel)"), Commit: unknown, Date: unknown,
		Go: cmp.Or(info.GoVersion, runtime.Version()), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		}
	}
	return b
}

// String returns the build in one line, without the program's name.
func (b Build) String() string {
	return fmt.Sprintf("%s, commit %.12s, date %s, %s %s", b.Version, b.Commit, b.Date, b.Go, b.Platform)
}

package configs

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/internal/pause"
)

// Watch calls changed with the result of LoadAll, at once and after each change
// of that result. It runs until ctx ends, and returns the cause of ctx.
//
// Watch polls the names, sizes and times of the files, and the places of
// skills, at an interval of every (0 stands for one second). If one poll takes
// long, the interval is longer, up to ten seconds: 10,000 files take 40 ms.
// Polling works on network file systems and with the symbolic links of a
// ConfigMap. If Watch cannot read the directory at first, it returns the error.
// Later it reports the error through changed, without definitions.
func Watch(ctx context.Context, dir string, every time.Duration, changed func(Definitions, error)) error {
	if every <= 0 {
		every = time.Second
	}
	began := time.Now()
	seen, err := fileVersions(dir)
	if err != nil {
		return err
	}
	took := time.Since(began)
	defs, skills, err := loadAll(dir)
	changed(defs, err)
	last := fingerprint(defs, err)

	for {
		if err := pause.For(ctx, pollInterval(every, took)); err != nil {
			return err
		}
		began := time.Now()
		now, err := fileVersions(dir)
		same := err == nil && slices.Equal(now, seen) && !slices.ContainsFunc(skills, skill.moved)
		took = time.Since(began)
		if same {
			continue
		}
		seen = now
		defs, found, err := loadAll(dir)
		skills = found
		if s := fingerprint(defs, err); s != last {
			last = s
			changed(defs, err)
		}
	}
}

const (
	// pollShare is the number of times that a poll's time passes before the
	// next poll. So polling takes one hundredth of a processor at most,
	// unless a poll takes longer than 100 ms.
	pollShare = 100
	// maxPollInterval bounds the interval of slow polls.
	maxPollInterval = 10 * time.Second
)

// pollInterval returns the time from a poll that took some time to the next
// one.
func pollInterval(every, took time.Duration) time.Duration {
	return max(every, min(pollShare*took, maxPollInterval))
}

// fileVersion tells two versions of a file apart without opening the file.
type fileVersion struct {
	file     string
	size     int64
	modified int64
}

// fileVersions returns the versions of the files that LoadAll reads. LoadAll
// only looks for skills and does not read them: they are left out.
func fileVersions(dir string) ([]fileVersion, error) {
	files, err := list(dir)
	if err != nil {
		return nil, err
	}
	toolsets, err := listToolsets(dir)
	if err != nil {
		return nil, err
	}
	files = append(files, toolsets...)
	versions := make([]fileVersion, len(files))
	for i, file := range files {
		versions[i].file = file
		if info, err := os.Stat(file); err == nil {
			versions[i].size = info.Size()
			versions[i].modified = info.ModTime().UnixNano()
		}
	}
	return versions, nil
}

// fingerprint returns a text that differs between two results of LoadAll that
// differ. A toolset has its name in it, an agent need not: the digest of its
// file covers the name, but not the place at which its skill was found.
func fingerprint(d Definitions, err error) string {
	var b strings.Builder
	for _, a := range d.Agents {
		b.WriteString(a.Digest + " " + a.Skill + "\n")
	}
	for _, t := range d.Toolsets {
		b.WriteString(t.Name + t.Digest)
	}
	if err != nil {
		b.WriteString(err.Error())
	}
	return b.String()
}

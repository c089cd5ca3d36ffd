package configs

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"
)

// Watch calls changed with what LoadDir returns, at once and then whenever that
// is something else, until ctx ends; it returns ctx's cause. It looks for
// changes at an interval of every (0: a second) by the names, sizes and times
// of the files, which works on network file systems and for the symbolic links
// of a ConfigMap. A directory that cannot be read is Watch's error at first;
// later it is reported through changed, without agents, and what to make of
// that is up to the caller.
func Watch(ctx context.Context, dir string, every time.Duration, changed func([]Agent, error)) error {
	if every <= 0 {
		every = time.Second
	}
	seen, err := fileVersions(dir)
	if err != nil {
		return err
	}
	agents, err := LoadDir(dir)
	changed(agents, err)
	last := fingerprint(agents, err)

	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		now, err := fileVersions(dir)
		if err == nil && slices.Equal(now, seen) {
			continue
		}
		seen = now
		agents, err := LoadDir(dir)
		if s := fingerprint(agents, err); s != last {
			last = s
			changed(agents, err)
		}
	}
}

// fileVersion is what tells one version of a file from another without opening it.
type fileVersion struct {
	file     string
	size     int64
	modified int64
}

// fileVersions takes the stamps of the agents' files in dir.
func fileVersions(dir string) ([]fileVersion, error) {
	files, err := list(dir)
	if err != nil {
		return nil, err
	}
	stamps := make([]fileVersion, len(files))
	for i, file := range files {
		stamps[i].file = file
		if info, err := os.Stat(file); err == nil {
			stamps[i].size, stamps[i].modified = info.Size(), info.ModTime().UnixNano()
		}
	}
	return stamps, nil
}

// fingerprint returns the same text for what LoadDir returned when there is
// nothing new to report. Names follow from the digests.
func fingerprint(agents []Agent, err error) string {
	var b strings.Builder
	for _, a := range agents {
		b.WriteString(a.Digest)
	}
	if err != nil {
		b.WriteString(err.Error())
	}
	return b.String()
}

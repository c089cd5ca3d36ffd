package configs

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"
)

// Watch calls changed with the result of LoadDir, at once and after each change
// of that result. It runs until ctx ends, and returns the cause of ctx.
//
// Watch polls the names, sizes and times of the files at an interval of every
// (0 stands for one second). Polling works on network file systems and with the
// symbolic links of a ConfigMap. If Watch cannot read the directory at first,
// it returns the error. Later it reports the error through changed, without
// agents.
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

// fileVersion tells two versions of a file apart without opening the file.
type fileVersion struct {
	file     string
	size     int64
	modified int64
}

// fileVersions returns the versions of the agents' files in dir.
func fileVersions(dir string) ([]fileVersion, error) {
	files, err := list(dir)
	if err != nil {
		return nil, err
	}
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

// fingerprint returns a text that differs between two results of LoadDir that
// differ. Names need not be in it: a file's digest covers the name.
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

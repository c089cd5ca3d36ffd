package prompt

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
)

const (
	maxContent = 8 << 20  // bytes of one file
	maxTotal   = 32 << 20 // bytes of all files
)

// ReadFiles returns the text files below workdir that the patterns match. Each
// file comes once. Files are sorted by path. Unmatched are the patterns that
// match no file.
func ReadFiles(workdir string, patterns []string) (files []File, unmatched []string, err error) {
	if len(patterns) == 0 {
		return nil, nil, nil
	}
	workdir = cmp.Or(workdir, ".")
	root, err := os.OpenRoot(workdir)
	if err != nil {
		return nil, nil, fmt.Errorf("workdir %s: %w", workdir, bare(err))
	}
	defer root.Close()
	found := map[string]bool{}
	for _, p := range patterns {
		matched := map[string]bool{}
		if err := find(root, p, matched); err != nil {
			return nil, nil, fmt.Errorf("%q in %s: %w", p, workdir, err)
		}
		if len(matched) == 0 {
			unmatched = append(unmatched, p)
		}
		maps.Copy(found, matched)
	}
	files, err = readAll(root, slices.Sorted(maps.Keys(found)))
	return files, unmatched, err
}

// readAll reads the named files. It leaves out binary files.
func readAll(root *os.Root, names []string) ([]File, error) {
	src := source{root.Stat, root.OpenFile, maxContent, checkUnlinked}
	var files []File
	total := 0
	for _, name := range names {
		b, err := src.read(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if binary(b) {
			continue
		}
		if total += len(b); total > maxTotal {
			return nil, fmt.Errorf("%s: files are larger than %d MiB together: match fewer files", name, maxTotal>>20)
		}
		files = append(files, File{Path: name, Content: validUTF8(b)})
	}
	return files, nil
}

package prompt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
)

// maxEntries bounds the directory entries that the search for one pattern
// reads.
const maxEntries = 100_000

var errTooMany = fmt.Errorf("reads more than %d directory entries: name the directories to search", maxEntries)

// find adds to found the files that a pattern matches. A pattern without meta
// characters must name a regular file without a second hard link. Other
// patterns match as path.Match does, with ** for any number of directories.
// They skip
//   - anything but regular files,
//   - files with a second hard link,
//   - symbolic links that lead nowhere, or out of the root,
//   - like a shell, names with a leading dot, unless the pattern has the dot.
//
// An element without meta characters that leads out of the root is an error.
//
// As in a shell, * enters a linked directory and ** does not. The module
// github.com/bmatcuk/doublestar cannot do both: it follows links for * and **,
// in circles too, or for neither (TestReadFiles).
func find(root *os.Root, pattern string, found map[string]bool) error {
	elems, err := split(pattern)
	if err != nil {
		return err
	}
	if !hasMeta(pattern) {
		name := path.Join(elems...)
		found[name] = true
		info, err := root.Stat(name)
		if err != nil {
			return bare(err)
		}
		return checkUnlinked(info)
	}
	g := &glob{root: root, found: found, visited: map[place]bool{}}
	return g.expand(".", elems)
}

// glob is the search for one pattern.
type glob struct {
	root    *os.Root
	found   map[string]bool
	visited map[place]bool
	// entries is the number of directory entries that were read.
	entries int
}

// place is a directory, and the number of elements of the pattern that are left
// to match below it.
type place struct {
	dir  string
	left int
}

// expand matches the elements of a pattern below dir.
func (g *glob) expand(dir string, elems []string) error {
	here := place{dir, len(elems)}
	if g.visited[here] {
		return nil
	}
	g.visited[here] = true
	switch first := elems[0]; {
	case first == anyDepth:
		return g.descend(dir, elems)
	case hasMeta(first):
		return g.match(dir, elems)
	default:
		err := g.enter(path.Join(dir, first), elems[1:])
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
}

// descend lets ** stand for no directory, and for each directory in dir. It
// does not follow symbolic links, which may form circles.
func (g *glob) descend(dir string, elems []string) error {
	if err := g.expand(dir, elems[1:]); err != nil {
		return err
	}
	entries, err := g.list(dir, "*")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := g.expand(path.Join(dir, e.Name()), elems); err != nil {
			return err
		}
	}
	return nil
}

// match enters the entries of dir that the first element matches.
func (g *glob) match(dir string, elems []string) error {
	entries, err := g.list(dir, elems[0])
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.Type()&fs.ModeSymlink != 0 {
			if _, err := g.root.Stat(name); err != nil {
				// The link leads out of the root, or nowhere.
				continue
			}
		}
		if err := g.enter(name, elems[1:]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// enter matches the rest of a pattern at name: at a file if no element is left,
// and at a directory otherwise. It skips anything else.
func (g *glob) enter(name string, rest []string) error {
	info, err := g.root.Stat(name)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", name, bare(err))
	case len(rest) > 0 && info.IsDir():
		return g.expand(name, rest)
	case len(rest) == 0 && checkUnlinked(info) == nil:
		g.found[name] = true
	}
	return nil
}

// list returns the entries of dir that an element matches.
func (g *glob) list(dir, elem string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(g.root.FS(), dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, bare(err))
	}
	g.entries += len(entries)
	if g.entries > maxEntries {
		return nil, errTooMany
	}
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !matches(elem, e.Name()) }), nil
}

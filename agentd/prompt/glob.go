package prompt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
)

// directory entries that one pattern may look at
const maxEntries = 100_000

var errTooMany = fmt.Errorf("looks at more than %d directory entries: name the directories that matter", maxEntries)

// find adds to found the files that a pattern matches. A pattern without meta
// characters must name a regular file. Others match what path.Match matches,
// with ** for any number of directories; they pass over what is no regular file
// or has more names than one, over symbolic links that lead out of the root
// and, like a shell, over names that begin with a dot where the pattern does
// not.
func find(root *os.Root, pattern string, found map[string]bool) error {
	parts, err := split(pattern)
	if err != nil {
		return err
	}
	if !hasMeta(pattern) {
		name := path.Join(parts...)
		found[name] = true
		info, err := root.Stat(name)
		if err != nil {
			return bare(err)
		}
		return inside(info)
	}
	g := &glob{root: root, found: found, done: map[place]bool{}}
	return g.expand(".", parts)
}

// glob is the search for one pattern.
type glob struct {
	root   *os.Root
	found  map[string]bool
	done   map[place]bool
	looked int
}

// place is a directory and how many elements of the pattern are left to match
// below it.
type place struct {
	dir  string
	left int
}

// expand matches the elements of a pattern below dir.
func (g *glob) expand(dir string, parts []string) error {
	here := place{dir, len(parts)}
	if g.done[here] {
		return nil
	}
	g.done[here] = true
	switch part := parts[0]; {
	case part == deep:
		return g.descend(dir, parts)
	case hasMeta(part):
		return g.match(dir, parts)
	default:
		err := g.enter(path.Join(dir, part), parts[1:])
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
}

// descend lets ** stand for no directory, and for each directory in dir. It
// does not follow symbolic links, so that it ends.
func (g *glob) descend(dir string, parts []string) error {
	if err := g.expand(dir, parts[1:]); err != nil {
		return err
	}
	entries, err := g.list(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || !matches("*", e.Name()) {
			continue
		}
		if err := g.expand(path.Join(dir, e.Name()), parts); err != nil {
			return err
		}
	}
	return nil
}

// match goes on with the entries of dir that the first element matches.
func (g *glob) match(dir string, parts []string) error {
	entries, err := g.list(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !matches(parts[0], e.Name()) {
			continue
		}
		name := path.Join(dir, e.Name())
		if e.Type()&fs.ModeSymlink != 0 {
			if _, err := g.root.Stat(name); err != nil {
				// it leads out of the root, or nowhere
				continue
			}
		}
		if err := g.enter(name, parts[1:]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// enter matches the rest of a pattern at name: a file if nothing is left of it,
// a directory otherwise.
func (g *glob) enter(name string, rest []string) error {
	info, err := g.root.Stat(name)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", name, bare(err))
	case len(rest) > 0 && info.IsDir():
		return g.expand(name, rest)
	case len(rest) == 0 && inside(info) == nil:
		g.found[name] = true
	}
	return nil
}

func (g *glob) list(dir string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(g.root.FS(), dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, bare(err))
	}
	if g.looked += len(entries); g.looked > maxEntries {
		return nil, errTooMany
	}
	return entries, nil
}

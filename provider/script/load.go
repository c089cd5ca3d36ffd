package script

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/axebus/axe/internal/files"
	"github.com/axebus/axe/provider"
)

// maxFile bounds the bytes of one file.
const maxFile = 1 << 20

// Load reads the script dir/name.toml. It reads the file each time. Its error
// is a *provider.Error of the category bad_request. For a malformed file it
// names the file and the line, and the key if one is at fault.
func Load(dir, name string) (*Script, error) {
	s, err := load(dir, name)
	if err != nil {
		return nil, badRequest(name, err)
	}
	return s, nil
}

func badRequest(script string, err error) error {
	return &provider.Error{Category: provider.BadRequest, Message: "script " + script + ": " + err.Error(), Err: err}
}

var errNoDirectory = errors.New("no scripts directory is set: " +
	"models script/… are read from the directory scripts inside the directory of the agents")

func load(dir, name string) (*Script, error) {
	if name == "" || strings.ContainsFunc(name, notInName) {
		return nil, fmt.Errorf("the name %q is malformed: it must have only a-z, 0-9, _ and -", name)
	}
	if dir == "" {
		return nil, errNoDirectory
	}
	file := filepath.Join(dir, name+".toml")
	b, _, err := files.Read(file, os.O_RDONLY, maxFile)
	if err != nil {
		return nil, err
	}
	entries, err := parse(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", file, err)
	}
	return &Script{name: name, entries: entries}, nil
}

func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-'
}

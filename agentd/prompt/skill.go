package prompt

import (
	"fmt"
	"os"
	"path/filepath"
)

const (
	maxSkill  = 1 << 20
	skillFile = "SKILL.md"
)

// readSkill returns the text of the skill at a path, which may be a directory
// that holds a SKILL.md. The path is the operator's own: unlike files, it may
// lead anywhere.
func readSkill(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name = filepath.Join(name, skillFile)
	}
	b, err := read(os.Stat, os.OpenFile, name, maxSkill, regular)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return text(b), nil
}

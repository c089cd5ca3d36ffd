package prompt

import (
	"fmt"
	"os"
	"path/filepath"
)

const maxSkill = 1 << 20 // bytes

// ReadSkill returns the text of the skill at a path, "" for an empty path. The
// path names a file, or a directory that holds a SKILL.md. The author of
// the agent's file chooses the path, so it may lead out of the workdir, unlike
// context files.
func ReadSkill(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name = filepath.Join(name, "SKILL.md")
	}
	b, err := source{os.Stat, os.OpenFile, maxSkill, checkRegular}.read(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return validUTF8(b), nil
}

package configs

import (
	"os"
	"path/filepath"
	"strings"
)

// skillFile is what a directory must hold to be a skill.
const skillFile = "SKILL.md"

// FindSkill is the path of the skill that a person means by path: the first
// that exists of path below each of dirs, and for a bare name also of
// skills/path below each. A directory exists as a skill if it holds a SKILL.md.
// An absolute path stays as it is, and ~ is the home directory. Where nothing
// exists it is the first place that was looked at, so that whoever opens it
// says something sensible.
func FindSkill(path string, dirs ...string) string {
	if expanded, err := expandHome(path); err == nil {
		path = expanded
	}
	if path == "" || filepath.IsAbs(path) || len(dirs) == 0 {
		return path
	}
	var places []string
	for _, dir := range dirs {
		places = append(places, filepath.Join(dir, path))
	}
	if !strings.ContainsAny(path, `/`+string(filepath.Separator)) {
		for _, dir := range dirs {
			places = append(places, filepath.Join(dir, "skills", path))
		}
	}
	for _, place := range places {
		if isSkill(place) {
			return place
		}
	}
	return places[0]
}

func isSkill(path string) bool {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		_, err = os.Stat(filepath.Join(path, skillFile))
	}
	return err == nil
}

// expandHome replaces a leading ~ by the home directory.
func expandHome(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && !os.IsPathSeparator(rest[0]) {
		return path, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, rest), err
}

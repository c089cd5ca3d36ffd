package configs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// skillFile is the file that makes a directory a skill.
const skillFile = "SKILL.md"

// FindSkill returns the path of the skill that a person calls path. It returns
// the first path that exists below one of dirs. It searches a bare name also in
// skills/ below each of dirs. A directory is a skill if it holds a SKILL.md. An
// absolute path stays as it is, and ~ is the home directory. If no candidate
// exists, FindSkill returns the first one, so that the error of opening it
// names a sensible path.
func FindSkill(path string, dirs ...string) string { return newSkill(path, dirs...).found }

// skill is a skill as FindSkill has found it.
type skill struct {
	// places are the candidates, in the order in which they are looked at.
	places []string
	found  string
}

func newSkill(path string, dirs ...string) skill {
	places := skillPlaces(path, dirs)
	return skill{places, firstSkill(places)}
}

// moved reports whether another candidate would be found now.
func (s skill) moved() bool { return firstSkill(s.places) != s.found }

// firstSkill returns the first candidate that exists or, if none does, the
// first one. A single candidate is not looked at.
func firstSkill(places []string) string {
	i := 0
	if len(places) > 1 {
		i = max(0, slices.IndexFunc(places, isSkill))
	}
	return places[i]
}

// skillPlaces returns the candidates for a skill, at least one.
func skillPlaces(path string, dirs []string) []string {
	if expanded, err := expandHome(path); err == nil {
		path = expanded
	}
	if path == "" || filepath.IsAbs(path) || len(dirs) == 0 {
		return []string{path}
	}
	if !strings.ContainsAny(path, `/`+string(filepath.Separator)) {
		dirs = slices.Clip(dirs)
		for _, dir := range dirs {
			dirs = append(dirs, filepath.Join(dir, "skills"))
		}
	}
	var places []string
	for _, dir := range dirs {
		places = append(places, filepath.Join(dir, path))
	}
	return places
}

func isSkill(path string) bool {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		_, err = os.Stat(filepath.Join(path, skillFile))
	}
	return err == nil
}

// expandVariables replaces the variables of the environment in a path. A
// variable that is not set is an error.
func expandVariables(path string) (string, error) {
	var missing []string
	expanded := os.Expand(path, func(name string) string {
		value, ok := os.LookupEnv(name)
		if !ok {
			missing = append(missing, name)
		}
		return value
	})
	if missing != nil {
		return path, fmt.Errorf("the environment has no variable %s: set it, or write the path without it", missing[0])
	}
	return expanded, nil
}

// expandHome replaces a leading ~ with the home directory.
func expandHome(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && !os.IsPathSeparator(rest[0]) {
		return path, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, rest), err
}

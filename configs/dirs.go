package configs

import (
	"fmt"
	"os"
	"path/filepath"
)

// ConfigDir returns the directory of a person's agents, skills and config.toml.
// It is axe below $XDG_CONFIG_HOME, or below the operating system's directory
// for configuration. ConfigDir does not create it.
func ConfigDir() (string, error) {
	return axeDir("config", "XDG_CONFIG_HOME", os.UserConfigDir)
}

// DataDir returns the directory of the agents' memory: axe below
// $XDG_DATA_HOME, or below ~/.local/share. DataDir does not create it.
func DataDir() (string, error) {
	return axeDir("data", "XDG_DATA_HOME", os.UserHomeDir, ".local", "share")
}

// axeDir returns the directory axe below the one that a variable of the
// environment names, or else below some elements of the system's.
func axeDir(purpose, variable string, system func() (string, error), below ...string) (string, error) {
	if dir := os.Getenv(variable); dir != "" {
		return filepath.Join(dir, "axe"), nil
	}
	dir, err := system()
	if err != nil {
		return "", fmt.Errorf("unable to determine %s directory: %w", purpose, err)
	}
	return filepath.Join(dir, filepath.Join(below...), "axe"), nil
}

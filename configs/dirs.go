package configs

import (
	"fmt"
	"os"
	"path/filepath"
)

// ConfigDir is where a person's agents, skills and config.toml are: axe below
// $XDG_CONFIG_HOME, or below what the operating system has in its place. It
// makes nothing.
func ConfigDir() (string, error) {
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "axe"), nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("unable to determine config directory: %w", err)
	}
	return filepath.Join(dir, "axe"), nil
}

// DataDir is where agents' memory is: axe below $XDG_DATA_HOME, or below
// ~/.local/share. It makes nothing.
func DataDir() (string, error) {
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "axe"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("unable to determine data directory: %w", err)
	}
	return filepath.Join(home, ".local", "share", "axe"), nil
}

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
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "axe"), nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("unable to determine config directory: %w", err)
	}
	return filepath.Join(dir, "axe"), nil
}

// DataDir returns the directory of the agents' memory: axe below
// $XDG_DATA_HOME, or below ~/.local/share. DataDir does not create it.
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

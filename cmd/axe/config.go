package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/configs"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Manage the configuration directory", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "path", Short: "Print the configuration directory", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				dir, err := configDir()
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), dir)
				return err
			},
		},
		&cobra.Command{
			Use: "init", Short: "Make the configuration directory, with a sample skill", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				dir, err := configDir()
				if err != nil {
					return err
				}
				if err := initConfig(dir); err != nil {
					return err
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), dir)
				return err
			},
		},
	)
	return cmd
}

// configDir is the configuration directory's absolute path, whether it exists
// or not.
func configDir() (string, error) {
	dir, err := configs.ConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}

// initConfig makes what is missing of a configuration directory, and leaves
// alone what is there.
func initConfig(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "agents"), 0o700); err != nil {
		return err
	}
	if _, err := create(filepath.Join(dir, "skills", "sample", "SKILL.md"), configs.SampleSkill(), 0o700, 0o644); err != nil {
		return err
	}
	_, err := create(filepath.Join(dir, configs.GlobalFile), configs.ScaffoldGlobal(), 0o700, 0o600)
	return err
}

// create writes a new file, and the directories above it where they are
// missing, and reports whether it did: a file that is there already stays as it
// is.
func create(file, text string, dirMode, fileMode fs.FileMode) (bool, error) {
	if err := os.MkdirAll(filepath.Dir(file), dirMode); err != nil {
		return false, err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		// half a file would be in the way of the next attempt
		_ = os.Remove(file)
	}
	return err == nil, err
}

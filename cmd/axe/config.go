package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/configs"
)

func configCommand() *cobra.Command {
	return group(&cobra.Command{Use: "config", Short: "Manage the configuration directory"},
		&cobra.Command{
			Use: "path", Short: "Print the configuration directory", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return printConfigDir(cmd.OutOrStdout(), func(string) error { return nil })
			},
		},
		&cobra.Command{
			Use: "init", Short: "Create the directory, with config.toml and a sample skill", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if err := printConfigDir(cmd.OutOrStdout(), initConfig); err != nil {
					return err
				}
				printNext(cmd.ErrOrStderr(), "axe agents init greeter")
				return nil
			},
		},
	)
}

// printConfigDir calls prepare with the absolute path of the configuration
// directory, which may not exist, and then prints the path.
func printConfigDir(stdout io.Writer, prepare func(dir string) error) error {
	dir, err := configs.ConfigDir()
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := prepare(dir); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, dir)
	return err
}

// initConfig creates the missing parts of a configuration directory: agents/,
// a sample skill and config.toml. It does not change existing files.
func initConfig(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "agents"), 0o700); err != nil {
		return err
	}
	skill := filepath.Join(dir, "skills", "sample", "SKILL.md")
	if _, err := create(skill, configs.SampleSkill(), 0o700, 0o644); err != nil {
		return err
	}
	_, err := create(filepath.Join(dir, configs.GlobalFile), configs.ScaffoldGlobal(), 0o700, 0o600)
	return err
}

// create writes a new file with fileMode, and makes the missing directories
// above it with dirMode. It returns false, and changes no file, if the file
// exists.
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
		// A partial file would make the next attempt report false.
		_ = os.Remove(file)
	}
	return err == nil, err
}

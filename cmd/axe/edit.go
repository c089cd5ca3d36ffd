package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/configs"
)

// edit opens an agent's file in the person's editor. Afterwards it prints a
// warning if the file is invalid.
func (a *agentFiles) edit(ctx context.Context, stderr io.Writer, arg string) error {
	file, err := a.file(arg)
	if err != nil {
		return err
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return cli.NotFound(a.dir, arg)
	}
	editor, err := chooseEditor()
	if err != nil {
		return err
	}
	if err := runEditor(ctx, editor, file); err != nil {
		return err
	}
	if _, err := configs.Load(file); err != nil {
		warn(stderr, err)
	}
	return nil
}

// chooseEditor returns the command line of the person's editor: $EDITOR,
// $VISUAL, or vi.
func chooseEditor() (string, error) {
	if set := strings.TrimSpace(cmp.Or(os.Getenv("EDITOR"), os.Getenv("VISUAL"))); set != "" {
		return set, nil
	}
	if _, err := exec.LookPath("vi"); err == nil {
		return "vi", nil
	}
	const text = "no editor: EDITOR and VISUAL are not set, and there is no vi; set one, for example export EDITOR=nano"
	return "", cli.Fail(cli.CodeConfig, errors.New(text))
}

// runEditor runs an editor on a file, on this process's terminal. A signal
// reaches the editor and does not end this process, so that no text is lost.
func runEditor(ctx context.Context, editor, file string) error {
	args := editorArgs(editor, file)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), args[0], args[1:]...)
	cmd.Stdin = os.Stdin
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	err := cmd.Run()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", editor, err)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return cli.Fail(exit.ExitCode(), err)
	}
	return err
}

// editorArgs returns the command line of an editor. $EDITOR is a shell command
// with arguments and quotes, as for git. If it names a program, it is used as
// it is, so that a path may contain spaces. Without a shell the command is
// split at spaces.
func editorArgs(editor, file string) []string {
	if _, err := exec.LookPath(editor); err == nil {
		return []string{editor, file}
	}
	if sh, err := exec.LookPath("sh"); err == nil {
		return []string{sh, "-c", editor + ` "$@"`, editor, file}
	}
	return append(strings.Fields(editor), file)
}

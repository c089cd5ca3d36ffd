//go:build !linux

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

// MaybeExec returns: only Linux has a helper.
func MaybeExec() {}

var errNoSandbox = errors.New("sandbox: only Linux has a sandbox")

// Probe returns an error: only Linux has a sandbox. It removes temporary
// directories that dead processes have left below os.TempDir().
func Probe(context.Context) (Means, error) {
	removeAbandoned(os.TempDir())
	return Means{}, errNoSandbox
}

// Run runs a program without a sandbox, and returns an error unless c.Off is
// set. If ctx ends, the program's process group gets SIGTERM, and after c.Grace
// SIGKILL; this is no error. The group is killed when the program ends. A
// process that has left the group lives on.
func Run(ctx context.Context, c Config, argv []string, stdin []byte) (result Result, err error) {
	switch c, err = c.validate(); {
	case err != nil:
		return Result{}, err
	case !c.Off:
		return Result{}, errNoSandbox
	case len(argv) == 0:
		return Result{}, errNoProgram
	case ctx.Err() != nil:
		return Result{}, context.Cause(ctx)
	}
	tmp, err := makeTemp(c.TempBase, tempPrefix)
	if err != nil {
		return Result{}, err
	}
	defer func() { result.TempErr = tmp.remove() }()
	path, err := find(argv[0], c)
	if err != nil {
		return Result{}, err
	}
	p := newPrinted(c)
	cmd := &exec.Cmd{
		Path: path, Args: argv, Env: c.environment(tmp.path), Dir: c.Dir,
		Stdin: bytes.NewReader(stdin), Stdout: p.out, Stderr: p.errors,
		SysProcAttr: ownGroup(), WaitDelay: time.Second,
	}
	if err := cmd.Start(); err != nil {
		return Result{}, fmt.Errorf("sandbox: start the program: %w", err)
	}
	return p.into(wait(ctx, c, cmd)), nil
}

func wait(ctx context.Context, c Config, cmd *exec.Cmd) Result {
	var result Result
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		result.Cause = context.Cause(ctx)
		terminateGroup(cmd.Process)
		late := time.NewTimer(c.Grace)
		defer late.Stop()
		select {
		case <-done:
		case <-late.C:
			killGroup(cmd.Process)
		}
	})
	_ = cmd.Wait()
	close(done)
	wg.Wait()
	killGroup(cmd.Process)
	result.Code, result.Signal = exitCode(cmd.ProcessState)
	return result
}

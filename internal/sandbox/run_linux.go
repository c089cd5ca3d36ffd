package sandbox

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The names by which the executable is started again.
const (
	helperName  = "axe-sandbox-helper"
	programName = "axe-sandbox-program"
)

const self = "/proc/self/exe"

const (
	terminate = 't'             // on the control pipe: end the program
	backstop  = 8 * time.Second // for a helper that does not end by itself
	drain     = time.Second     // for output that a stranger holds open
)

// spec is a checked Config with its program, on the way to the helper. It goes
// there with gob, since arguments may be no UTF-8.
type spec struct {
	Config

	Argv  []string
	Tmp   string // TMPDIR
	Check *check // checks to run instead of the program
}

// report is the last word of the helper, in JSON.
type report struct {
	Error  string // the program did not start
	Code   int
	Signal int
	Cause  string // why the helper ended the program
	Left   int
}

const (
	causeWorker    = "worker" // the worker asked for it
	causeProcesses = "processes"
	causeMemory    = "memory"
)

// MaybeExec does the work of the helper, and does not return, if Run has
// started this process. Every main that calls Run or Probe, and every TestMain,
// calls MaybeExec before anything else.
func MaybeExec() {
	switch os.Args[0] {
	case helperName:
		unix.Exit(helper()) // os.Exit takes a second with the race detector
	case programName:
		unix.Exit(program())
	}
}

// Run runs a program, and returns when it and all processes that it has started
// are dead. The program gets stdin as its standard input. If ctx ends, all of
// its processes get SIGTERM, and after c.Grace SIGKILL; this is no error.
//
// Run returns an error if the program did not run. If the error is ErrLost, it
// may have run, and Result has the output only.
func Run(ctx context.Context, c Config, argv []string, stdin []byte) (Result, error) {
	c, err := c.validate()
	if err != nil {
		return Result{}, err
	}
	if len(argv) == 0 {
		return Result{}, errNoProgram
	}
	return run(ctx, spec{Config: c, Argv: argv}, stdin)
}

func run(ctx context.Context, s spec, stdin []byte) (result Result, err error) {
	if os.Args[0] == helperName || os.Args[0] == programName {
		// Without this, each helper would start another one.
		return Result{}, errors.New("sandbox: this program does not call MaybeExec")
	}
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	tmp, err := makeTemp(s.TempBase, tempPrefix)
	if err != nil {
		return Result{}, err
	}
	defer func() { result.TempErr = tmp.remove() }()
	s.Tmp = tmp.path
	printed := newPrinted(s.Config)
	h, err := startHelper(s, stdin, printed)
	if err != nil {
		return Result{}, err
	}
	rep, err := h.wait(ctx, s.Grace+backstop)
	if err != nil {
		killOrphans(s.Tmp)
		return printed.into(Result{}), err
	}
	result = printed.into(Result{Code: rep.Code, Signal: rep.Signal, Left: rep.Left})
	switch rep.Cause {
	case causeProcesses:
		result.Cause = ErrProcesses
	case causeMemory:
		result.Cause = ErrMemory
	case causeWorker:
		result.Cause = context.Cause(ctx)
	}
	return result, nil
}

// started is a helper at work.
type started struct {
	cmd     *exec.Cmd
	control *os.File // the helper kills the program when this is closed
	report  *os.File
}

// startHelper starts the helper with an empty environment: neither a key of the
// worker nor a variable such as LD_PRELOAD reaches a process without a sandbox.
func startHelper(s spec, stdin []byte, p printed) (*started, error) {
	controlR, controlW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("sandbox: control pipe: %w", err)
	}
	defer func() { _ = controlR.Close() }()
	reportR, reportW, err := os.Pipe()
	if err != nil {
		_ = controlW.Close()
		return nil, fmt.Errorf("sandbox: report pipe: %w", err)
	}
	defer func() { _ = reportW.Close() }()
	base, err := os.Open(s.TempBase)
	if err != nil {
		_ = controlW.Close()
		_ = reportR.Close()
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	defer func() { _ = base.Close() }()
	attr := &syscall.SysProcAttr{Setsid: true}
	if s.Namespaces {
		isolate(attr)
	}
	cmd := &exec.Cmd{
		Path: self, Args: []string{helperName}, Env: []string{}, Dir: "/",
		Stdin: bytes.NewReader(stdin), Stdout: p.out, Stderr: p.errors,
		ExtraFiles:  []*os.File{controlR, reportW, base},
		SysProcAttr: attr,
		WaitDelay:   drain,
	}
	err = cmd.Start()
	if err == nil {
		h := &started{cmd: cmd, control: controlW, report: reportR}
		if err = gob.NewEncoder(controlW).Encode(s); err == nil {
			return h, nil
		}
		h.kill()
	}
	_ = controlW.Close()
	_ = reportR.Close()
	return nil, fmt.Errorf("sandbox: start the helper: %w", err)
}

func (h *started) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

// wait waits for the helper. It asks the helper to end the program when ctx
// ends, and kills a helper that has not ended after patience.
func (h *started) wait(ctx context.Context, patience time.Duration) (report, error) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { h.endWith(ctx, patience, done) })
	err := h.cmd.Wait()
	close(done)
	wg.Wait()
	_ = h.control.Close()
	var rep report
	decodeErr := json.NewDecoder(h.report).Decode(&rep)
	_ = h.report.Close()
	if decodeErr != nil {
		return rep, fmt.Errorf("sandbox: %w: %w", ErrLost, errors.Join(err, decodeErr))
	}
	if rep.Error != "" {
		return rep, fmt.Errorf("sandbox: %s", rep.Error)
	}
	return rep, nil
}

func (h *started) endWith(ctx context.Context, patience time.Duration, done <-chan struct{}) {
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	_, _ = h.control.Write([]byte{terminate})
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		_ = h.cmd.Process.Kill()
	}
}

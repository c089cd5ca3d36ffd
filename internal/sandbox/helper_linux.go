package sandbox

import (
	"bufio"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The file descriptors of the helper, besides the standard ones.
const (
	controlFD = 3
	reportFD  = 4
	baseFD    = 5 // the directory of TMPDIR, outside
)

const (
	watchEvery = 250 * time.Millisecond
	killEvery  = 50 * time.Millisecond
	giveUp     = 5 * time.Second
)

// helper runs one program: it is the subreaper of all processes of the sandbox,
// and dies last.
func helper() int {
	unix.CloseOnExec(controlFD)
	unix.CloseOnExec(reportFD)
	unix.CloseOnExec(baseFD)
	control := bufio.NewReader(os.NewFile(controlFD, "control"))
	var s spec
	var rep report
	err := gob.NewDecoder(control).Decode(&s) // reads no byte more
	if err == nil && s.Namespaces {
		err = s.mount()
	}
	if err == nil {
		rep = supervise(s, control)
		s.removeTempOutside() // if the worker is dead, no other process does
	} else {
		rep.Error = err.Error()
	}
	if json.NewEncoder(os.NewFile(reportFD, "report")).Encode(rep) != nil {
		return 1
	}
	return 0
}

// supervise runs the program, and returns when no process of it is left.
func supervise(s spec, control io.ByteReader) report {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return report{Error: fmt.Sprintf("become the subreaper: %v", err)}
	}
	pid, err := startProgram(s)
	if err != nil {
		return report{Error: err.Error()}
	}
	w := &watch{spec: s, pid: pid, ended: make(chan unix.WaitStatus, 1), empty: make(chan struct{})}
	commands := make(chan byte)
	go w.reap()
	go listen(control, commands)
	return w.until(commands)
}

// startProgram starts the second process, and returns when it has executed the
// program. The thread that starts it stays: the kernel kills the program when
// that thread ends.
func startProgram(s spec) (int, error) {
	type answer struct {
		pid int
		err error
	}
	answers := make(chan answer)
	go func() {
		runtime.LockOSThread()
		pid, err := forkProgram(s)
		answers <- answer{pid, err}
		select {}
	}()
	a := <-answers
	return a.pid, a.err
}

func forkProgram(s spec) (int, error) {
	specR, specW, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("pipe for the program: %w", err)
	}
	failR, failW, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("pipe for the program: %w", err)
	}
	pid, err := syscall.ForkExec(self, []string{programName}, &syscall.ProcAttr{
		Env:   []string{},
		Files: []uintptr{0, 1, 2, specR.Fd(), failW.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	_ = specR.Close()
	_ = failW.Close()
	if err != nil {
		return 0, fmt.Errorf("start the program: %w", err)
	}
	err = gob.NewEncoder(specW).Encode(s)
	_ = specW.Close()
	failure, readErr := io.ReadAll(failR)
	_ = failR.Close()
	if len(failure) > 0 {
		return 0, errors.New(string(failure))
	}
	return pid, errors.Join(err, readErr)
}

// listen sends what the worker writes to the control pipe, and closes commands
// when the worker is dead.
func listen(control io.ByteReader, commands chan<- byte) {
	defer close(commands)
	for {
		b, err := control.ReadByte()
		if err != nil {
			return
		}
		commands <- b
	}
}

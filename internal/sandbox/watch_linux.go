package sandbox

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// watch is the helper's view of a program at work.
type watch struct {
	spec
	pid   int
	ended chan unix.WaitStatus // the program has ended
	empty chan struct{}        // closed when no process is left
}

// reap waits for the program and for all orphans that the helper adopts. A
// subreaper without a child has no descendant either.
func (w *watch) reap() {
	defer close(w.empty)
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return
		case pid == w.pid:
			w.ended <- status
		}
	}
}

// until returns when the program and all of its processes have ended. It ends
// them after a word of the worker, after the worker's death, beyond a limit,
// and when the program itself has ended.
func (w *watch) until(commands <-chan byte) report {
	look := time.NewTicker(watchEvery)
	defer look.Stop()
	var grace <-chan time.Time
	var rep report
	for {
		select {
		case status := <-w.ended:
			w.killAll(&rep)
			rep.Code, rep.Signal = exitCode(status)
			return rep
		case _, alive := <-commands:
			if alive {
				rep.Cause = causeWorker
				signalAll(w.pid, unix.SIGTERM)
				grace = time.After(w.Grace)
			} else {
				commands = nil
				grace = time.After(0)
			}
		case <-look.C:
			if cause := w.excess(); cause != "" {
				rep.Cause = cause
				grace = time.After(0)
			}
		case <-grace:
			w.killAll(&rep)
			rep.Code, rep.Signal = w.exit()
			return rep
		}
	}
}

// excess names the limit that the processes together are beyond, if any.
func (w *watch) excess() string {
	if w.Off {
		return ""
	}
	procs, memory := usage(descendants())
	switch {
	case procs > w.MaxProcs:
		return causeProcesses
	case memory > w.MaxMemory:
		return causeMemory
	}
	return ""
}

// killAll kills until the helper has no child. A process that starts others as
// fast is caught, since a signal to a group reaches all of it at once. Most
// programs have only one group, so killAll does not look for others at first.
func (w *watch) killAll(rep *report) {
	_ = unix.Kill(-w.pid, unix.SIGKILL)
	end := time.After(giveUp)
	for pause := time.Millisecond; ; pause = min(2*pause, killEvery) {
		select {
		case <-w.empty:
			return
		case <-end:
			rep.Left = len(descendants())
			return
		case <-time.After(pause):
			signalAll(w.pid, unix.SIGKILL)
		}
	}
}

// exit returns the exit code of a program that was killed.
func (w *watch) exit() (code, signal int) {
	select {
	case status := <-w.ended:
		return exitCode(status)
	default: // it hangs in the kernel
		return 128 + int(unix.SIGKILL), int(unix.SIGKILL)
	}
}

func exitCode(status unix.WaitStatus) (code, signal int) {
	if status.Signaled() {
		return 128 + int(status.Signal()), int(status.Signal())
	}
	return status.ExitStatus(), 0
}

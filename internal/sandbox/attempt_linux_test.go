package sandbox

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// attempt makes one attempt. The process ends with 0 if it worked, with 1 if
// not, and with 2 if there is no such attempt. It prints the reason.
func attempt(name string, args []string) int {
	try, ok := attempts()[name]
	if !ok {
		fmt.Println("no such attempt:", name)
		return 2
	}
	if err := try(args); err != nil {
		fmt.Println(err)
		unix.Exit(1) // os.Exit takes a second with the race detector
	}
	unix.Exit(0)
	return 0
}

// attempts has the attempts of the test binary by name.
func attempts() map[string]attemptFunc {
	all := map[string]attemptFunc{"worker": work, "filtered": filtered, "temp": keepTemp}
	for _, some := range []map[string]attemptFunc{
		fileAttempts(), processAttempts(), networkAttempts(), kernelAttempts(),
	} {
		maps.Copy(all, some)
	}
	return all
}

// work is a worker that runs a program of two processes that sleep, until it is
// killed. Its arguments are the working directory, the directory for TMPDIRs,
// the seconds to sleep, and whether the sandbox is off.
func work(args []string) error {
	c := Config{Dir: args[0], TempBase: args[1], Off: args[3] == "true", Env: []string{"PATH=" + os.Getenv("PATH")}}
	seconds := args[2]
	script := "(setsid sleep " + seconds + " &); sleep " + seconds
	_, err := Run(context.Background(), c, []string{"sh", "-c", script}, nil)
	return err
}

// keepTemp makes a temporary directory below the argument, prints its path, and
// sleeps until it is killed.
func keepTemp(args []string) error {
	t, err := makeTemp(args[0], probePrefix)
	if err != nil {
		return err
	}
	fmt.Println(t.path)
	return unix.Pause()
}

// filtered makes an attempt behind the seccomp filter for a version of
// Landlock, without Landlock. Its arguments are the version, the attempt and
// the arguments of the attempt.
func filtered(args []string) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := installFilter(false, number(args[0])); err != nil {
		return err
	}
	return fileAttempts()[args[1]](args[2:])
}

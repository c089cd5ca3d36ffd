package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// fed reports whether a process that is not above this one may write to the
// pipe f: another command of the same pipeline. One of the same session that
// does not let itself be looked into counts (sudo). What is no pipe counts as
// fed, but for a socket.
func fed(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return true
	}
	pipe, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	switch {
	case info.Mode()&os.ModeSocket != 0:
		return false
	case err != nil, info.Mode()&os.ModeNamedPipe == 0:
		return true
	}
	above, session := ancestors(), status(os.Getpid()).session
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if above[pid] {
			continue
		}
		ends, err := os.ReadDir(filepath.Join(dir, "fd"))
		if os.IsPermission(err) && status(pid).session == session {
			return true
		}
		for _, e := range ends {
			end := filepath.Join(dir, "fd", e.Name())
			if to, err := os.Readlink(end); err == nil && to == pipe && writable(end) {
				return true
			}
		}
	}
	return false
}

// ancestors are this process and those above it.
func ancestors() map[int]bool {
	above := map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !above[pid]; pid = status(pid).parent {
		above[pid] = true
	}
	return above
}

// writable reports whether an entry of /proc/PID/fd is open for writing, which
// its permissions show.
func writable(end string) bool {
	info, err := os.Lstat(end)
	return err == nil && info.Mode()&0o200 != 0
}

// process is what /proc/PID/stat says of a process; zero if there is none.
type process struct{ parent, session int }

func status(pid int) process {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}
	}
	// PID (NAME) STATE PARENT GROUP SESSION …, and a name may hold anything
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 4 {
		return process{}
	}
	var p process
	p.parent, _ = strconv.Atoi(string(fields[1]))
	p.session, _ = strconv.Atoi(string(fields[3]))
	return p
}

package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// hasWriter reports whether another process may write to the pipe f. Ancestors
// of this process do not count. A process of the same session that cannot be
// inspected counts (sudo). A socket has no writer; any other file has.
func hasWriter(f *os.File) bool {
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

// ancestors returns this process and the processes above it.
func ancestors() map[int]bool {
	above := map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !above[pid]; pid = status(pid).parent {
		above[pid] = true
	}
	return above
}

// writable reports whether an entry of /proc/PID/fd is open for writing. The
// permissions of the entry tell.
func writable(end string) bool {
	info, err := os.Lstat(end)
	return err == nil && info.Mode()&0o200 != 0
}

// process holds fields of /proc/PID/stat. It is zero if there is no process.
type process struct{ parent, session int }

func status(pid int) process {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}
	}
	// The format is PID (NAME) STATE PARENT GROUP SESSION …. NAME may
	// contain any character.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 4 {
		return process{}
	}
	var p process
	p.parent, _ = strconv.Atoi(string(fields[1]))
	p.session, _ = strconv.Atoi(string(fields[3]))
	return p
}

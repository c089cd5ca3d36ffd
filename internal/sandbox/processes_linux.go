package sandbox

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// descendants lists the processes below this one. It is a snapshot: processes
// may have started or ended since.
func descendants() []int {
	children := childrenOf
	if _, err := os.Stat("/proc/thread-self/children"); err != nil {
		byParent := allParents() // a kernel without CONFIG_PROC_CHILDREN
		children = func(pid int) []int { return byParent[pid] }
	}
	var found []int
	seen := map[int]bool{}
	for queue := children(os.Getpid()); len(queue) > 0; queue = queue[1:] {
		if pid := queue[0]; !seen[pid] {
			seen[pid] = true
			found = append(found, pid)
			queue = append(queue, children(pid)...)
		}
	}
	return found
}

// childrenOf lists the children of each thread of a process.
func childrenOf(pid int) []int {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var children []int
	for _, thread := range threads {
		text, err := os.ReadFile(dir + thread.Name() + "/children")
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// allParents lists the children of every process of the machine.
func allParents() map[int][]int {
	children := map[int][]int{}
	for _, pid := range allProcesses() {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			continue
		}
		// The name of the program, in parentheses, may contain anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(string(fields[1])); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	return children
}

// allProcesses lists the processes that /proc shows.
func allProcesses() []int {
	var all []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// userThreads counts the threads of this user that /proc shows: in a namespace,
// those of the sandbox.
func userThreads() int {
	n := 0
	uid := uint32(os.Getuid())
	for _, pid := range allProcesses() {
		var stat unix.Stat_t
		if err := unix.Stat("/proc/"+strconv.Itoa(pid)+"/task", &stat); err == nil && stat.Uid == uid {
			n += int(stat.Nlink) - 2
		}
	}
	return n
}

// usage returns the number of processes and the bytes of memory that they do
// not share.
func usage(pids []int) (procs int, memory int64) {
	page := int64(os.Getpagesize())
	for _, pid := range pids {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
		if err != nil {
			continue
		}
		procs++
		fields := strings.Fields(string(text))
		if len(fields) < 3 {
			continue
		}
		resident, _ := strconv.ParseInt(fields[1], 10, 64)
		shared, _ := strconv.ParseInt(fields[2], 10, 64)
		memory += (resident - shared) * page
	}
	return procs, memory
}

// signalAll sends a signal to the program's group, to every descendant, and to
// the groups of those.
func signalAll(program int, sig unix.Signal) {
	own, _ := unix.Getpgid(0)
	groups := map[int]bool{own: true}
	_ = unix.Kill(-program, sig)
	groups[program] = true
	for _, pid := range descendants() {
		group, err := unix.Getpgid(pid)
		if err == nil && !groups[group] {
			groups[group] = true
			_ = unix.Kill(-group, sig)
		}
		if group != program {
			_ = unix.Kill(pid, sig)
		}
	}
}

package sandbox

import (
	"os"
	"slices"
	"strconv"
)

// escapes lists everything that TestEscapes tries.
func escapes() []escape {
	return slices.Concat(fileEscapes(), processEscapes(), networkEscapes(), kernelEscapes())
}

// readOnly takes away the right to write the working directory.
func readOnly(c *Config) { c.Write = nil }

// fileEscapes are the escapes to files outside, and to devices.
func fileEscapes() []escape {
	return []escape{
		{name: "read with ..", script: `cat ../outside/secret`},
		{name: "read an absolute path", script: `cat "$OUT/secret"`},
		{name: "read through a symbolic link", script: `ln -s "$OUT/secret" link && cat link`},
		{name: "write through a linked directory", script: `ln -s "$OUT" d && echo x >d/new`},
		{name: "read through /proc/self/cwd", script: `cat /proc/self/cwd/../outside/secret`},
		{name: "read through /proc/self/root", script: `cat "/proc/self/root$OUT/secret"`},
		{name: "hard link a file outside", script: `ln "$OUT/secret" mine && cat mine`},
		{name: "hard link to the outside", script: `echo x >f && ln f "$OUT/f"`},
		{name: "move a file in", script: `mv "$OUT/secret" mine`},
		{name: "move a file out", script: `echo x >f && mv f "$OUT/f"`},
		{name: "exchange a file", try: []string{"exchange", "$OUT/secret"}},
		{name: "list a directory", script: `ls "$OUT"`},
		{name: "list the root", script: `ls /`},
		{name: "change a file", script: `echo x >"$OUT/plain"`},
		{name: "append to a file", script: `echo x >>"$OUT/plain"`},
		{name: "change a file that may be read", script: `echo x >>"$READ"`},
		{name: "truncate a file", try: []string{"truncate", "$READ"}},
		{name: "truncate while opening for reading", try: []string{"truncate-open", "$READ"}},
		{name: "remove a file", script: `rm -f "$OUT/secret" && ! test -e "$OUT/secret"`},
		{name: "make a directory", script: `mkdir "$OUT/d"`},
		{name: "make a pipe", script: `mkfifo "$OUT/p"`},
		{name: "execute a program", script: `"$OUT/prog" || exit 1`},
		{name: "execute a program by its loader", try: []string{"map", "$OUT/secret"}},
		{name: "write the working directory", script: `echo x >new`, change: readOnly},
		{name: "write a hook of git", script: `mkdir -p .git/hooks && echo x >.git/hooks/pre-commit`, change: readOnly},
		{name: "write /tmp", script: `f=$(mktemp /tmp/axe-escape-XXXXXX) && rm "$f"`},
		{name: "write /dev/shm", script: `f=$(mktemp /dev/shm/axe-escape-XXXXXX) && rm "$f"`},
		{name: "read the kernel's log", script: `test -n "$(dd if=/dev/kmsg bs=8192 count=1)"`, root: true},
		{name: "read the kernel's memory", script: `head -c 4 /proc/kcore >/dev/null`, root: true},
		{name: "list devices of the machine", script: `ls /sys/class`},
		{name: "read a disk", try: []string{"disk"}, root: true},
		{name: "make a device", script: `mknod dev c 1 3`, root: true},
		{name: "make a device and read it", script: `mknod dev c 1 5 && head -c 1 dev >/dev/null`, root: true},
		{name: "open a terminal", script: `: <>/dev/ptmx`},
		{name: "read /etc/shadow", script: `cat /etc/shadow`, root: true},
		{name: "read a home directory", script: `ls ~root`, root: true},
		{name: "change a mode", script: `chmod 777 "$OUT/secret"`, mounts: true},
		{name: "change a mode for all", script: `chmod 0 "$OUT" && chmod 700 "$OUT"`, mounts: true},
		{name: "change a time", script: `touch -d @0 "$OUT/secret"`, mounts: true},
		{name: "change an owner", script: `chown 12345 "$OUT/secret"`, root: true, mounts: true},
		{name: "remount", try: []string{"remount", "$OUT"}, root: true},
		{name: "unmount", try: []string{"unmount"}, root: true},
		{name: "open by a handle", try: []string{"handle", "$OUT/secret"}, root: true},
	}
}

// processEscapes are the escapes to processes outside.
func processEscapes() []escape {
	return []escape{
		{name: "read an environment", script: `grep secret "/proc/$VICTIM/environ"`},
		{name: "read a command line", script: `grep sleep "/proc/$VICTIM/cmdline"`},
		{name: "read through /proc/PID/root", script: `cat "/proc/$VICTIM/root$OUT/secret"`},
		{name: "list /proc/PID/cwd", script: `ls "/proc/$VICTIM/cwd/"`},
		{name: "list the files of a process", script: `ls -l "/proc/$VICTIM/fd"`},
		{name: "open a file of the worker", try: []string{"open", "/proc/${WORKER}/fd/$FD"}, change: addWorker},
		{name: "open the memory of a process", try: []string{"open", "/proc/$VICTIM/mem"}},
		{name: "open the memory of the helper", script: `head -c 0 "/proc/$PPID/mem"`},
		{name: "read the memory of a process", try: []string{"vm-read", "$VICTIM"}},
		{name: "trace a process", try: []string{"ptrace", "$VICTIM"}},
		{name: "kill a process", script: `kill -9 "$VICTIM"`, abi: 6},
		{name: "kill the helper", script: `kill -0 "$PPID"`, abi: 6},
		{name: "kill a process by its descriptor", try: []string{"pidfd-kill", "$VICTIM"}, abi: 6},
		{name: "limit a process", try: []string{"prlimit", "$VICTIM"}},
		{name: "slow down a process", script: `renice -n 19 -p "$VICTIM"`},
		{name: "schedule a process", try: []string{"schedule", "$VICTIM"}},
		{name: "take a file of a process", try: []string{"pidfd-take", "$VICTIM"}},
		{name: "enter a namespace", try: []string{"setns", "$VICTIM"}, root: true},
	}
}

// networkEscapes are the escapes over sockets.
func networkEscapes() []escape {
	return []escape{
		{name: "TCP by /dev/tcp of bash", script: `bash -c 'exec 3<>"/dev/tcp/${TCP%:*}/${TCP#*:}"'`},
		{name: "TCP", try: []string{"dial", "tcp", "$TCP"}},
		{name: "TCP over IPv6", try: []string{"dial", "tcp", "$TCP6"}},
		{name: "multipath TCP", try: []string{"mptcp", "$TCP"}},
		{name: "listen", try: []string{"listen"}},
		{name: "UDP", try: []string{"send", "$UDP"}},
		{name: "DNS", try: []string{"dns", "$UDP"}},
		{name: "raw socket", try: []string{"socket", "2", "3", "1"}, root: true},
		{name: "packet socket", try: []string{"socket", "17", "3", "0"}, root: true},
		{name: "netlink", try: []string{"socket", "16", "3", "0"}},
		{name: "netlink audit with network", try: []string{"socket", "16", "3", "9"}, change: withNetwork},
		{name: "raw socket with network", try: []string{"socket", "2", "3", "1"}, root: true, change: withNetwork},
		{name: "kernel crypto socket", try: []string{"socket", "38", "5", "0"}},
		{name: "vsock", try: []string{"socket", "40", "1", "0"}},
		{name: "Unix socket", try: []string{"dial", "unix", "$SOCK"}},
		{name: "Unix socket with network", try: []string{"dial", "unix", "$SOCK"}, change: withNetwork},
		{name: "abstract Unix socket", try: []string{"dial", "unix", "$ABSTRACT"}},
		{name: "Unix datagrams", try: []string{"dial", "unixgram", "$SOCK"}},
	}
}

// kernelEscapes are the escapes by other features of the kernel.
func kernelEscapes() []escape {
	return []escape{
		{name: "user namespace", try: []string{"namespace", "0x10000000"}},
		{name: "user namespace by clone3", try: []string{"clone3", "0x10000000"}},
		{name: "mount namespace", try: []string{"namespace", "0x20000"}, root: true},
		{name: "unshare", script: `unshare -m true`, root: true},
		{name: "mount", try: []string{"mount"}, root: true},
		{name: "new mount interface", try: []string{"fsopen"}, root: true},
		{name: "chroot", script: `chroot . true; test $? -ne 125`, root: true},
		{name: "io_uring", try: []string{"io_uring"}},
		{name: "bpf", try: []string{"bpf"}},
		{name: "perf events", try: []string{"perf"}},
		{name: "userfaultfd", try: []string{"userfaultfd"}},
		{name: "keys", try: []string{"keyctl"}},
		{name: "shared memory", try: []string{"shmget"}},
		{name: "message queue", try: []string{"mq_open"}},
		{name: "semaphores", try: []string{"semget"}},
		{name: "fanotify", try: []string{"fanotify"}, root: true},
		{name: "the clock", try: []string{"clock"}, root: true},
		{name: "the host name", try: []string{"hostname"}, root: true},
		{name: "type into a terminal", try: []string{"tiocsti"}},
	}
}

// withNetwork grants the network.
func withNetwork(c *Config) { c.Network = true }

// addWorker adds the variable WORKER, the process id of the worker.
func addWorker(c *Config) { c.Env = append(c.Env, "WORKER="+strconv.Itoa(os.Getpid())) }

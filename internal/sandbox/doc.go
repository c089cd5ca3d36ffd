// Package sandbox runs a program that a model asked for, on Linux, without
// privileges and without other programs.
//
// The package keeps one invariant: a program that Run has started changes the
// contents of no file outside Config.Write and its own TMPDIR, reads no file
// outside Config.Dir, Config.Read and the system's directories, reaches no
// network unless Config.Network is set, and is dead when Run returns, with
// every process that it started. Run fails closed: it returns an error if the
// kernel lacks a part of this.
//
//	func main() {
//		sandbox.MaybeExec() // before anything else
//		means, err := sandbox.Probe(ctx)
//		if err != nil {
//			return err // refuse agents that run commands
//		}
//		c := sandbox.Config{
//			Dir: dir, Write: []string{dir}, Namespaces: means.Namespaces,
//			Env: []string{"PATH=/usr/bin:/bin"},
//		}
//		result, err := sandbox.Run(ctx, c, []string{"sh", "-c", "go test ./..."}, nil)
//	}
//
// # How it works
//
// Run starts this executable twice more. The helper is the subreaper of the
// sandbox and has no restriction of its own. It starts the second process,
// which sets no_new_privs, Landlock, a seccomp filter and limits, and then
// executes the program. Both start with an empty environment.
//
// The helper holds a pipe from the worker. When the pipe ends, the worker is
// dead, and the helper kills every descendant and removes TMPDIR. When the
// helper dies, the kernel kills the program, and the worker everything else
// that has the run's TMPDIR in its environment. If both are killed, TMPDIR
// stays. The worker has a lock on it, which ends with the worker: the next
// Probe on the machine removes what has no lock.
//
// With Config.Namespaces, the helper is process 1 of a namespace of processes,
// and all mounts but those of Write and TMPDIR are read-only. There is no
// namespace of the network: the filter refuses sockets already.
//
// # What it does not promise
//
// Without Config.Namespaces:
//
//   - A program may change the mode, owner, times and attributes of files
//     outside that belong to its user. It cannot read or change their contents.
//   - Before Linux 6.12 (Landlock 6), a program may send signals to all
//     processes of its user, such as the worker.
//   - A process that has changed its environment lives on if the helper is
//     killed, and so do all but the program if the worker is killed with it.
//   - Children of the program find no /proc/self.
//
// Always:
//
//   - A program may ask whether a file exists, and how large it is.
//   - Total disk use is not limited, only the size of one file. Shared memory
//     of a program's processes is not limited either.
//   - A program that may write a directory may write all of it, such as
//     .git/hooks in it. A hard link there to a file elsewhere, made before
//     the run, is that file.
//   - With Network, a program reaches every host, and services of this machine.
//   - Sockets of the Unix family, SysV and POSIX message queues and shared
//     memory, /dev/shm and terminals are refused, with Network too.
//   - For root, only the helper's looks bound the number of processes.
//
// Config.Off removes every restriction. It is the decision of the worker's
// operator. Systems other than Linux have this mode only.
package sandbox

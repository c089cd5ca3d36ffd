// Package sandbox runs a program that a model asked for, on Linux, without
// privileges and without other programs.
//
// The package keeps one invariant: a program that Run has started changes
// nothing outside Config.Write and its own TMPDIR, reads no file outside
// Config.Dir, Config.Read and the system's directories, reaches no network
// unless Config.Network is set, and is dead when Run returns, with every
// process that it started. Run fails closed: it returns an error if the kernel
// lacks a part of this.
//
//	func main() {
//		sandbox.MaybeExec() // before anything else
//		if err := sandbox.Probe(ctx); err != nil {
//			return err // refuse agents that run commands
//		}
//		c := sandbox.Config{Dir: dir, Write: []string{dir}, Env: []string{"PATH=/usr/bin:/bin"}}
//		result, err := sandbox.Run(ctx, c, []string{"sh", "-c", "go test ./..."}, nil)
//	}
//
// # How it works
//
// Run starts this executable twice more. The helper is the subreaper of the
// sandbox and has no restriction of its own. It starts the second process,
// which sets no_new_privs, limits, Landlock and a seccomp filter for its only
// thread, and then executes the program. The helper holds a pipe from the
// worker. When the pipe ends, the worker is dead, and the helper kills every
// descendant. When the helper dies, the kernel kills the program.
//
// # What it does not promise
//
// The following gaps are those of Landlock and seccomp without namespaces:
//
//   - A program may change the mode, owner, times and attributes of files
//     outside that belong to its user, and may ask whether a file exists.
//     It cannot read or change their contents.
//   - A kernel before 6.12 (Landlock 6) does not stop signals to other
//     processes of the same user. See [Means] for the version.
//   - Total disk use is not limited, only the size of one file.
//   - A program that may write a directory may write all of it, such as
//     .git/hooks in it. A hard link there to a file elsewhere, made before
//     the run, is that file.
//   - Sockets of the Unix family, SysV and POSIX message queues and shared
//     memory, /dev/shm and terminals are refused, with Network too.
//
// Config.Off removes every restriction. It is the decision of the worker's
// operator. Systems other than Linux have this mode only.
package sandbox

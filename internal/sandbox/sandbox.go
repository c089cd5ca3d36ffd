package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Defaults of a Config's limits.
const (
	DefaultMaxProcs  = 512
	DefaultMaxMemory = 4 << 30
	DefaultMaxFile   = 1 << 30
	DefaultMaxOpen   = 4096
	DefaultGrace     = 2 * time.Second
	DefaultKeep      = 64 << 10
)

// minMemory is the least MaxMemory: less starts no useful program.
const minMemory = 16 << 20

// Errors that Result.Cause wraps or is.
var (
	ErrProcesses = errors.New("the program had too many processes")
	ErrMemory    = errors.New("the program used too much memory")
)

// ErrLost is wrapped by an error of Run after which it is unknown whether the
// program ran, or how far: its helper was killed.
var ErrLost = errors.New("the helper died")

var errNoProgram = errors.New("sandbox: no program was given")

// Config says how a program runs. The zero value with a Dir is the strictest:
// the program reads Dir and the system's directories, and writes its TMPDIR.
type Config struct {
	// Dir is the absolute working directory. The program may read all of
	// it.
	Dir string
	// Write lists the directories that the program may write and read.
	// Paths are absolute or below Dir. Below Dir, a symbolic link may not
	// lead out of it. A directory that does not exist is an error.
	Write []string
	// Read lists more directories and files that the program may read and
	// execute. Paths are as in Write. A path that does not exist is left
	// out.
	Read []string
	// Network lets the program use TCP and UDP, to every host.
	Network bool
	// Env is the whole environment, besides TMPDIR. Nothing is inherited.
	Env []string
	// Namespaces adds namespaces of processes and mounts. Set it to
	// Means.Namespaces: where the kernel does not allow them, Run fails.
	Namespaces bool
	// Off runs the program without a sandbox and without the limits below
	// on processes, memory and files.
	Off bool

	// MaxProcs is the number of processes that the program may have at
	// once. The helper counts them four times a second, and kills the
	// program that has more. RLIMIT_NPROC cannot do this: it counts all
	// processes of the user, so that programs side by side would starve
	// each other. The default is DefaultMaxProcs.
	MaxProcs int
	// MaxMemory is the number of bytes of private memory. The kernel holds
	// each process to it (RLIMIT_DATA), and the helper all of them
	// together, four times a second. The default is DefaultMaxMemory.
	MaxMemory int64
	// MaxFile is the size of a file in bytes. The default is
	// DefaultMaxFile.
	MaxFile int64
	// MaxOpen is the number of open files of a process. The default is
	// DefaultMaxOpen.
	MaxOpen int

	// Grace is the time between SIGTERM and SIGKILL. The default is
	// DefaultGrace.
	Grace time.Duration
	// Head and Tail are the numbers of bytes of output that are kept from
	// the beginning and from the end. The default is DefaultKeep each.
	Head, Tail int
	// Apart keeps the standard error apart from the output
	// (Result.Errors).
	Apart bool
	// TempBase is the directory below which TMPDIR is made. The default is
	// os.TempDir().
	TempBase string
}

// Means says how programs are held.
type Means struct {
	Landlock   int  // version
	Namespaces bool // of processes and mounts
	// NoNamespaces says why there are no namespaces. It may wrap ErrUnsure.
	NoNamespaces error
}

// ErrUnsure is wrapped by an error of Probe that says nothing about the kernel:
// Probe could not make its files, or did not end in time. Another Probe may
// succeed.
var ErrUnsure = errors.New("the sandbox could not be tried")

// String returns such as "landlock7+seccomp+namespaces", for outcomes and logs.
// It returns "none" where there is no sandbox.
func (m Means) String() string {
	switch {
	case m.Landlock == 0:
		return "none"
	case m.Namespaces:
		return fmt.Sprintf("landlock%d+seccomp+namespaces", m.Landlock)
	}
	return fmt.Sprintf("landlock%d+seccomp", m.Landlock)
}

// Result says how a program ended.
type Result struct {
	// Code is the exit code, or 128 and the signal's number.
	Code int
	// Signal is the number of the signal that ended the program, or 0.
	Signal int
	// Cause says why Run ended the program: the cause of the end of ctx,
	// ErrProcesses or ErrMemory. It is nil if the program ended by itself.
	Cause error
	// Output is the standard output and the standard error together. With
	// Config.Apart it is the standard output alone.
	Output Output
	// Errors is the standard error, with Config.Apart.
	Errors Output
	// Left is the number of processes that did not die within five seconds
	// of SIGKILL. It is 0 except for processes that hang in the kernel.
	Left int
	// TempErr says why TMPDIR could not be removed. It is nil as a rule.
	TempErr error
}

// validate returns c with its defaults, or says what is wrong with it.
func (c Config) validate() (Config, error) {
	if !filepath.IsAbs(c.Dir) {
		return c, fmt.Errorf("sandbox: the working directory must be an absolute path, got %q", c.Dir)
	}
	if info, err := os.Stat(c.Dir); err != nil {
		return c, fmt.Errorf("sandbox: working directory: %w", err)
	} else if !info.IsDir() {
		return c, fmt.Errorf("sandbox: the working directory %s is not a directory", c.Dir)
	}
	for _, e := range c.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" || strings.ContainsRune(e, 0) {
			return c, errors.New("sandbox: an entry of the environment must be NAME=VALUE")
		}
	}
	c.Namespaces = c.Namespaces && !c.Off
	c.MaxProcs = cmp.Or(c.MaxProcs, DefaultMaxProcs)
	c.MaxMemory = cmp.Or(c.MaxMemory, DefaultMaxMemory)
	c.MaxFile = cmp.Or(c.MaxFile, DefaultMaxFile)
	c.MaxOpen = cmp.Or(c.MaxOpen, DefaultMaxOpen)
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	c.Head = cmp.Or(c.Head, DefaultKeep)
	c.Tail = cmp.Or(c.Tail, DefaultKeep)
	if c.MaxProcs < 0 || c.MaxFile < 0 || c.MaxOpen < 16 || c.Grace < 0 || c.Head < 0 || c.Tail < 0 {
		return c, errors.New("sandbox: a limit must be positive, and 16 or more open files")
	}
	if c.MaxMemory < minMemory {
		return c, fmt.Errorf("sandbox: the memory limit must be %d bytes or more, got %d", minMemory, c.MaxMemory)
	}
	c.TempBase = cmp.Or(c.TempBase, os.TempDir())
	return c, nil
}

// environment returns the environment of a program with the given TMPDIR.
func (c Config) environment(tmp string) []string {
	env := slices.DeleteFunc(slices.Clone(c.Env), func(e string) bool { return strings.HasPrefix(e, "TMPDIR=") })
	return append(env, "TMPDIR="+tmp)
}

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

// Means names how programs are held, for outcomes and logs, such as
// "landlock7+seccomp". It is "none" where there is no sandbox.
func Means() string {
	abi, err := landlockVersion()
	if err != nil || auditArch == 0 {
		return "none"
	}
	return "landlock" + strconv.Itoa(abi) + "+seccomp"
}

// Probe tries forbidden things in a sandbox, and returns an error that names
// those that were not refused, or why there is no sandbox. A worker that gets an
// error must not call Run, unless with Config.Off. Probe makes its files below
// os.TempDir().
func Probe(ctx context.Context) (err error) {
	if _, err := landlockVersion(); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if auditArch == 0 {
		return errors.New("sandbox: there is no seccomp filter for " + runtime.GOARCH)
	}
	dir, err := os.MkdirTemp("", "axe-probe-")
	if err != nil {
		return fmt.Errorf("sandbox: make the probe's files: %w", err)
	}
	defer func() { err = errors.Join(err, removeTemp(dir)) }()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("sandbox: open the probe's listener: %w", err)
	}
	defer func() { err = errors.Join(err, listener.Close()) }()
	k := &check{
		Secret: filepath.Join(dir, "outside", "secret"), Worker: os.Getpid(),
		Port: listener.Addr().(*net.TCPAddr).Port,
	}
	c, err := Config{Dir: filepath.Join(dir, "work")}.prepare(k)
	if err != nil {
		return err
	}
	result, err := run(ctx, spec{Config: c, Argv: []string{"/"}, Check: k}, nil)
	switch {
	case err != nil:
		return err
	case result.Code != 0:
		return fmt.Errorf("sandbox: the kernel did not hold it: %s", result.Output)
	}
	return nil
}

// prepare makes the files of a check.
func (c Config) prepare(k *check) (Config, error) {
	for _, d := range []string{c.Dir, filepath.Dir(k.Secret)} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return c, fmt.Errorf("sandbox: make the probe's files: %w", err)
		}
	}
	for _, f := range []string{k.Secret, filepath.Join(c.Dir, "mine")} {
		if err := os.WriteFile(f, []byte("secret"), 0o600); err != nil {
			return c, fmt.Errorf("sandbox: make the probe's files: %w", err)
		}
	}
	return c.validate()
}

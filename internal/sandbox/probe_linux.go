package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// Probe tries forbidden things in a sandbox, and says how programs are held. It
// returns an error that names the things that were not refused, or why there is
// no sandbox. A worker that gets an error must not call Run, unless with
// Config.Off. Probe makes its files below os.TempDir(). It also removes the
// temporary directories that dead processes of this user have left there.
func Probe(ctx context.Context) (Means, error) {
	removeAbandoned(os.TempDir())
	abi, err := landlockVersion()
	if err != nil {
		return Means{}, fmt.Errorf("sandbox: %w", err)
	}
	if auditArch == 0 {
		return Means{}, errors.New("sandbox: there is no seccomp filter for " + runtime.GOARCH)
	}
	if err := probe(ctx, Config{}); err != nil {
		return Means{}, err
	}
	err = probe(ctx, Config{Namespaces: true})
	return Means{Landlock: abi, Namespaces: err == nil, NoNamespaces: err}, nil
}

// probe tries one sandbox. The error wraps ErrUnsure unless it is that of the
// kernel.
func probe(ctx context.Context, c Config) (err error) {
	tmp, err := makeTemp(os.TempDir(), probePrefix)
	if err != nil {
		return unsure(err)
	}
	defer func() { err = cmp.Or(err, unsure(tmp.remove())) }()
	dir := tmp.path
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return unsure(fmt.Errorf("sandbox: open the probe's listener: %w", err))
	}
	defer func() { err = cmp.Or(err, unsure(listener.Close())) }()
	k := &check{
		Secret: filepath.Join(dir, "outside", "secret"), Worker: os.Getpid(),
		Port: listener.Addr().(*net.TCPAddr).Port,
	}
	c.Dir = filepath.Join(dir, "work")
	c, err = c.prepare(k)
	if err != nil {
		return unsure(err)
	}
	result, err := run(ctx, spec{Config: c, Argv: []string{"/"}, Check: k}, nil)
	switch {
	case err != nil && (ctx.Err() != nil || mayPass(err)):
		return unsure(err)
	case err != nil:
		return err
	case result.Cause != nil:
		return unsure(fmt.Errorf("sandbox: the probe was ended: %w", result.Cause))
	case result.Code != 0:
		return fmt.Errorf("sandbox: the kernel did not hold it: %s", result.Output)
	}
	return nil
}

// unsure wraps an error that says nothing about the kernel. It keeps nil.
func unsure(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnsure, err)
}

// mayPass reports whether an error of run comes from a machine that is short of
// something, and not from what its kernel allows.
func mayPass(err error) bool {
	return slices.ContainsFunc([]error{
		errTemp, ErrLost, unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE,
	}, func(short error) bool { return errors.Is(err, short) })
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

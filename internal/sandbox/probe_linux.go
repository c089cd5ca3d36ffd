package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
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
	return Means{Landlock: abi, Namespaces: probe(ctx, Config{Namespaces: true}) == nil}, nil
}

func probe(ctx context.Context, c Config) (err error) {
	tmp, err := makeTemp(os.TempDir(), probePrefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tmp.remove()) }()
	dir := tmp.path
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("sandbox: open the probe's listener: %w", err)
	}
	defer func() { err = errors.Join(err, listener.Close()) }()
	k := &check{
		Secret: filepath.Join(dir, "outside", "secret"), Worker: os.Getpid(),
		Port: listener.Addr().(*net.TCPAddr).Port,
	}
	c.Dir = filepath.Join(dir, "work")
	c, err = c.prepare(k)
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

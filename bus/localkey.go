package bus

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// StateDir returns the directory of what programs of axe keep on this machine:
// $XDG_STATE_HOME/axe, or ~/.local/state/axe.
func StateDir() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("state directory: set XDG_STATE_HOME: %w", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "axe"), nil
}

// LocalKeyFile returns the file with the key of this user's server at an
// address, HOST:PORT of this machine. agentd --embedded makes it. A Dial
// without credentials finds it there.
func LocalKeyFile(addr string) (string, error) {
	dir, err := StateDir()
	if err != nil {
		return "", err
	}
	name := strings.NewReplacer(":", "_", "[", "", "]", "").Replace(addr) + ".nk"
	return filepath.Join(dir, "servers", name), nil
}

// keyMode is the mode of a file with a secret: only its owner reads it.
const keyMode fs.FileMode = 0o600

var errExposed = errors.New("other users of this machine may read it: run chmod 600, or remove it to get a new key")

// readKey reads a seed that only its owner may read.
func readKey(file string) (nkeys.KeyPair, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&^keyMode != 0 {
		return nil, fmt.Errorf("%s: %w", file, errExposed)
	}
	seed, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	key, err := nkeys.ParseDecoratedNKey(seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return key, nil
}

// ownKey reads the seed in a file. It makes the file, with a new seed, if it is
// missing. Of two processes that make it at once, both read the same seed.
func ownKey(file string) (nkeys.KeyPair, error) {
	key, err := readKey(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if key, err = nkeys.CreateUser(); err != nil {
		return nil, err
	}
	seed, err := key.Seed()
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// A temporary file has mode 0600.
	tmp, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(append(seed, '\n'))
	if err = errors.Join(err, tmp.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(tmp.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return readKey(file)
}

// withKey makes a connection sign the server's nonce with the key. The key
// itself is never sent.
func withKey(o *nats.Options, key nkeys.KeyPair) error {
	public, err := key.PublicKey()
	if err != nil {
		return err
	}
	return nats.Nkey(public, signFunc(key))(o)
}

// loopback returns the addresses of this machine that a URL means, none for
// another machine.
func loopback(u *url.URL) []string {
	port := cmp.Or(u.Port(), "4222")
	host := u.Hostname()
	if host == "localhost" {
		return []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil
	}
	return []string{net.JoinHostPort(host, port)}
}

// localKey returns the key of this user's server at the only URL of a list, nil
// if there is none. It replaces the name localhost by the address that has the
// key, so that no server at another address gets a signature.
func (s servers) localKey() (nkeys.KeyPair, error) {
	if len(s) != 1 || s.haveUsers() {
		return nil, nil
	}
	for _, addr := range loopback(s[0]) {
		file, err := LocalKeyFile(addr)
		if err != nil {
			return nil, nil //nolint:nilerr // no state directory: no server of this user
		}
		key, err := readKey(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%w: key of the server on this machine: %w", ErrCredentials, err)
		}
		s[0].Host = addr
		return key, nil
	}
	return nil, nil
}

package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/secret"
)

const (
	// commandTimeout bounds the time of an APIKeyCommand.
	commandTimeout = 10 * time.Second
	// maxKey is the most bytes of a file with a key.
	maxKey = 64 << 10
)

// key returns the API key of a provider from the first place that has one: the
// environment, the credentials that systemd gives a service, and the Settings.
// It is empty if no place has one.
func (c *Catalog) key(vendor string) (secret.Text, error) {
	if key := c.cfg.Getenv(keyVariable(vendor)); key != "" {
		return secret.Text(key), nil
	}
	if dir := c.cfg.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		key, err := readKey(filepath.Join(dir, vendor+"_api_key"))
		if !errors.Is(err, fs.ErrNotExist) {
			return key, err
		}
	}
	s := c.cfg.Settings[vendor]
	switch {
	case s.APIKey != "":
		return s.APIKey, nil
	case s.APIKeyFile != "":
		return readKey(s.APIKeyFile)
	case len(s.APIKeyCommand) > 0:
		return c.commands.key(vendor, s.APIKeyCommand)
	}
	return "", nil
}

// readKey reads a key from a file. Space around it does not count.
func readKey(file string) (secret.Text, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("API key: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKey))
	if err != nil {
		return "", fmt.Errorf("API key: %w", err)
	}
	key := secret.Text(bytes.TrimSpace(b))
	if key == "" {
		return "", fmt.Errorf("API key: %s is empty", file)
	}
	return key, nil
}

// keyCommands keeps the keys that commands have printed.
type keyCommands struct {
	// running has room for one, so that a command runs once at a time.
	running chan struct{}
	keys    map[string]secret.Text
}

func newKeyCommands() *keyCommands {
	return &keyCommands{running: make(chan struct{}, 1), keys: map[string]secret.Text{}}
}

// key returns the key that a command printed, and runs it if it has not run.
func (k *keyCommands) key(vendor string, command []string) (secret.Text, error) {
	k.running <- struct{}{}
	defer func() { <-k.running }()
	if key := k.keys[vendor]; key != "" {
		return key, nil
	}
	key, err := runKeyCommand(command)
	if err == nil {
		k.keys[vendor] = key
	}
	return key, err
}

// forget forgets a key that the provider refused. The command runs again at the
// next use.
func (k *keyCommands) forget(vendor string, refused secret.Text) {
	k.running <- struct{}{}
	defer func() { <-k.running }()
	if k.keys[vendor] == refused {
		delete(k.keys, vendor)
	}
}

// runKeyCommand runs a command that prints a key. The error shows nothing that
// the command printed. Its time does not depend on the caller's: the key is for
// all turns.
//
//nolint:contextcheck,nolintlint // contextcheck reads this, unseen by nolintlint
func runKeyCommand(command []string) (secret.Text, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if ctx.Err() != nil {
		err = fmt.Errorf("no end after %v", commandTimeout)
	}
	if err != nil {
		return "", fmt.Errorf("API key: command %s: %w", strings.Join(command, " "), err)
	}
	if len(out) > maxKey {
		out = nil
	}
	key := secret.Text(bytes.TrimSpace(out))
	if key == "" {
		return "", fmt.Errorf("API key: command %s printed no key", strings.Join(command, " "))
	}
	return key, nil
}

// renewing asks a provider with a key that a command printed. If the provider
// refuses the key, and the command prints another one now, it asks again.
type renewing struct {
	provider.Provider
	catalog *Catalog
	vendor  string
	used    secret.Text
}

// Send is that of provider.Provider.
func (r renewing) Send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	resp, err := r.Provider.Send(ctx, req)
	refused, ok := errors.AsType[*provider.Error](err)
	if !ok || refused.Category != provider.Auth {
		return resp, err
	}
	r.catalog.commands.forget(r.vendor, r.used)
	again, openErr := r.catalog.real(r.vendor)
	if openErr != nil || again.Key == r.used {
		return resp, err
	}
	return again.send(ctx, req)
}

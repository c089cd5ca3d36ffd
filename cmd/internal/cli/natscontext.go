package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
)

// NATSContext is a context of the nats CLI: the address of a server, and
// credentials. Its JSON is the file's form.
type NATSContext struct {
	Description string `json:"description"`
	URL         string `json:"url"`
	Creds       string `json:"creds,omitzero"`
	NKey        string `json:"nkey,omitzero"`
	CA          string `json:"ca,omitzero"`
	InboxPrefix string `json:"inbox_prefix,omitzero"`
}

// ErrContextTaken is returned for the name of a context that a person or
// another program has written.
var ErrContextTaken = errors.New("there is a context of this name with another description")

// Write stores the context under a name, with mode 0600, where the nats CLI and
// --context find it. It replaces a context with the same description. The
// error wraps ErrContextTaken if there is another one.
func (c NATSContext) Write(name string) error {
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		// The nats CLI does not look at HOME.
		owner, err := user.Current()
		if err != nil {
			return fmt.Errorf("context %s: %w", name, err)
		}
		config = filepath.Join(owner.HomeDir, ".config")
	}
	file := filepath.Join(config, "nats", "context", name+".json")
	var old NATSContext
	switch b, err := os.ReadFile(file); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("context %s: %w", name, err)
	case json.Unmarshal(b, &old) != nil || old.Description != c.Description:
		return fmt.Errorf("context %s: %w", name, ErrContextTaken)
	}
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := WriteSecret(file, append(b, '\n')); err != nil {
		return fmt.Errorf("context %s: %w", name, err)
	}
	return nil
}

// WriteSecret writes a file that only its owner may read, as a whole. It makes
// the directories above.
func WriteSecret(file string, content []byte) error {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// A temporary file has mode 0600.
	tmp, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(content)
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}

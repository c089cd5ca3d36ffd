package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// errContextTaken is returned for the name of a context that a person or
// another program has written.
var errContextTaken = errors.New("there is a context of this name with another description")

// contextDir returns the directory of the contexts of the nats CLI.
func contextDir() (string, error) {
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		// The nats CLI does not look at HOME, nor at the system's own
		// place on macOS.
		owner, err := user.Current()
		if err != nil {
			return "", err
		}
		config = filepath.Join(owner.HomeDir, ".config")
	}
	return filepath.Join(config, "nats", "context"), nil
}

// Write stores the context under a name, with mode 0600, where the nats CLI and
// --context find it. It replaces a context with the same description. The
// error wraps errContextTaken if there is another one.
func (c NATSContext) Write(name string) error {
	dir, err := contextDir()
	if err != nil {
		return fmt.Errorf("context %s: %w", name, err)
	}
	var old NATSContext
	switch b, err := os.ReadFile(filepath.Join(dir, name+".json")); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("context %s: %w", name, err)
	case json.Unmarshal(b, &old) != nil || old.Description != c.Description:
		return fmt.Errorf("context %s: %w", name, errContextTaken)
	}
	if err := c.store(dir, name+".json"); err != nil {
		return fmt.Errorf("context %s: %w", name, err)
	}
	return nil
}

// store writes the file of the context as a whole. It makes the directories
// above.
func (c NATSContext) store(dir, file string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return writeWhole(root, file, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(c)
	})
}

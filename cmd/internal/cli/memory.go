package cli

import (
	"context"
	"path/filepath"

	"github.com/axebus/axe/agentd/memory"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// Memory returns the memory store that config.toml names: files on this
// machine, or the bus. It is nil for the bus without a connection.
func Memory(g configs.Global, conn *bus.Conn) memory.Store {
	if g.Memory == configs.MemoryOnBus {
		if conn == nil {
			return nil
		}
		return memory.Bucket{Values: conn.Memory()}
	}
	dir, err := configs.DataDir()
	if err != nil {
		return noMemory{err}
	}
	return memory.Files{Dir: filepath.Join(dir, "memory")}
}

// noMemory is the store of a machine without a data directory. Every read and
// write returns the error.
type noMemory struct{ err error }

// Open returns the store itself.
func (n noMemory) Open(subjects.Agent, string) memory.Log { return n }

// String names the location, which does not exist.
func (noMemory) String() string { return "nowhere" }

// Read returns the error.
func (n noMemory) Read(context.Context) (string, error) { return "", n.err }

// Append returns the error.
func (n noMemory) Append(context.Context, memory.Entry) error { return n.err }

// Trim returns the error.
func (n noMemory) Trim(context.Context, int) (int, error) { return 0, n.err }

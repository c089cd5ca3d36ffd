package cli

import (
	"context"
	"path/filepath"

	"github.com/axebus/axe/agentd/memory"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// Memory is where agents' memory is kept: in files of this machine, or on the
// bus if config.toml says so. Without a connection it is nil then.
func Memory(g configs.Global, conn *bus.Conn) memory.Store {
	if g.Memory == configs.MemoryOnBus {
		if conn == nil {
			return nil
		}
		return memory.Bucket{Values: conn.Memory()}
	}
	dir, err := configs.DataDir()
	if err != nil {
		return nowhere{err}
	}
	return memory.Files{Dir: filepath.Join(dir, "memory")}
}

// nowhere is the memory of agents on a machine that has no place for it: who
// uses it is told why.
type nowhere struct{ err error }

// Open fails later.
func (n nowhere) Open(subjects.Agent, string) memory.Log { return n }

// String says that it is nowhere.
func (nowhere) String() string { return "nowhere" }

// Read fails.
func (n nowhere) Read(context.Context) (string, error) { return "", n.err }

// Append fails.
func (n nowhere) Append(context.Context, memory.Entry) error { return n.err }

// Trim fails.
func (n nowhere) Trim(context.Context, int) (int, error) { return 0, n.err }

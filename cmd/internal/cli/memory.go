package cli

import (
	"path/filepath"

	"github.com/axebus/axe/agentd/memory"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
)

// Memory is where agents' memory is kept: in files of this machine, or on the bus if config.toml says so.
// Without a connection it is nil then.
func Memory(g configs.Global, conn *bus.Conn) (memory.Store, error) {
	if g.Memory == configs.MemoryOnBus {
		if conn == nil {
			return nil, nil
		}
		return memory.Bucket{Values: conn.Memory()}, nil
	}
	dir, err := configs.DataDir()
	if err != nil {
		return nil, Fail(CodeConfig, err)
	}
	return memory.Files{Dir: filepath.Join(dir, "memory")}, nil
}

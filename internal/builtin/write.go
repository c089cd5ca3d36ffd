package builtin

import (
	"context"
	"fmt"
	"os"
	"path"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

const (
	newFileMode = 0o644
	newDirMode  = 0o755
)

func writeFile() Tool {
	return Tool{
		Definition: define("write_file",
			"Create or overwrite a file relative to the working directory. "+
				"Creates parent directories as needed. Overwrites the file if it already exists.",
			map[string]provider.ToolParameter{
				"path":     required("Relative path to the file to write."),
				"content":  optional("The content to write to the file."),
				"artifact": optional(inArtifacts("write to")),
			}),
		Effect: run.ToolIdempotent,
		Run: func(_ context.Context, c Call) (string, error) {
			return inRoot(c, func(root *os.Root, name string) (string, error) {
				b := []byte(c.Arguments["content"])
				if err := root.MkdirAll(path.Dir(name), newDirMode); err != nil {
					return "", err
				}
				mode := os.FileMode(newFileMode)
				if info, err := root.Stat(name); err == nil {
					mode = info.Mode().Perm()
				}
				err := replacement{c.Key, b, mode}.write(root, name)
				return fmt.Sprintf("wrote %d bytes to %s", len(b), c.Arguments["path"]), err
			})
		},
	}
}

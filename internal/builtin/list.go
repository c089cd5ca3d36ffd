package builtin

import (
	"context"
	"io/fs"
	"os"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

func listDirectory() Tool {
	return Tool{
		Definition: define("list_directory",
			"List the contents of a directory relative to the working directory. "+
				"Returns one entry per line; subdirectories are suffixed with /.",
			map[string]provider.ToolParameter{
				"path": required("Relative path to the directory to list. " +
					`Use "." to list the working directory root.`),
				"artifact": optional(inArtifacts("list")),
			}),
		Effect: run.ToolReads,
		Run: func(_ context.Context, c Call) (string, error) {
			return inRoot(c, func(root *os.Root, name string) (string, error) {
				entries, err := fs.ReadDir(root.FS(), name)
				lines := make([]string, len(entries))
				for i, e := range entries {
					lines[i] = e.Name()
					if e.IsDir() {
						lines[i] += "/"
					}
				}
				return strings.Join(lines, "\n"), err
			})
		},
	}
}

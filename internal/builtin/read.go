package builtin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

// defaultLines is the number of lines that read_file returns without a limit.
const defaultLines = 2000

func readFile() Tool {
	return Tool{
		Definition: define("read_file",
			"Read the contents of a file relative to the working directory. "+
				"Returns line-numbered output in the format 'N: content' for each line.",
			map[string]provider.ToolParameter{
				"path":     required("Relative path to the file to read."),
				"offset":   optional("1-indexed line number to start reading from. Defaults to 1."),
				"limit":    optional("Maximum number of lines to return. Defaults to 2000."),
				"artifact": optional(inArtifacts("read from")),
			}),
		Effect: run.ToolReads,
		Run: func(_ context.Context, c Call) (string, error) {
			return inRoot(c, func(root *os.Root, name string) (string, error) {
				b, _, err := content(root, name)
				if err != nil {
					return "", err
				}
				offset, offsetErr := positive(c, "offset", 1)
				limit, limitErr := positive(c, "limit", defaultLines)
				if err := errors.Join(offsetErr, limitErr); err != nil {
					return "", err
				}
				l := &lines{what: "file", offset: offset, limit: limit, room: math.MaxInt, line: 1}
				// An error says that it has all that was asked.
				_, _ = l.Write(b)
				return l.result()
			})
		},
	}
}

// positive returns the number of an argument.
func positive(c Call, argument string, missing int) (int, error) {
	text := c.Arguments[argument]
	if text == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("invalid %s %q: want a whole number", argument, text)
	case n < 1:
		return 0, fmt.Errorf("%s must be >= 1", argument)
	}
	return n, nil
}

package builtin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

func editFile() Tool {
	return Tool{
		Definition: define("edit_file",
			"Replace exact text in a file relative to the working directory.",
			map[string]provider.ToolParameter{
				"path": required("Relative path to the file to edit."),
				"old_string": required("The exact text to find. " +
					"It must be in the file once, unless replace_all is true."),
				"new_string":  required("The text that replaces it."),
				"replace_all": optional(`When "true", replace every occurrence of old_string.`),
				"artifact":    optional(inArtifacts("edit a file in")),
			}),
		Effect: run.ToolOnce,
		Run: func(_ context.Context, c Call) (string, error) {
			return inRoot(c, func(root *os.Root, name string) (string, error) {
				e, err := newEdit(root, name, c)
				if err != nil {
					return "", err
				}
				return editResult(e.count, c), e.replace(c, root, name)
			})
		},
		Plan: func(c Call) (json.RawMessage, error) {
			var plan editPlan
			_, err := inRoot(c, func(root *os.Root, name string) (string, error) {
				e, err := newEdit(root, name, c)
				plan = editPlan{digest(e.before), digest(e.after), e.count}
				return "", err
			})
			if err != nil {
				return nil, err
			}
			return json.Marshal(plan)
		},
		Settle: settleEdit,
	}
}

// edit is a planned change of a file.
type edit struct {
	before, after []byte
	mode          fs.FileMode
	count         int
}

func newEdit(root *os.Root, name string, c Call) (edit, error) {
	before, after := c.Arguments["old_string"], c.Arguments["new_string"]
	if before == "" {
		return edit{}, errors.New("old_string is required")
	}
	b, mode, err := content(root, name)
	if err != nil {
		return edit{}, err
	}
	n := strings.Count(string(b), before)
	switch {
	case n == 0:
		return edit{}, errors.New("old_string not found in file")
	case n > 1 && !strings.EqualFold(c.Arguments["replace_all"], "true"):
		const text = "old_string found %d times; set replace_all to true or provide a more unique string"
		return edit{}, fmt.Errorf(text, n)
	case len(b)+n*(len(after)-len(before)) > maxFile:
		// Such a file could not be read again, and might not fit into memory.
		return edit{}, fmt.Errorf("the edited file would be larger than %d MiB", maxFile>>20)
	}
	return edit{b, []byte(strings.ReplaceAll(string(b), before, after)), mode, n}, nil
}

func (e edit) replace(c Call, root *os.Root, name string) error {
	return replacement{c.Key, e.after, e.mode}.write(root, name)
}

func editResult(count int, c Call) string {
	return fmt.Sprintf("replaced %d occurrence(s) in %s", count, c.Arguments["path"])
}

// editPlan has the SHA-256 of the file before the edit and after it, in hex.
type editPlan struct {
	Before string `json:"before"`
	After  string `json:"after"`
	// Count is the number of occurrences that are replaced.
	Count int `json:"count"`
}

// settleEdit compares the file with the digests of an edit's plan.
func settleEdit(c Call, plan json.RawMessage) (result string, _ Settled) {
	var p editPlan
	if json.Unmarshal(plan, &p) != nil || p.Before == "" {
		return "", Unsettled
	}
	var now string
	_, err := inRoot(c, func(root *os.Root, name string) (string, error) {
		b, _, err := content(root, name)
		now = digest(b)
		return "", err
	})
	switch {
	case err != nil:
		return "", Unsettled
	case now == p.After:
		return editResult(p.Count, c), Done
	case now == p.Before:
		return "", NotDone
	}
	return "", Unsettled
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

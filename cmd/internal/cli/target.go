package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// Target is the run that the arguments of a command name.
type Target struct {
	Tree subjects.Tree
	Path subjects.Path
	// key is the argument for the tree: its id, or the key of --id.
	key string
}

// RunArgs accepts the arguments ID [PATH]. The ID may have a turn (UseTurn).
func RunArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return Usage("give the id of a tree: %s", cmd.UseLine())
	case len(args) > 2:
		return Usage("%d words after the id, want a path at most: quote a text of several words", len(args)-1)
	}
	return nil
}

// ParseTarget reads a tree's id, or the key of --id, and an optional path.
// Without a path the target is the root. Without arguments it is no run.
func ParseTarget(args ...string) (t Target, err error) {
	if len(args) > 0 {
		t = Target{client.TreeID(args[0]), subjects.Root, args[0]}
	}
	if len(args) > 1 {
		t.Path, err = subjects.ParsePath(args[1])
	}
	return t, err
}

// cutTurn cuts a turn off the end of an argument: id is "build" and at is "2"
// for build@2. Turn is 0 if at is no number from 1 on. Without an @ the
// argument is the id.
func cutTurn(arg string) (id, at string, turn int) {
	i := strings.LastIndexByte(arg, '@')
	if i <= 0 {
		return arg, "", 0
	}
	id, at = arg[:i], arg[i+1:]
	if n, err := strconv.ParseUint(at, 10, 31); err == nil {
		turn = int(n)
	}
	return id, at, turn
}

// String describes the run for messages. The root stands for its tree.
func (t Target) String() string {
	if t.Path.IsRoot() {
		return "tree " + t.Tree.String()
	}
	return "run " + t.Path.String() + " of tree " + t.Tree.String()
}

// withKey adds the key to the error of an unknown tree, if the tree's id was
// made from the key.
func (t Target) withKey(err error) error {
	if errors.Is(err, client.ErrUnknownTree) && t.Tree.String() != t.key {
		return fmt.Errorf("%w (of key %q)", err, t.key)
	}
	return err
}

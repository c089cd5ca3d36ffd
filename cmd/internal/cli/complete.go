package cli

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/client"
)

const (
	// completeTime bounds the time of a completion: a person waits at the
	// prompt.
	completeTime = time.Second
	// completeTrees is the number of trees that a completion offers.
	completeTrees = 100
)

// Complete makes the shell complete the arguments and flags of a command on a
// bus: ids and paths for arguments ID [PATH], agents for the argument AGENT and
// the flag --agent. A bus that does not answer completes nothing.
func (f *SessionFlags) Complete(cmd *cobra.Command) {
	_, arguments, _ := strings.Cut(cmd.Use, " ")
	switch {
	case cmd.ValidArgsFunction != nil:
	case strings.HasPrefix(arguments, "ID1 ID2"):
		cmd.ValidArgsFunction = f.completer(2, f.completeID)
	case strings.Contains(arguments, "ID"):
		cmd.ValidArgsFunction = f.completer(2, f.completeRun)
	case strings.HasPrefix(arguments, "AGENT"):
		cmd.ValidArgsFunction = f.completer(1, f.completeAgent)
	}
	if cmd.Flags().Lookup("agent") != nil {
		_ = cmd.RegisterFlagCompletionFunc("agent", f.completer(1, f.completeAgent)) // the flag exists
	}
}

// completer makes a function for the first n arguments.
func (f *SessionFlags) completer(
	n int, complete func(context.Context, *Session, []string) []cobra.Completion,
) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), completeTime)
		defer cancel()
		f.connectTimeout = Seconds(completeTime)
		var all []cobra.Completion
		// An error has no place at the prompt.
		_ = f.Use(ctx, func(ses *Session) error {
			all = complete(ctx, ses, args)
			return nil
		})
		all = slices.DeleteFunc(all, func(c cobra.Completion) bool { return !strings.HasPrefix(c, begun) })
		return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeRun completes an id and then a path.
func (f *SessionFlags) completeRun(ctx context.Context, ses *Session, args []string) []cobra.Completion {
	if len(args) == 0 {
		return f.completeID(ctx, ses, args)
	}
	t, err := ses.Target(ctx, args[0])
	if err != nil {
		return nil
	}
	s, err := ses.Snapshot(ctx, t.Tree)
	if err != nil {
		return nil
	}
	var all []cobra.Completion
	for _, r := range s.Runs() {
		about := r.Name() + " " + r.Status()
		all = append(all, cobra.CompletionWithDesc(r.Run.Path.String(), Printable(about+" "+firstWords(r.Input.Task))))
	}
	return all
}

// completeID completes the id of a tree.
func (f *SessionFlags) completeID(ctx context.Context, ses *Session, _ []string) []cobra.Completion {
	trees, err := ses.Names(ctx, completeTrees)
	if err != nil {
		return nil
	}
	var all []cobra.Completion
	for _, t := range trees {
		all = append(all, cobra.CompletionWithDesc(t.Tree.String(), t.Agent.String()))
	}
	return all
}

// completeAgent completes the name of an agent that workers have announced.
func (f *SessionFlags) completeAgent(ctx context.Context, ses *Session, _ []string) []cobra.Completion {
	all := agentsOn(ctx, ses.Conn)
	slices.Sort(all)
	return all
}

// completeContext completes the name of a context of the nats CLI.
func completeContext(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	dir, err := contextDir()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var all []cobra.Completion
	for _, file := range files {
		if name, ok := strings.CutSuffix(file.Name(), ".json"); ok && strings.HasPrefix(name, begun) {
			all = append(all, name)
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// completeWords completes a flag with one of a few words.
func completeWords(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// StatusNames are the statuses of a tree.
func StatusNames() (names []string) {
	for _, s := range client.TreeStatuses() {
		names = append(names, string(s))
	}
	return names
}

// CompleteStatus completes the status of a tree.
func CompleteStatus(cmd *cobra.Command, flag string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, completeWords(StatusNames()...)) // the flag exists
}

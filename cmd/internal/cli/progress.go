package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// ProgressFlags hold the flags that choose the view of a tree.
type ProgressFlags struct {
	style   string
	verbose bool
}

// Register adds the flags to a command and its subcommands.
func (p *ProgressFlags) Register(cmd *cobra.Command) {
	const usage = "how the tree is shown on stderr: tree, plain (a line for each event), none, or auto " +
		"(tree on a terminal unless the answer goes into a pipe, whose reader may use that terminal)"
	const verboseUsage = "print the agent's turns and its sub-agents on stderr, instead of the tree"
	cmd.PersistentFlags().StringVar(&p.style, "progress", "auto", usage)
	cmd.PersistentFlags().BoolVarP(&p.verbose, "verbose", "v", false, verboseUsage)
}

// View shows a tree on a screen while the tree works.
type View struct {
	screen *Screen
	style  style
	// name is the name of the command, for its messages.
	name string
	// private hides the names of the worker and of the tree.
	private    bool
	transcript *transcript // for styleVerbose
	// asker asks the person at the terminal, nil if nobody is asked.
	asker *Asker
}

// style is the form in which a view shows a tree.
type style string

const (
	styleTree    style = "tree"
	stylePlain   style = "plain"
	styleNone    style = "none"
	styleVerbose style = "verbose"
)

// View makes the view that the flags ask for. Name is the name of the command.
func (p *ProgressFlags) View(s *Screen, name string) (*View, error) {
	v := &View{screen: s, style: style(cmp.Or(p.style, string(styleNone))), name: name}
	switch {
	case p.verbose:
		v.style, v.transcript = styleVerbose, newTranscript(s)
	case v.style == styleTree, v.style == stylePlain, v.style == styleNone:
	case p.style != "auto":
		return nil, Usage("--progress must be auto, tree, plain or none, got %q", p.style)
	case s.terminal && !piped(os.Stdout) && os.Getenv("TERM") != "dumb":
		v.style = styleTree
	default:
		v.style = styleNone
	}
	return v, nil
}

// HideNames leaves the names of the worker and of the tree out of the events.
// They say nothing where a bus has one worker and no other process can reach
// it.
func (v *View) HideNames() { v.private = true }

// Ask lets a view ask a person about the runs that wait for one. Nil asks
// nobody.
func (v *View) Ask(a *Asker) { v.asker = a }

// Screen is the screen of the view.
func (v *View) Screen() *Screen { return v.screen }

// piped reports whether a file is a pipe or a socket.
func piped(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}

const (
	redrawInterval = 100 * time.Millisecond
	// viewLag bounds the time for which the view of a tree may lag behind
	// the tree's outcome.
	viewLag = time.Second
	// failedLinger bounds the time for which a drawn tree that failed is
	// shown while runs below its root still end.
	failedLinger = 10 * time.Second
	// firstReminder is the time after which a view looks for the first time
	// whether workers go on with the tree, maxReminder the longest time
	// between two looks.
	firstReminder = time.Second
	maxReminder   = time.Minute
)

// Wait waits for the outcome of a tree and shows the tree meanwhile. A drawn
// tree that failed is shown a little longer if runs below its root have not
// ended yet.
func (v *View) Wait(ctx context.Context, c *client.Client, tree subjects.Tree) (run.Outcome, error) {
	outcomeShown := make(chan struct{})
	allEnded := make(chan struct{})
	finish := v.show(ctx, func(ctx context.Context, fn func(client.Event)) {
		defer close(allEnded)
		if v.style == styleNone && v.asker == nil {
			return
		}
		// c.Wait below reports the errors of the bus
		_, _ = c.WaitEnded(ctx, tree, subjects.Root, func(e client.Event) {
			fn(e)
			if e.Kind == client.TreeEnded {
				close(outcomeShown)
			}
		})
	})
	defer finish()
	reminding, stop := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() { v.remind(reminding, c, tree) })
	if v.asker != nil {
		others.Go(func() { v.asker.run(reminding, c) })
	}
	o, err := c.Wait(ctx, tree)
	stop()
	others.Wait()
	switch err = withCause(ctx, err); {
	case err != nil || v.style == styleNone:
	case v.style == styleTree && o.Status != run.StatusCompleted:
		_ = pause.AtMost(ctx, failedLinger, allEnded)
	default:
		_ = pause.AtMost(ctx, viewLag, outcomeShown)
	}
	return o, err
}

// WaitEnded waits until a run and all runs below it have ended, and shows the
// tree meanwhile. Abandoned is the number of runs that are past their deadline
// without an outcome.
func (v *View) WaitEnded(
	ctx context.Context, c *client.Client, tree subjects.Tree, top subjects.Path,
) (abandoned int, err error) {
	ended := make(chan struct{})
	finish := v.show(ctx, func(ctx context.Context, fn func(client.Event)) {
		defer close(ended)
		abandoned, err = c.WaitEnded(ctx, tree, top, fn)
		err = withCause(ctx, err)
	})
	defer finish()
	<-ended
	return abandoned, err
}

// show starts follow in a goroutine and shows the events that follow passes to
// its callback. The caller calls finish, which cancels follow's context and
// waits for it.
func (v *View) show(ctx context.Context, follow func(context.Context, func(client.Event))) (finish func()) {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { follow(ctx, v.event) })
	if v.style == styleTree {
		wg.Go(func() { v.screen.redraw(ctx) })
	}
	return func() {
		stop()
		wg.Wait()
		v.screen.Finish()
	}
}

// Verbose reports whether the view prints every turn.
func (v *View) Verbose() bool { return v.style == styleVerbose }

// Notef prints a message, unless the view shows nothing.
func (v *View) Notef(format string, args ...any) {
	if v.style != styleNone {
		fmt.Fprintf(v.screen, v.name+": "+format+"\n", args...)
	}
}

// Summarise prints a tree's id and its totals in one line. After HideNames it
// prints them only if the view is verbose, or shows more than one run.
func (v *View) Summarise(tree subjects.Tree, o run.Outcome) {
	shown := v.Verbose() || v.style != styleNone && o.Subtree.Runs > 1
	if v.private && !shown {
		return
	}
	took := time.Duration(o.DurationMS) * time.Millisecond
	fmt.Fprintf(v.screen, "%s: tree %s: %s, %s tokens, %s\n",
		v.name, tree, plural(o.Subtree.Runs, "run"), Count(tokens(o.Subtree.Usage)), ShortTime(took))
}

func (v *View) event(e client.Event) {
	if v.asker != nil {
		v.asker.note(e)
	}
	if e.Again && v.style != styleTree {
		return
	}
	if v.private {
		e.Worker = ""
		e.Run.Tree = subjects.Tree{}
	}
	switch v.style {
	case stylePlain:
		fmt.Fprintln(v.screen, Line(e))
	case styleVerbose:
		v.transcript.apply(e)
	case styleTree:
		v.screen.Apply(e)
	case styleNone:
	}
}

// remind says that no worker has taken the task, or that no worker goes on with
// a run. It says each thing once. A drawn or printed tree shows the latter
// itself.
func (v *View) remind(ctx context.Context, c *client.Client, tree subjects.Tree) {
	said := map[string]bool{}
	say := func(about, what string) {
		if !said[about] {
			said[about] = true
			fmt.Fprintf(v.screen, "%s: %s, still waiting\n", v.name, what)
		}
	}
	for delay := firstReminder; pause.For(ctx, delay) == nil; delay = min(2*delay, maxReminder) {
		queued, err := c.Queued(ctx, tree)
		if err == nil && queued && delay > firstReminder {
			say("", "no worker has taken "+tree.String()+" yet")
		}
		if v.style != styleNone {
			continue
		}
		stalled, _ := c.Stalls(ctx, tree) // without an answer: the next look tells more
		for _, e := range stalled {
			path := e.Run.Path.String()
			say(path, path+" "+e.Run.Agent.String()+": "+e.Reason)
		}
	}
}

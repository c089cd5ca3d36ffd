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
	"github.com/axebus/axe/subjects"
)

// ProgressFlags are the flags of how a tree is shown while it works.
type ProgressFlags struct {
	how     string
	verbose bool
}

// Register adds the flags to a command and all below it.
func (p *ProgressFlags) Register(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(
		&p.how,
		"progress",
		"auto",
		"how the tree is shown on stderr: tree, plain (a line for each event), none, or auto (tree on a terminal unless the answer goes into a pipe, whose reader may use that terminal)",
	)
	cmd.PersistentFlags().BoolVarP(
		&p.verbose,
		"verbose",
		"v",
		false,
		"tell every turn and every sub-agent on stderr, instead of the tree",
	)
}

// View is how a tree is shown: on which screen, and as what.
type View struct {
	screen *Screen
	style  style
	name   string
	told   *transcript // for spoken
}

type style string

const (
	drawn  style = "tree"
	plain  style = "plain"
	hidden style = "none"
	spoken style = "verbose"
)

// View makes what the flags ask for, for the command of a name.
func (p *ProgressFlags) View(s *Screen, name string) (*View, error) {
	v := &View{screen: s, style: style(cmp.Or(p.how, string(hidden))), name: name}
	switch {
	case p.verbose:
		v.style, v.told = spoken, newTranscript(s)
	case v.style == drawn, v.style == plain, v.style == hidden:
	case p.how != "auto":
		return nil, Usage("--progress %q: want auto, tree, plain or none", p.how)
	case s.terminal && !piped(os.Stdout) && os.Getenv("TERM") != "dumb":
		v.style = drawn
	default:
		v.style = hidden
	}
	return v, nil
}

// piped reports whether somebody reads what is written to f.
func piped(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}

const (
	redraw = 100 * time.Millisecond
	// late is how long the view of a tree may lag behind its outcome.
	late = time.Second
	// lingering is how long a drawn tree that failed is shown while runs
	// below its root still end.
	lingering = 10 * time.Second
	// unserved is how long a submission may wait before its submitter is
	// told that nobody takes it.
	unserved = 5 * time.Second
)

// Attend waits for the outcome of a tree and shows the tree meanwhile. Limit is
// the tree's own, 0 if it has none: a little later the wait is given up. A
// drawn tree that failed is shown for a moment longer, if runs below its root
// have not ended yet.
func (v *View) Attend(
	ctx context.Context,
	c *client.Client,
	tree subjects.Tree,
	limit time.Duration,
) (run.Outcome, error) {
	ctx, cancel := withTimeLimit(ctx, limit)
	defer cancel()
	// of the outcome, of all ends
	told, settled := make(chan struct{}), make(chan struct{})
	leave := v.watch(ctx, func(ctx context.Context, fn func(client.Event)) {
		defer close(settled)
		if v.style == hidden {
			return
		}
		// what it cannot show, Wait tells
		_, _ = c.WaitEnded(ctx, tree, subjects.Root, func(e client.Event) {
			fn(e)
			if e.Kind == client.TreeEnded {
				close(told)
			}
		})
	})
	defer leave()
	reminding, stop := context.WithCancel(ctx)
	var reminder sync.WaitGroup
	reminder.Go(func() { v.remind(reminding, c, tree) })
	o, err := c.Wait(ctx, tree)
	stop()
	reminder.Wait()
	switch err = withCause(ctx, err); {
	case err != nil || v.style == hidden:
	case v.style == drawn && o.Status != run.StatusCompleted:
		await(ctx, settled, lingering)
	default:
		await(ctx, told, late)
	}
	return o, err
}

// Settle waits until a run and all below it have ended, and shows the tree
// meanwhile. Left is how many have not, though their time is over.
func (v *View) Settle(
	ctx context.Context,
	c *client.Client,
	tree subjects.Tree,
	top subjects.Path,
) (left int, err error) {
	settled := make(chan struct{})
	leave := v.watch(ctx, func(ctx context.Context, fn func(client.Event)) {
		defer close(settled)
		left, err = c.WaitEnded(ctx, tree, top, fn)
		err = withCause(ctx, err)
	})
	defer leave()
	<-settled
	return left, err
}

// watch runs a function that tells events until it ends or ctx does, and shows
// them. The caller calls leave, which ends both.
func (v *View) watch(ctx context.Context, tell func(context.Context, func(client.Event))) (leave func()) {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { tell(ctx, v.event) })
	if v.style == drawn {
		wg.Go(func() { v.screen.keep(ctx) })
	}
	return func() {
		stop()
		wg.Wait()
		v.screen.Leave()
	}
}

// await waits for something, not too long.
func await(ctx context.Context, c <-chan struct{}, atMost time.Duration) {
	t := time.NewTimer(atMost)
	defer t.Stop()
	select {
	case <-c:
	case <-t.C:
	case <-ctx.Done():
	}
}

// Verbose reports whether the view tells every turn.
func (v *View) Verbose() bool { return v.style == spoken }

// Note says something to whoever looks on, and nothing where nothing is shown.
func (v *View) Note(format string, args ...any) {
	if v.style != hidden {
		fmt.Fprintf(v.screen, v.name+": "+format+"\n", args...)
	}
}

func (v *View) event(e client.Event) {
	switch v.style {
	case plain:
		fmt.Fprintln(v.screen, Line(e))
	case spoken:
		v.told.apply(e)
	case drawn:
		v.screen.Apply(e)
	case hidden:
	}
}

// remind says that nobody has taken a submission, once and after a while.
func (v *View) remind(ctx context.Context, c *client.Client, tree subjects.Tree) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(unserved):
	}
	if waits, err := c.Queued(ctx, tree); err == nil && waits {
		fmt.Fprintf(v.screen, "%s: no worker has taken %s yet, still waiting\n", v.name, tree)
	}
}

// keep draws until ctx ends.
func (s *Screen) keep(ctx context.Context) {
	t := time.NewTicker(redraw)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.Draw()
		}
	}
}

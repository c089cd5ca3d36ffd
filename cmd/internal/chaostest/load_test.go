package chaostest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// submitters is the number of trees under way at once.
const submitters = 24

// treeTimeout is the time after which a tree counts as lost.
const treeTimeout = 3 * time.Minute

// load submits trees and waits for them, across all faults of the servers.
type load struct {
	h      *harness
	client *client.Client
	lead   subjects.Agent
	// more follows the label in the text of a task.
	more string
	// answer is the right answer of a tree; nil: that of a tree without
	// failures.
	answer func(label string) string
	// read, if not nil, replaces the parts of an answer that may differ
	// from those of the right answer.
	read func(answer string) string
	// submitter is the environment of axe-submit, and args its further
	// arguments. With args axe-submit submits every tree, without them one
	// tree in 16.
	submitter, args []string

	// mayTell says that a submitter may be told that its tree was removed.
	mayTell bool

	next  atomic.Int64
	ended atomic.Int64
	// retries is the number of submissions and waits that failed and were
	// tried again.
	retries atomic.Int64
	longest atomic.Int64 // longest time.Duration of a tree

	mu    sync.Mutex
	wrong []string // mistakes found in trees
	lost  int
	// wrongAnswers is the number of trees that ended with another outcome
	// than the right answer.
	wrongAnswers int
	// told is the number of trees of which the submitter was told that they
	// were removed.
	told int
}

// run submits the given number of trees, and more trees until enough returns
// true. It returns when all of them have ended.
func (l *load) run(ctx context.Context, trees int, enough func() bool) {
	var all sync.WaitGroup
	for range min(submitters, trees) {
		all.Go(func() {
			for ctx.Err() == nil {
				i := int(l.next.Add(1)) - 1
				if i >= trees && enough() {
					l.next.Add(-1)
					return
				}
				l.tree(ctx, i)
			}
		})
	}
	all.Wait()
}

// tree submits one tree, waits for its outcome and checks it. The command
// axe-submit submits one tree in 16, or all trees if it has arguments.
func (l *load) tree(ctx context.Context, i int) {
	ctx, cancel := context.WithTimeout(ctx, treeTimeout)
	defer cancel()
	begin := time.Now()
	label := treeLabel(i)
	submit := l.submit
	if i%16 == 7 || len(l.args) > 0 {
		submit = l.command
	}
	told := false
	o, err := run.Outcome{}, l.retry(ctx, func(ctx context.Context) error { return submit(ctx, label) })
	if err == nil {
		err = l.retry(ctx, func(ctx context.Context) (err error) {
			o, err = l.client.Wait(ctx, client.TreeID(label))
			if l.mayTell && tells(o, err) {
				told = true
				return nil
			}
			return err
		})
	}
	l.ended.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.longest.Store(max(l.longest.Load(), int64(time.Since(begin))))
	switch {
	case told:
		l.told++
	case err != nil:
		l.lost++
		l.wrong = append(l.wrong, fmt.Sprintf("%s has no outcome: %v", label, err))
	case o.Status != run.StatusCompleted || l.reading(o.Result) != l.rightAnswer(label):
		l.wrongAnswers++
		l.wrong = append(l.wrong, fmt.Sprintf("%s: got %s %s %s%s, want completed %s",
			label, o.Status, o.Kind, o.Result, o.Error, l.rightAnswer(label)))
	}
}

// reading returns an answer as it is compared with the right answer.
func (l *load) reading(answer string) string {
	if l.read != nil {
		return l.read(answer)
	}
	return answer
}

// rightAnswer returns the answer that a tree must have.
func (l *load) rightAnswer(label string) string {
	if l.answer != nil {
		return l.answer(label)
	}
	return rightAnswer(label, 2)
}

// retry repeats an action until it succeeds or ctx ends. A task that is
// submitted again under one id changes nothing.
func (l *load) retry(ctx context.Context, do func(context.Context) error) error {
	for {
		err := do(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		l.retries.Add(1)
		l.h.log.log("again: %v", err)
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// submit submits a tree with the client of this process.
func (l *load) submit(ctx context.Context, label string) error {
	_, err := l.client.Submit(ctx, client.Task{Agent: l.lead, ID: client.TreeID(label), Text: label + l.more})
	return err
}

// command submits a tree with axe-submit, as a shell does.
func (l *load) command(ctx context.Context, label string) error {
	args := append([]string{"--server", l.h.servers.urls(), "--id", label, "--detach"}, l.args...)
	cmd := exec.CommandContext(ctx, filepath.Join(l.h.bin, "axe-submit"), append(args, "lead", label+l.more)...)
	cmd.Env = append(os.Environ(), l.submitter...)
	_, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("axe-submit: %w: %s", err, exit.Stderr)
	}
	return err
}

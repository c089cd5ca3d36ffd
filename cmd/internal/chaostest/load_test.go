package chaostest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// submitters is how many trees are under way at once.
const submitters = 24

// patience is how long a tree may take before it counts as lost.
const patience = 3 * time.Minute

// load submits trees and waits for them, whatever becomes of the servers
// meanwhile.
type load struct {
	stage  *stage
	client *client.Client
	lead   subjects.Agent
	next   atomic.Int64
	ended  atomic.Int64
	// submissions and waits that failed, and were tried again
	retries atomic.Int64
	longest atomic.Int64 // time that a tree took

	mu    sync.Mutex
	wrong []string // what was wrong with trees
	lost  int
	// answers that are not the right ones
	mixed int
}

// run submits so many trees and more until enough is done, and returns when all
// have ended.
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

// tree submits one and waits for its outcome.
func (l *load) tree(ctx context.Context, i int) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	begin := time.Now()
	label := treeLabel(i)
	submit := l.submit
	if i%16 == 7 {
		submit = l.command
	}
	o, err := run.Outcome{}, l.again(ctx, func(ctx context.Context) error { return submit(ctx, label) })
	if err == nil {
		err = l.again(ctx, func(ctx context.Context) (err error) {
			o, err = l.client.Wait(ctx, client.TreeID(label))
			return err
		})
	}
	l.ended.Add(1)
	l.longest.Store(max(l.longest.Load(), int64(time.Since(begin))))
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.lost++
		l.wrong = append(l.wrong, fmt.Sprintf("%s has no outcome: %v", label, err))
	case o.Status != run.StatusCompleted || o.Result != rightAnswer(label, 2):
		l.mixed++
		l.wrong = append(l.wrong, fmt.Sprintf("%s: %s %s %s%s", label, o.Status, o.Kind, o.Result, o.Error))
	}
}

// again does something until it works: under one id that changes nothing.
func (l *load) again(ctx context.Context, do func(context.Context) error) error {
	for {
		err := do(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		l.retries.Add(1)
		l.stage.log.say("again: %v", err)
		if err := bus.Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func (l *load) submit(ctx context.Context, label string) error {
	_, err := l.client.Submit(ctx, client.Task{Agent: l.lead, ID: client.TreeID(label), Text: label})
	return err
}

// command submits as a shell does.
func (l *load) command(ctx context.Context, label string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(l.stage.bin, "axe-submit"),
		"--server", l.stage.servers.urls(), "--id", label, "--detach", "lead", label)
	_, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("axe-submit: %w: %s", err, exit.Stderr)
	}
	return err
}

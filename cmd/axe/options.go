package main

import (
	"cmp"
	"context"
	"path/filepath"
	"time"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// options holds the flags of axe run.
type options struct {
	station

	log      cli.LogFlags
	progress cli.ProgressFlags
	change   override
	timeout  cli.Seconds
	limits   cli.BudgetFlags
	prompt   string
	file     string
	dry      bool
	output   cli.Output

	artifacts cli.ArtifactDir
}

// override holds the flags that replace settings of the root agent only. An
// empty field replaces nothing.
type override struct{ model, skill, workdir string }

// apply returns the definition with the replacements.
func (c override) apply(a configs.Agent) configs.Agent {
	a.Model = cmp.Or(c.model, a.Model)
	a.Skill = cmp.Or(c.skill, a.Skill)
	a.Workdir = cmp.Or(c.workdir, a.Workdir)
	return a
}

// limit returns the time limit of the tree.
func (o *options) limit() time.Duration { return time.Duration(o.timeout) }

// limitBy sets the time limit to an agent's own timeout in seconds, unless the
// flag --timeout is given. 0 leaves the flag's default.
func (o *options) limitBy(timeout int) {
	if timeout > 0 && !o.cmd.Flags().Changed("timeout") {
		o.timeout = cli.Seconds(time.Duration(timeout) * time.Second)
	}
}

// check rejects flags that contradict each other, before anything is read or
// started.
func (o *options) check() error {
	if !o.remote() {
		if err := o.dial.CheckUnused(); err != nil {
			return err
		}
	}
	if o.remote() && !o.dry && o.change != (override{}) {
		return cli.Usage(
			"--model, --skill and --workdir change the agents of this process only; workers of the bus take the task",
		)
	}
	if o.limit() <= 0 {
		return cli.Usage("--timeout must be positive, got %s", &o.timeout)
	}
	if o.works() || o.dry {
		if err := requireAgentsDir(o.worker.Agents); err != nil {
			return err
		}
	}
	if o.change.skill != "" {
		agents := o.worker.Agents
		o.change.skill = configs.FindSkill(o.change.skill, ".", agents, filepath.Join(agents, ".."))
	}
	return nil
}

// task makes a task from the command line.
func (o *options) task(ctx context.Context, args []string) (job, error) {
	agent, err := subjects.ParseAgent(args[0])
	if err != nil {
		return job{}, err
	}
	arg, err := o.text(args)
	if err != nil {
		return job{}, err
	}
	var def configs.Agent
	if o.works() || o.dry {
		if def, err = cli.FindAgent(o.worker.Agents, agent.String()); err != nil {
			return job{}, err
		}
		def.Model = cmp.Or(o.worker.Model, def.Model)
		def = o.change.apply(def)
		o.limitBy(def.Timeout)
	}
	limits, err := o.limits.Budget()
	if err != nil {
		return job{}, err
	}
	text, err := cli.TaskFlags{Program: name, Text: arg, File: o.file, Limit: o.dial.MaxBody()}.Read(ctx)
	task := client.Task{Agent: agent, Text: text.Text, Timeout: o.limit(), Budget: limits}
	return job{task, def, text.Stdin}, err
}

// text returns the text on the command line, nil if there is none.
func (o *options) text(args []string) (*string, error) {
	prompt := o.cmd.Flags().Changed("prompt")
	switch {
	case prompt && len(args) > 1:
		return nil, cli.Usage("give the task as an argument or with --prompt, not both")
	case prompt:
		return &o.prompt, nil
	case len(args) > 1:
		return &args[1], nil
	}
	return nil, nil
}

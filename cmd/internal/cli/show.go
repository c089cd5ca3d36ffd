package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/price"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// PrintSnapshot prints the totals of a tree, and draws the run top with all
// runs below it. For a run below the root it also prints all that is known of
// that run.
func PrintSnapshot(w io.Writer, s *client.Snapshot, top subjects.Path, d Display) error {
	now := d.Now
	runs := s.Runs()
	tree := TreeOf(s)
	p := &printer{w: w, prices: d.Prices}
	if s.Queued {
		p.line("tree %s: %s was submitted %s ago, and %s", s.Root.Tree, s.Root.Agent, presence.Age(now.Sub(s.Since)),
			cmp.Or(tree.Why(subjects.Root, now), "waits for a worker to take it"))
		return p.err
	}
	p.header(s, runs, now)
	if why := tree.Why(top, now); why != "" {
		p.line("%s: %s", top, why)
	}
	p.models(runs)
	p.line("")
	for _, line := range tree.Lines(Frame{
		Now: now, Width: stdoutWidth(), Colour: Colour(os.Stdout), Top: top, Details: true,
	}) {
		p.line("%s", line)
	}
	if !top.IsRoot() {
		p.line("")
		for _, r := range runs {
			if r.Run.Path == top {
				p.run(r, now)
			}
		}
	}
	return p.err
}

// stdoutWidth is the width of the terminal, 0 if stdout is no terminal.
func stdoutWidth() int {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// printer prints lines until one fails.
type printer struct {
	w      io.Writer
	prices price.Table
	err    error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
	}
}

// header prints the lines about the whole tree.
func (p *printer) header(s *client.Snapshot, runs []client.RunInfo, now time.Time) {
	totals, done := s.Totals()
	ended := now
	status := "is at work"
	submitted := ""
	for _, r := range runs {
		if r.Run.Path.IsRoot() {
			submitted = byText(r.Input.By)
		}
		if r.Run.Path.IsRoot() && !r.Ended.IsZero() {
			ended = r.Ended
			status = outcomeText(r.Outcome)
		}
	}
	p.line("tree %s%s: %s %s", s.Root.Tree, submitted, s.Root.Agent, Printable(status))
	p.line("began %s, took %s; %d of %d runs ended, %s, %s, %s tokens",
		localTime(s.Since), ShortTime(ended.Sub(s.Since)), done, totals.Runs,
		plural(totals.ModelCalls, "turn"), plural(totals.ToolCalls, "tool call"), Count(tokens(totals.Usage)))
}

// models prints the tokens of each model.
func (p *printer) models(runs []client.RunInfo) {
	sums := client.UsageByModel(runs)
	for _, model := range slices.Sorted(maps.Keys(sums)) {
		text := usageText(sums[model])
		if c := p.cost(model, sums[model]); c != "" {
			text += ": " + c
		}
		p.line("tokens of %s: %s", model, text)
	}
	if c := p.prices.Cost(sums).Text(); c != "" && len(sums) > 1 {
		p.line("cost: %s", c)
	}
}

// cost formats the cost of tokens, "" if they have no price.
func (p *printer) cost(model string, used provider.Usage) string {
	return Printable(p.prices.Cost(map[string]provider.Usage{model: used}).Text())
}

// localTime formats a time for the person at this machine.
func localTime(t time.Time) string { return t.Local().Format(time.DateTime) }

// plural returns a number with its noun.
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

func usageText(u provider.Usage) string {
	text := fmt.Sprintf("%s in, %s out", Count(u.InputTokens), Count(u.OutputTokens))
	if u.CachedTokens > 0 {
		text += fmt.Sprintf(", %s of the input cached", Count(u.CachedTokens))
	}
	return text
}

// run prints all that is known of one run.
func (p *printer) run(r client.RunInfo, now time.Time) {
	p.line("run       %s of tree %s: %s", r.Run.Path, r.Run.Tree, r.Name())
	field := func(name, text string) {
		if text != "" {
			p.line("%-9s %s", name, Printable(text))
		}
	}
	field("status", r.Status())
	if !r.Called.IsZero() {
		field("called", localTime(r.Called)+", "+presence.Age(now.Sub(r.Called))+" ago")
	}
	if !r.Ended.IsZero() {
		field("ended", localTime(r.Ended)+", after "+ShortTime(r.Ended.Sub(r.Called)))
	} else if !r.Deadline.IsZero() {
		field("deadline", localTime(r.Deadline))
	}
	field("model", r.Model)
	if r.Input.Tool == nil {
		field("turns", fmt.Sprintf("%d, with %s", r.Own.ModelCalls, plural(r.Retries, "request"))+" made again")
		field("tokens", usageText(r.Own.Usage))
		field("cost", p.cost(r.Model, r.Own.Usage))
	}
	field("worker", r.Worker)
	if r.Input.Tool != nil {
		field("arguments", string(r.Input.Tool.Arguments))
	}
	field("task", r.Input.Task)
	field("by", r.Input.By.String())
	if r.Ended.IsZero() {
		return
	}
	if r.Outcome.Status == run.StatusCompleted {
		field("result", r.Outcome.Result)
	} else {
		field("error", string(r.Outcome.Kind)+": "+r.Outcome.Error)
	}
}

// RunLine is a run as axe show -o json prints it.
type RunLine struct {
	Tree     string    `json:"tree"`
	Path     string    `json:"path"`
	Agent    string    `json:"agent"`
	Tool     string    `json:"tool,omitzero"`
	Status   string    `json:"status"`
	Why      string    `json:"why,omitzero"`
	Called   time.Time `json:"called,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"`
	Model    string    `json:"model,omitzero"`
	Turns    int       `json:"turns"`
	Retries  int       `json:"retries"`

	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
	CachedTokens int `json:"cached_tokens"`
	price.Line

	Worker string `json:"worker,omitzero"`
	Task   string `json:"task,omitzero"`
	// By is the user that submitted the task of a root, left out if it is
	// not known.
	By     subjects.By `json:"by,omitzero"`
	Result string      `json:"result,omitzero"`
	Error  string      `json:"error,omitzero"`
	Kind   run.Kind    `json:"kind,omitzero"`
	// Spans divide the time of the run: queue, model, tool, wait and held.
	Spans []client.Span `json:"spans,omitempty"`
}

// RunLines describes a run and all runs below it.
func RunLines(s *client.Snapshot, top subjects.Path, d Display) (lines []RunLine) {
	tree := TreeOf(s)
	if s.Queued {
		return []RunLine{{
			Tree: s.Root.Tree.String(), Path: top.String(), Agent: s.Root.Agent.String(),
			Status: string(client.TreeQueued), Why: tree.Why(top, d.Now),
		}}
	}
	for _, r := range s.Runs() {
		if top.Covers(r.Run.Path) {
			lines = append(lines, RunLineOf(r, tree.Why(r.Run.Path, d.Now), d.Prices))
		}
	}
	return lines
}

// RunLineOf describes a run. Why says why it is where it is.
func RunLineOf(r client.RunInfo, why string, prices price.Table) RunLine {
	l := RunLine{
		Tree: r.Run.Tree.String(), Path: r.Run.Path.String(), Agent: r.Run.Agent.String(), Status: r.Status(),
		Why: why, Called: r.Called, Ended: r.Ended, Deadline: r.Deadline, Model: r.Model,
		Turns: r.Own.ModelCalls, Retries: r.Retries, InputTokens: r.Own.InputTokens,
		OutputTokens: r.Own.OutputTokens, CachedTokens: r.Own.CachedTokens, Worker: r.Worker,
		Task: r.Input.Task, By: r.Input.By, Result: r.Outcome.Result, Error: r.Outcome.Error, Kind: r.Outcome.Kind,
		Spans: r.Spans,
		Line:  prices.Cost(map[string]provider.Usage{r.Model: r.Own.Usage}).Line(),
	}
	if r.Input.Tool != nil {
		l.Tool = r.Input.Tool.Name
	}
	return l
}

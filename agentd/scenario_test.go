package agentd_test

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// scenario is a random walk of whole workers, drawn before it begins: the
// agents, the behaviour of their models, the faults of the workers, and the
// trees with the actions of people. A failing walk prints its scenario.
type scenario struct {
	// Faults has one fault for each of the four workers.
	Faults []fault
	// Slots is the number of model calls that each worker makes at once.
	Slots int
	// Partitions is the number of partitions over which the trees are
	// spread.
	Partitions int
	// Grouped says that writes that wait at the same time are stored in
	// groups.
	Grouped bool

	// ClockAhead is the error of the server's clock in minutes.
	ClockAhead int
	// ClockSetAfter is the time in seconds after which the server's clock is
	// wrong. 0 is from the beginning.
	ClockSetAfter int

	// ConsumersRemovedAfter are the times in seconds after which a person
	// removes all consumers that the workers share.
	ConsumersRemovedAfter []int

	// Depth is the number of the last agent: of a0 … aDepth each may call
	// the next one.
	Depth int
	// Fan is the number of children of each run that has any.
	Fan int
	// Sequential says that the calls of a turn are made one after the
	// other.
	Sequential bool
	// Spawn says that the agents delegate by spawn_agents instead of
	// call_agent.
	Spawn bool
	// Submits says that spawned runs end with submit_result instead of a
	// text.
	Submits bool
	// Forks names the runs that fork: "" none; "top" the roots of a0, whose
	// forks call children; "bottom" the runs of the last agent.
	Forks string
	// Slash says that forking runs write slash commands instead of tool
	// calls.
	Slash bool
	// Supervision is the mode in which a supervisor reviews the turns of a0
	// and of all runs below it; "" for no supervisor.
	Supervision configs.SupervisionMode
	// Tools says that the runs without children use the tools of a toolset,
	// and read artifacts. Two people settle calls and approve turns.
	Tools bool
	// Approve says that a person has to approve of the calls of some tools.
	Approve bool
	// Budget is the budget of each tree; a zero field sets no bound.
	Budget subjects.Budget
	// CallTimeout is the timeout of each call in seconds; 0: none.
	CallTimeout int
	// LastAgentUnserved says that no worker serves the last agent, though
	// it is announced. Calls of that agent time out.
	LastAgentUnserved bool

	// Dormant says that the workers pull only for agents with work, and let
	// the others go dormant after a second.
	Dormant bool

	// Seed decides, together with the turn, every choice of a model.
	Seed int
	// UnevenDepth says that some runs below the root answer at once though
	// they could call children.
	UnevenDepth bool
	// MaxLatency bounds the latency: a model call takes between a second
	// and a second plus MaxLatency seconds.
	MaxLatency int
	// RandomAnswers says that one answer in four is "whim" instead of the
	// usual one. The choice depends on the worker too, so that two workers
	// answer differently.
	RandomAnswers bool
	// ModelFails says that one request to a model in four fails.
	ModelFails bool
	// Attempts is the largest number of requests for a turn.
	Attempts int

	Trees []treeSpec
}

// fault is an event that strikes a worker at one of its steps.
type fault struct {
	Step int
	Kind faultKind
	// Call is a call of a tool by the worker, from 1. One of the next four
	// steps after it, by Step, is the one. 0 is no call.
	Call int
}

// faultKind says what happens to the worker.
type faultKind string

// The kinds of faults.
const (
	// kill ends the worker at once.
	kill faultKind = "kill"
	// freeze stops the step for a minute, and the heartbeats with it.
	freeze faultKind = "freeze"
	// disconnect drops all that the worker sends for 30 seconds.
	disconnect faultKind = "disconnect"
	// drain drains the worker.
	drain faultKind = "drain"
)

// treeSpec is one tree of a scenario, and the actions of people on it. Times
// are in seconds after the submission.
type treeSpec struct {
	// Root is the number of the root's agent.
	Root int
	// Target is the run that people cancel and interrupt: 0 is the root, n
	// is child n-1 of the root's first turn, modulo the fan.
	Target int
	// CancelAfter is the time at which the target is cancelled; negative:
	// never.
	CancelAfter int
	// InterruptAfter is the time at which the target is interrupted; 0:
	// never. A person writes to the target 15 seconds later.
	InterruptAfter int
	// Deadline is the deadline of the tree; 0: none.
	Deadline int
}

func (t treeSpec) cancelsRoot() bool { return t.CancelAfter >= 0 && t.Target == 0 }

func (t treeSpec) cancelsChild() bool { return t.CancelAfter >= 0 && t.Target > 0 }

// drawScenario draws a scenario. Each unusual property is in one walk of four.
func drawScenario(t *rapid.T) scenario {
	number := func(name string, least, most int) int { return rapid.IntRange(least, most).Draw(t, name) }
	seldom := func(name string) bool { return number(name, 0, 3) == 3 }
	s := scenario{
		Faults:            rapid.SliceOfN(rapid.Custom(drawFault), 4, 4).Draw(t, "faults"),
		Slots:             number("slots", 1, 4),
		Partitions:        1,
		Grouped:           rapid.Bool().Draw(t, "grouped"),
		Depth:             number("depth", 1, 3),
		Fan:               number("fan", 1, 3),
		Sequential:        rapid.Bool().Draw(t, "sequential"),
		Spawn:             rapid.Bool().Draw(t, "spawn"),
		Submits:           rapid.Bool().Draw(t, "submits"),
		Seed:              number("seed", 1, 1000),
		UnevenDepth:       rapid.Bool().Draw(t, "uneven depth"),
		MaxLatency:        1,
		RandomAnswers:     seldom("random answers"),
		ModelFails:        seldom("model fails"),
		LastAgentUnserved: seldom("last agent unserved"),
		Attempts:          1,
	}
	if seldom("wrong clock") {
		s.ClockAhead = rapid.SampledFrom([]int{-60, -5, 5, 60}).Draw(t, "minutes ahead")
		s.ClockSetAfter = number("set after", 0, 20)
	}
	if seldom("partitions") {
		s.Partitions = 4
	}
	if seldom("slow models") {
		s.MaxLatency = 20
	}
	if seldom("consumers removed") {
		times := rapid.SliceOfN(rapid.IntRange(1, 60), 1, 3)
		s.ConsumersRemovedAfter = times.Draw(t, "removed after")
	}
	s.Dormant = rapid.Bool().Draw(t, "dormant")
	if s.Dormant { // a run may wait then (docs/limitations.md)
		s.ConsumersRemovedAfter = nil
	}
	s.Forks = rapid.SampledFrom([]string{"", "", "top", "bottom"}).Draw(t, "forks")
	if s.Forks != "" {
		s.Slash = rapid.Bool().Draw(t, "slash")
		// Each run that forks takes a dozen turns.
		s = s.limitSize()
	}
	if s.Forks == "" && rapid.Bool().Draw(t, "tools") {
		s.Tools, s.Approve = true, rapid.Bool().Draw(t, "approve")
		s.LastAgentUnserved = false
		for i := range s.Faults {
			s.Faults[i].Call = number("call of a tool", 0, 3)
		}
		s = s.limitSize() // a run that uses tools has three turns
	}
	if seldom("supervision") {
		modes := []configs.SupervisionMode{configs.Supervised, configs.SupervisedHuman}
		s.Supervision = rapid.SampledFrom(modes).Draw(t, "mode")
		s = s.limitSize() // reviews double the runs
	}
	if s.ModelFails {
		s.Attempts = number("attempts", 1, 3)
	}
	if s.LastAgentUnserved || seldom("call timeout") {
		s.CallTimeout = number("seconds of a call", 1, 20) * s.pace()
	}
	if seldom("budget") {
		s.Budget.Agents = rapid.SampledFrom([]int{0, 2, 5}).Draw(t, "agents")
		s.Budget.Turns = rapid.SampledFrom([]int{0, 3, 9}).Draw(t, "turns") * s.pace()
		s.Budget.Tokens = rapid.SampledFrom([]int{0, 30, 90}).Draw(t, "tokens") * s.pace()
		if s.Tools {
			s.Budget.ToolCalls = rapid.SampledFrom([]int{0, 2, 5}).Draw(t, "tool calls")
		}
	}
	most := 2
	if s.Forks == "" && !s.Tools && (s.Fan == 1 || s.Depth == 1) {
		most = 5
	}
	s.Trees = rapid.SliceOfN(rapid.Custom(s.drawTree), 1, most).Draw(t, "trees")
	return s
}

// config is the configuration of the scenario's workers.
func (s scenario) config() agentd.Config {
	c := agentd.Config{Slots: s.Slots}
	if s.Dormant {
		c.ActiveAgents, c.DormantAfter = fewActive.ActiveAgents, fewActive.DormantAfter
	}
	return c
}

// limitSize bounds the depth and the fan, for walks of runs with many turns.
func (s scenario) limitSize() scenario {
	s.Depth = min(s.Depth, 2)
	s.Fan = min(s.Fan, 2)
	return s
}

// pace is the factor by which bounds are larger, and people slower, where runs
// use tools: these runs take more turns, and wait for people.
func (s scenario) pace() int {
	if s.Tools {
		return 4
	}
	return 1
}

// drawFault draws a fault. Kills are twice as frequent as each other kind.
func drawFault(t *rapid.T) fault {
	return fault{
		Step: rapid.IntRange(1, 60).Draw(t, "step"),
		Kind: rapid.SampledFrom([]faultKind{kill, kill, freeze, disconnect, drain}).Draw(t, "kind"),
	}
}

// drawTree draws a tree of the scenario. People cancel a run in four trees of
// seven.
func (s scenario) drawTree(t *rapid.T) treeSpec {
	number := func(name string, least, most int) int { return rapid.IntRange(least, most).Draw(t, name) }
	seldom := func(name string) bool { return number(name, 0, 3) == 3 }
	tree := treeSpec{
		CancelAfter: number("cancel after", 0, 10) * s.pace(),
		Target:      rapid.SampledFrom([]int{-1, -1, -1, 0, 0, 1, 2}).Draw(t, "target"),
	}
	if tree.Target < 0 {
		tree.CancelAfter = -1
		tree.Target = 0
	}
	if seldom("deadline") {
		tree.Deadline = number("seconds", 1, 40) * s.pace()
	}
	if s.LastAgentUnserved && seldom("unserved root") {
		tree.Root = s.Depth
		tree.Target = 0
		tree.Deadline = number("seconds to live", 1, 40)
	}
	if seldom("interrupted") {
		tree.InterruptAfter = number("interrupt after", 1, 12) * s.pace()
	}
	return tree
}

// hashed is a number below n that follows from the seed and some words.
func (s scenario) hashed(n uint64, words ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, s.Seed, words)
	return h.Sum64() % n
}

// makeAgents makes the agents, and lists those that workers serve.
func (s scenario) makeAgents() (all, served []configs.Agent) {
	all = levels(s.Depth+1, func(a *configs.Agent) {
		a.SubAgentsConf.Parallel = !s.Sequential
		a.SubAgentsConf.Timeout = s.CallTimeout
		if s.Spawn {
			spawningOthers(a)
		}
		a.Retry = configs.Retry{MaxAttempts: s.Attempts, Backoff: configs.Fixed, Initial: time.Second}
		if s.Tools {
			a.Tools = []string{"shop/*", "read_artifact"}
		}
		if s.Approve {
			a.Approve = []string{"shop/act", "shop/p*"}
		}
	})
	all[0].Budget = s.Budget
	mail, calls := configs.StyleMail, configs.StyleCall
	if s.Slash {
		mail = configs.StyleSlash
	}
	if s.Spawn {
		calls = configs.StyleSpawn
	}
	switch s.Forks {
	case "top":
		all[0].Delegation.Styles = configs.Styles{calls, mail}
	case "bottom":
		all[s.Depth].Delegation.Styles = configs.Styles{mail}
	}
	served = all
	if s.LastAgentUnserved {
		served = all[:s.Depth]
	}
	if s.Supervision != "" {
		supervisor := s.supervisor(all)
		return append(all, supervisor), append(slices.Clip(served), supervisor)
	}
	return all, served
}

// supervisor puts the first agent, and so all runs below it, under the
// supervision of a new agent. It returns the new agent.
func (s scenario) supervisor(agents []configs.Agent) configs.Agent {
	agents[0].Supervision = configs.Supervision{Mode: s.Supervision, Agent: "watcher", Timeout: 20 * time.Second}
	if s.Supervision == configs.SupervisedHuman && s.Seed%2 == 0 {
		agents[0].Supervision.OnTimeout = configs.Approve
	}
	return configs.Agent{
		Name:         "watcher",
		Model:        "sim/tree",
		Digest:       "d",
		SystemPrompt: "watcher",
		Retry:        agents[0].Retry,
	}
}

// verdicts are the answers of a supervisor; five in eight let the turn go on.
var verdicts = []string{
	`{"decision":"continue"}`, `{"decision":"continue"}`, `{"decision":"continue"}`, `{"decision":"continue"}`,
	`{"decision":"continue"}`, `{"decision":"reorient","correction":"do without"}`,
	`{"decision":"pause","reason":"` + heldReason + `"}`, "hm",
}

// reviewLabel is the label of a supervisor's run: the label of the reviewed run
// and a hash of the text that the supervisor is shown. It is "" for the task of
// any other run.
func reviewLabel(text string) string {
	text = strings.TrimPrefix(text, "Task: ")
	if !strings.HasPrefix(text, "You supervise another agent.") {
		return ""
	}
	h := fnv.New64a()
	h.Write([]byte(text))
	return fmt.Sprintf("%s~v%x", labelOfTask(text), h.Sum64())
}

// script sets the behaviour of the model to that of the scenario.
func (s scenario) script(m *treeModel) {
	m.fan = s.Fan
	m.submits = s.Submits
	m.forks = s.Forks != ""
	if s.Forks == "bottom" {
		m.forkDepth = s.Depth
	}
	m.review = func(turn string) *provider.Response {
		verdict := verdicts[s.hashed(uint64(len(verdicts)), "verdict", turn)]
		return &provider.Response{Content: verdict, Usage: turnUsage}
	}
	m.latencyOf = func(turn string) time.Duration {
		return time.Second + time.Duration(s.hashed(uint64(1000*s.MaxLatency), "latency", turn))*time.Millisecond
	}
	if s.Tools {
		m.uses = s.uses
	}
	if s.UnevenDepth {
		m.stopsAt = func(label string) bool { return strings.Contains(label, ".") && s.hashed(3, "leaf", label) == 0 }
	}
	if s.ModelFails {
		m.failure = func(turn string, n int) error {
			if s.hashed(4, "fails", turn, n) > 0 {
				return nil
			}
			return &provider.Error{Category: provider.Server, Status: 500, Message: "broken"}
		}
	}
	if s.RandomAnswers {
		m.override = func(worker, turn string) *provider.Response {
			if s.hashed(4, "answer", worker, turn) > 0 {
				return nil
			}
			return &provider.Response{Content: "whim"}
		}
	}
}

// isRightEnd reports whether an outcome is possible for a tree with the label.
func (s scenario) isRightEnd(tree treeSpec, label string, m *treeModel, o run.Outcome) bool {
	if o.Status == run.StatusCompleted {
		depth := s.Depth - tree.Root
		if s.Forks == "top" && tree.Root == 0 {
			// The root's forks run the root's agent.
			depth++
		}
		return s.answerPattern(tree, label, depth, m).MatchString(o.Result)
	}
	switch o.Kind { //nolint:exhaustive // no other kind is possible
	case run.KindCancelled:
		return tree.cancelsRoot()
	case run.KindTimeout:
		return tree.Deadline > 0
	case run.KindBudget:
		return s.Budget.Turns > 0 || s.Budget.Tokens > 0
	}
	return o.Kind == run.KindError && s.ModelFails
}

// answerPattern matches the possible answers of a tree: the results of its
// calls, in the order of the calls. Where the scenario allows a failure, the
// result of a call may be a failure.
func (s scenario) answerPattern(tree treeSpec, label string, depth int, m *treeModel) *regexp.Regexp {
	// Alternatives to the usual answer of any run.
	otherwise := ""
	if s.ModelFails || s.CallTimeout > 0 || s.Budget != (subjects.Budget{}) || s.Supervision != "" ||
		tree.cancelsChild() || tree.Deadline > 0 || tree.InterruptAfter > 0 {
		otherwise = `|Error: sub-agent "a\d" failed - [^.]*\. You may retry or proceed without this result\.` +
			`|call_agent error: budget exceeded[^.)]*?`
	}
	mayFail := otherwise != ""
	if s.Tools { // a person may let a run fail
		otherwise += `|Error: sub-agent "a\d" failed - pay: it may have taken effect.*? ` +
			`You may retry or proceed without this result\.`
	}
	if s.RandomAnswers {
		otherwise += "|whim"
	}
	var below func(label string, depth int) string
	below = func(label string, depth int) string {
		text := regexp.QuoteMeta(label)
		if m.forks && strings.Count(label, ".") == m.forkDepth && (s.Forks == "bottom" || depth > 0) {
			child := func(label string) string { return below(label, depth-1) }
			return "(?:" + s.forkedPattern(label, otherwise, child) + otherwise + ")"
		}
		if depth > 0 && !m.isLeaf(label) {
			var parts []string
			for i := range m.fan {
				parts = append(parts, below(fmt.Sprintf("%s.%d", label, i), depth-1))
			}
			text += `\(` + strings.Join(parts, " ") + `\)`
			if s.Supervision != "" { // a turn may have been withheld
				text += "|" + regexp.QuoteMeta(label) + `\([^()]*` + withheldText + `[^()]*(?:\(HTTP 500\)[^()]*)*\)`
			}
			// An interrupted run answers without its results.
			if tree.InterruptAfter > 0 {
				text += "|" + regexp.QuoteMeta(label)
			}
		} else if len(s.uses(label, 1)) > 0 {
			text = s.toolsPattern(label, mayFail)
		}
		return "(?:" + text + otherwise + ")"
	}
	return regexp.MustCompile("^" + below(label, depth) + "$")
}

// withheldText begins the result of a call in a turn that a supervisor or a
// person did not allow.
const withheldText = "Nothing of this turn was carried out"

// forkedPattern matches the possible answers of a run that forks. Undisturbed
// runs answer like treeModel.forkedAnswer. Where other answers are possible, a
// fork may also be dead, failed or refused, or miss some mail, and the run may
// have given up.
func (s scenario) forkedPattern(label, otherwise string, below func(label string) string) string {
	if otherwise == "" {
		// A fork's answer is a pattern already. Marks keep its place
		// while the text around it is quoted.
		const mark = "\x00"
		marked := func(label string) string { return mark + label + mark }
		text := regexp.QuoteMeta((&treeModel{fan: s.Fan}).forkedAnswer(label, marked))
		for i := range s.Fan {
			child := fmt.Sprintf("%s.%d", label, i)
			text = strings.ReplaceAll(text, mark+regexp.QuoteMeta(child)+mark, below(child))
		}
		return text
	}
	const suffixes = `(?:\+told)?(?:\+heard:[^ )]*)?(?:\+again)?`
	var parts []string
	for i := range s.Fan {
		parts = append(parts, "(?:"+below(fmt.Sprintf("%s.%d", label, i))+suffixes+"|dead|failed|refused)")
	}
	copied := regexp.QuoteMeta(label) + fmt.Sprintf(`~\d+-%d`, s.Fan)
	parts = append(parts, "(?:"+copied+otherwise+"|dead|failed|refused)(?:<[^> ]*>)?")
	return regexp.QuoteMeta(label) + `\((?:gave up|` + strings.Join(parts, " ") + `)\)`
}

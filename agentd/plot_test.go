package agentd_test

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/subjects"

	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
)

// plot is what a walk is about: what the agents are like, and what happens to
// the workers and the trees.
type plot struct {
	Fates  []fate
	Slots  int
	Depth  int
	Fan    int
	InTurn bool // one call after the other
	Spawn  bool // of spawned runs
	// who forks: roots ("top"), which call too, or those that call nobody
	// ("bottom"); "" for nobody
	Mail  string
	Slash bool // … by lines of text

	// how closely a supervisor looks at the trees
	Watched configs.SupervisionMode

	Seed   int // of whatever follows from a label
	Ragged bool
	// seconds that an answer takes at most
	Slow    int
	Moody   bool
	Fragile bool
	Tries   int // of a request to the model
	Timeout int // seconds of each call, 0: none
	Gone    bool
	Limits  subjects.Budget // of each tree

	// streams that the trees are spread over
	Parts int

	Trees []fruit
}

// fate is what happens to a worker at one of its steps.
type fate struct {
	Step int
	What string // "kill", "freeze", "cut" or "drain"
}

// fruit is one tree, and what befalls it.
type fruit struct {
	Agent  int // its root's
	Cancel int // seconds until somebody cancels …
	// … the root (0) or a child of its first turn; negative: never
	Path     int
	Deadline int // seconds; 0: none
	// seconds until somebody interrupts the root or that child, and writes
	// to it later; 0: never
	Stop int
}

// drawPlot draws one. What is out of the ordinary is so in one walk of four.
func drawPlot(t *rapid.T) plot {
	seldom := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, name) == 3 }
	p := plot{
		Fates: rapid.SliceOfN(
			rapid.Custom(drawFate),
			4,
			4,
		).Draw(
			t,
			"fates",
		), Slots: rapid.IntRange(1, 4).Draw(t, "slots"),
		Depth: rapid.IntRange(
			1,
			3,
		).Draw(
			t,
			"depth",
		), Fan: rapid.IntRange(1, 3).Draw(t, "fan"), InTurn: rapid.Bool().Draw(t, "in turn"), Spawn: rapid.Bool().Draw(t, "spawn"),
		Seed: rapid.IntRange(1, 1000).Draw(t, "seed"), Ragged: rapid.Bool().Draw(t, "ragged"), Slow: 1,
		Moody: seldom("moody"), Fragile: seldom("fragile"), Gone: seldom("gone"), Tries: 1, Parts: 1,
	}
	if seldom("spread") {
		p.Parts = 4
	}
	if seldom("slow") {
		p.Slow = 20
	}
	// each that forks takes a dozen turns
	if p.Mail = rapid.SampledFrom([]string{"", "", "top", "bottom"}).Draw(t, "mail"); p.Mail != "" {
		p.Depth, p.Fan, p.Slash = min(p.Depth, 2), min(p.Fan, 2), rapid.Bool().Draw(t, "slash")
	}
	// which doubles what there is to do
	if seldom("watched") {
		p.Watched = rapid.SampledFrom(
			[]configs.SupervisionMode{configs.Supervised, configs.SupervisedHuman},
		).Draw(
			t,
			"mode",
		)
		p.Depth, p.Fan = min(p.Depth, 2), min(p.Fan, 2)
	}
	if p.Fragile {
		p.Tries = rapid.IntRange(1, 3).Draw(t, "tries")
	}
	if p.Gone || seldom("timeout") {
		p.Timeout = rapid.IntRange(1, 20).Draw(t, "seconds of a call")
	}
	if seldom("limits") {
		p.Limits = subjects.Budget{
			Agents: rapid.SampledFrom(
				[]int{0, 2, 5},
			).Draw(
				t,
				"agents",
			), Turns: rapid.SampledFrom([]int{0, 3, 9}).Draw(t, "turns"),
			Tokens: rapid.SampledFrom([]int{0, 30, 90}).Draw(t, "tokens"),
		}
	}
	most := 2
	if p.Mail == "" && (p.Fan == 1 || p.Depth == 1) {
		most = 5
	}
	p.Trees = rapid.SliceOfN(rapid.Custom(p.drawFruit), 1, most).Draw(t, "trees")
	return p
}

func drawFate(t *rapid.T) fate {
	return fate{
		rapid.IntRange(1, 60).Draw(t, "step"),
		rapid.SampledFrom([]string{"kill", "kill", "freeze", "cut", "drain"}).Draw(t, "what"),
	}
}

func (p plot) drawFruit(t *rapid.T) fruit {
	f := fruit{
		Cancel: rapid.IntRange(0, 10).Draw(t, "cancel"),
		Path:   rapid.SampledFrom([]int{-1, -1, -1, 0, 0, 1, 2}).Draw(t, "path"),
	}
	if rapid.IntRange(0, 3).Draw(t, "deadline") == 3 {
		f.Deadline = rapid.IntRange(1, 40).Draw(t, "seconds")
	}
	if p.Gone && rapid.IntRange(0, 3).Draw(t, "root") == 3 {
		f.Agent, f.Path, f.Deadline = p.Depth, min(f.Path, 0), rapid.IntRange(1, 40).Draw(t, "seconds to live")
	}
	if rapid.IntRange(0, 3).Draw(t, "interrupted") == 3 {
		f.Stop = rapid.IntRange(1, 12).Draw(t, "interrupt")
	}
	return f
}

// chance is a number below n that follows from the plot and some words.
func (p plot) chance(n uint64, words ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, p.Seed, words)
	return h.Sum64() % n
}

// cast are the agents: a0 calls a1 and so on. The last one is nobody's if it is
// gone.
func (p plot) cast() (all, served []configs.Agent) {
	all = levels(p.Depth+1, func(a *configs.Agent) {
		a.SubAgentsConf.Parallel, a.SubAgentsConf.Timeout = !p.InTurn, p.Timeout
		if p.Spawn {
			spawningOthers(a)
		}
		a.Retry = configs.Retry{MaxAttempts: p.Tries, Backoff: configs.Fixed, Initial: time.Second}
	})
	all[0].Budget = p.Limits
	mail, calls := configs.StyleMail, configs.StyleCall
	if p.Slash {
		mail = configs.StyleSlash
	}
	if p.Spawn {
		calls = configs.StyleSpawn
	}
	switch p.Mail {
	case "top":
		all[0].Delegation.Styles = configs.Styles{calls, mail}
	case "bottom":
		all[p.Depth].Delegation.Styles = configs.Styles{mail}
	}
	served = all
	if p.Gone {
		served = all[:p.Depth]
	}
	if p.Watched != "" {
		watcher := p.watch(all)
		return append(all, watcher), append(slices.Clip(served), watcher)
	}
	return all, served
}

// play makes the model act as the plot says.
func (p plot) play(m *treeModel) {
	m.fan = p.Fan
	m.forks = p.Mail != ""
	if p.Mail == "bottom" {
		m.forkAt = p.Depth
	}
	m.judge = p.judge
	m.pause = func(key string) time.Duration {
		return time.Second + time.Duration(p.chance(uint64(1000*p.Slow), "pause", key))*time.Millisecond
	}
	if p.Ragged {
		m.leaf = func(label string) bool { return strings.Contains(label, ".") && p.chance(3, "leaf", label) == 0 }
	}
	if p.Fragile {
		m.fails = func(key string, n int) error {
			if p.chance(4, "fails", key, n) > 0 {
				return nil
			}
			return &provider.Error{Category: provider.Server, Status: 500, Message: "broken"}
		}
	}
	if p.Moody {
		m.whim = func(worker, key string) *provider.Response {
			if p.chance(4, "mood", worker, key) > 0 {
				return nil
			}
			return &provider.Response{Content: "whim"}
		}
	}
}

// ends says whether an outcome is a right end of a tree, whose label is given.
func (p plot) ends(f fruit, label string, m *treeModel, o run.Outcome) bool {
	switch {
	case o.Status == run.StatusCompleted:
		depth := p.Depth - f.Agent
		if p.Mail == "top" && f.Agent == 0 {
			depth++ // of its forks
		}
		return p.answer(f, label, depth, m).MatchString(o.Result)
	case o.Kind == run.KindCancelled:
		return f.Path == 0
	case o.Kind == run.KindTimeout:
		return f.Deadline > 0
	case o.Kind == run.KindBudget:
		return p.Limits.Turns > 0 || p.Limits.Tokens > 0
	}
	return o.Kind == run.KindError && p.Fragile
}

// answer is what a tree may answer: the results of its calls, in the order of
// the calls, each of them that of its call or, where something may have
// happened to it, a failure.
func (p plot) answer(f fruit, label string, depth int, m *treeModel) *regexp.Regexp {
	or := ""
	if p.Fragile || p.Timeout > 0 || p.Limits != (subjects.Budget{}) || f.Path > 0 || f.Deadline > 0 || f.Stop > 0 ||
		p.Watched != "" {
		or = `|Error: sub-agent "a\d" failed - [^.]*\. You may retry or proceed without this result\.|call_agent error: budget exceeded[^.)]*?`
	}
	if p.Moody {
		or += "|whim"
	}
	var below func(label string, depth int) string
	below = func(label string, depth int) string {
		text := regexp.QuoteMeta(label)
		if m.forks && strings.Count(label, ".") == m.forkAt && (p.Mail == "bottom" || depth > 0) {
			return "(?:" + p.forked(label, or, func(label string) string { return below(label, depth-1) }) + or + ")"
		}
		if depth > 0 && !m.ends(label) {
			var parts []string
			for i := range m.fan {
				parts = append(parts, below(fmt.Sprintf("%s.%d", label, i), depth-1))
			}
			text += `\(` + strings.Join(parts, " ") + `\)`
			if p.Watched != "" {
				text += "|" + regexp.QuoteMeta(label) + `\([^()]*` + nothing + `[^()]*(?:\(HTTP 500\)[^()]*)*\)`
			}
			// who was stopped does not say what it had
			if f.Stop > 0 {
				text += "|" + regexp.QuoteMeta(label)
			}
		}
		return "(?:" + text + or + ")"
	}
	return regexp.MustCompile("^" + below(label, depth) + "$")
}

// nothing begins what a run reads of a turn that its supervisor, or a person,
// did not want.
const nothing = "Nothing of this turn was carried out"

// forked is what a run that forks may answer: as mailed has it, and if
// something may have happened, or may be said instead (or), that a fork is
// dead, did not work, was refused or says less, or that it has given up.
func (p plot) forked(label, or string, below func(label string) string) string {
	if or == "" {
		// holds the place of a fork's answer, which is a pattern
		// already
		const mark = "\x00"
		text := regexp.QuoteMeta(
			(&treeModel{fan: p.Fan}).mailed(label, func(label string) string { return mark + label + mark }),
		)
		for i := range p.Fan {
			child := fmt.Sprintf("%s.%d", label, i)
			text = strings.ReplaceAll(text, mark+regexp.QuoteMeta(child)+mark, below(child))
		}
		return text
	}
	const less = `(?:\+told)?(?:\+heard:[^ )]*)?(?:\+again)?`
	var parts []string
	for i := range p.Fan {
		parts = append(parts, "(?:"+below(fmt.Sprintf("%s.%d", label, i))+less+"|dead|failed|refused)")
	}
	parts = append(
		parts,
		"(?:"+regexp.QuoteMeta(label)+fmt.Sprintf(`~\d+-%d`, p.Fan)+or+"|dead|failed|refused)(?:<[^> ]*>)?",
	)
	return regexp.QuoteMeta(label) + `\((?:gave up|` + strings.Join(parts, " ") + `)\)`
}

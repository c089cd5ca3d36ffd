package agentd_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/axebus/axe/provider"
)

// toolRounds is the answer of treeModel for a run that uses tools instead of
// calling children. In its first rounds it calls the tools that m.uses names,
// and reads each artifact that it was told of, once. Then it answers with its
// label and a word for each result: L{done unknown}.
//
// The argument of call i in round n of the run L.1 is L.1#n-i. So no two calls
// of a walk have the same one.
func (m *treeModel) toolRounds(req *provider.Request, label string) *provider.Response {
	var made []provider.ToolCall
	var words []string
	round := 1
	for _, msg := range req.Messages {
		made = append(made, msg.ToolCalls...)
		for i, r := range msg.ToolResults {
			words = append(words, wordOfResult(made[len(made)-len(msg.ToolResults)+i], r.Content))
		}
		round += min(1, len(msg.ToolResults))
	}
	var cs []provider.ToolCall
	for _, word := range words {
		if m := artifactWord.FindStringSubmatch(word); m != nil && round == 2 {
			cs = append(cs, use("read_artifact", "name", m[1], "limit", "1"))
		}
	}
	for i, name := range m.uses(label, round) {
		cs = append(cs, use(name, "arg", fmt.Sprintf("%s#%d-%d", label, round, i)))
	}
	if len(cs) > 0 {
		resp := toolTurn(cs...)
		resp.Content = fmt.Sprintf("acting %d", round) // a supervisor never sees two equal turns
		return resp
	}
	return &provider.Response{Content: label + "{" + strings.Join(words, " ") + "}", Usage: turnUsage}
}

// listed matches the first line of a list, read as an artifact or not.
var listed = regexp.MustCompile(`^(?:1: )?list (\d+) of `)

// excerptOf matches the note that names the artifact of a result.
var excerptOf = regexp.MustCompile(`are the artifact ([^:\]]+)`)

// lostText matches the note that a result could not be stored in time.
var lostText = regexp.MustCompile(`They are lost: artifact .*: not stored within`)

// wordOfResult is a word for the result of a call of a tool.
func wordOfResult(tc provider.ToolCall, text string) string {
	changed := false
	if after, ok := strings.CutPrefix(text, "[A person approved of this call with other arguments: "); ok {
		_, text, _ = strings.Cut(after, "]\n")
		changed = true
	}
	list, excerpt := listed.FindStringSubmatch(text), excerptOf.FindStringSubmatch(text)
	switch {
	case list != nil && tc.Name == "read_artifact":
		return "read:" + tc.Arguments["name"] + ":" + list[1]
	case list != nil && excerpt != nil:
		return "list:" + excerpt[1] + ":" + list[1]
	case list != nil && lostText.MatchString(text):
		return "lost"
	case changed && text == "did another thing":
		return "changed"
	case !changed && text == "did "+tc.Arguments["arg"]:
		return "done"
	case text == settledText:
		return "settled"
	case strings.Contains(text, "it may have taken effect"):
		return "unknown"
	case strings.HasPrefix(text, withheldText):
		return "withheld"
	}
	return "failed:" + notInWord.ReplaceAllString(text, "_")
}

// notInWord matches what a word cannot have.
var notInWord = regexp.MustCompile(`\W`)

// settledText is the result of a call that a person has settled.
const settledText = "settled by a person"

// artifactWord matches the word for a list that became an artifact, or for the
// artifact that was read: its name, and the number of the list.
var artifactWord = regexp.MustCompile(`\b(?:list|read):([^\s:]+):(\d+)`)

// toolsPattern matches the possible answers of a run that uses tools.
// Otherwise says that a call may fail.
func (s scenario) toolsPattern(label string, otherwise bool) string {
	word := func(usual string) string {
		if s.Approve || s.Supervision != "" {
			usual += "|changed|withheld"
		}
		if otherwise {
			usual += `|unknown|failed:\w*`
		}
		return "(?:" + usual + ")"
	}
	// A worker that is cut off or frozen may not store an artifact in time.
	late := slices.ContainsFunc(s.Faults, func(f fault) bool { return f.Kind == disconnect || f.Kind == freeze })
	lists := `list:\S+`
	if late {
		lists += "|lost"
	}
	words := map[string]string{
		"get": word("done"), "put": word("done"), "act": word("done|unknown"), "pay": word("done|settled"),
		"list": word(lists),
	}
	var parts []string
	for _, name := range s.uses(label, 1) {
		parts = append(parts, words[name])
	}
	reads := len(slices.DeleteFunc(s.uses(label, 1), func(name string) bool { return name != "list" }))
	least := reads
	if late || otherwise || s.Approve || s.Supervision != "" {
		least = 0
	}
	parts[len(parts)-1] += fmt.Sprintf("(?: %s){%d,%d}", word(`read:\S+`), least, reads)
	for _, name := range s.uses(label, 2) {
		parts = append(parts, words[name])
	}
	return regexp.QuoteMeta(label) + `\{` + strings.Join(parts, " ") + `\}`
}

// uses names the tools that a run of the scenario uses in a round. One run in
// four uses none.
func (s scenario) uses(label string, round int) []string {
	if !s.Tools || round > 2 || s.hashed(4, "tools", label) == 0 {
		return nil
	}
	names := []string{"get", "put", "act", "act", "pay", "pay", "list"}
	var used []string
	for i := range 1 + s.hashed(4-uint64(round), "tools", label, round) {
		used = append(used, names[s.hashed(uint64(len(names)), "tool", label, round, i)])
	}
	return used
}

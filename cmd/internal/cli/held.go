package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/toolset"
)

// PrintHeldTurn prints a turn that waits for a person.
func PrintHeldTurn(stdout io.Writer, p client.HeldTurn) {
	fmt.Fprintf(stdout, "%s %s: turn %d of %s, until %s\n",
		p.Run.Tree, p.Run.Path, p.Turn, p.Run.Agent, p.Until.Local().Format(time.DateTime))
	source := "its supervisor"
	if p.Supervisor == "" {
		source = "it waits"
	}
	fmt.Fprintf(stdout, "  %s: %s\n", source, Printable(p.Reason))
	if p.Text != "" {
		fmt.Fprintf(stdout, "  it says: %s\n", Printable(p.Text))
	}
	for _, c := range p.Calls {
		number := ""
		if c.TakesArguments {
			number = fmt.Sprintf("call %d: ", c.Call)
		}
		fmt.Fprintf(stdout, "  %s%s%s\n", number, c.Tool, Printable(arguments(c.Arguments)))
	}
}

// PrintHeldCall prints a call of a tool that waits for a person, and the fields
// of the answer if its tool asks for input.
func PrintHeldCall(stdout io.Writer, p client.HeldCall) {
	fmt.Fprintf(stdout, "%s %s: %s of %s, until %s\n",
		p.Run.Tree, p.Run.Path, p.Tool, p.Run.Agent, p.Until.Local().Format(time.DateTime))
	if p.Form == nil {
		fmt.Fprintf(stdout, "  it may have taken effect: worker %s began it %s ago and did not report (key %s)\n",
			p.Worker, max(0, time.Since(p.Began)).Round(time.Second), p.Key)
	}
	fmt.Fprintf(stdout, "  %s%s\n", p.Tool, Printable(arguments(p.Arguments)))
	if p.Form != nil {
		fmt.Fprintln(stdout, "  it asks for input (axe answer):")
		printForm(stdout, p.Form)
	}
}

// arguments prints the arguments of a tool call on one line, sorted by name.
func arguments(m map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, " %s=%q", k, m[k])
	}
	return b.String()
}

// AnswersTo returns the answers to a form, by the keys of its questions.
func AnswersTo(form *run.Form, given []string) (map[string]json.RawMessage, error) {
	if len(given) == 0 {
		return nil, Usage("the answer is missing: %s (axe pending lists its fields)", form)
	}
	answers := map[string]json.RawMessage{}
	switch one := len(form.Questions) == 1; {
	case !strings.HasPrefix(strings.TrimSpace(given[0]), "{") && one:
		b, err := toolset.ParseFields(form.Questions[0], given)
		if err != nil {
			return nil, Usage("%v", err)
		}
		answers[form.Questions[0].Key] = b
	case len(given) > 1 || !json.Valid([]byte(given[0])):
		return nil, Usage("the answer must be one JSON object, got %s", strings.Join(given, " "))
	case one:
		answers[form.Questions[0].Key] = json.RawMessage(given[0])
	default:
		if err := json.Unmarshal([]byte(given[0]), &answers); err != nil {
			return nil, Usage("the answer must be a JSON object with an object for each question: %v", err)
		}
	}
	for _, q := range form.Questions {
		if err := toolset.CheckAnswer(q, answers[q.Key]); err != nil {
			return nil, Usage("%s: %v", q.Key, err)
		}
	}
	return answers, nil
}

// printForm prints the questions of a form, each with the fields of its answer.
func printForm(w io.Writer, form *run.Form) {
	for _, q := range form.Questions {
		prefix := ""
		if len(form.Questions) > 1 {
			prefix = q.Key + ": "
		}
		fmt.Fprintf(w, "  %s%s\n", prefix, Printable(q.Text))
		if q.URL != "" {
			fmt.Fprintf(w, "    visit %s, then answer {}\n", Printable(q.URL))
		}
		for _, f := range toolset.FieldsOf(q) {
			fmt.Fprintf(w, "    %s\n", Printable(fieldText(f)))
		}
	}
}

// fieldText describes a field of an answer on one line.
func fieldText(f toolset.Field) string {
	about := []string{f.Type}
	if f.Required {
		about = append(about, "required")
	}
	if len(f.Choices) > 0 {
		about = append(about, "one of "+strings.Join(f.Choices, ", "))
	}
	text := fmt.Sprintf("%s (%s)", f.Name, strings.Join(about, ", "))
	if f.Description != "" {
		text += ": " + f.Description
	}
	return text
}

// OtherArguments parses the values of --args for a held turn.
func OtherArguments(held client.HeldTurn, given []string) (map[int]json.RawMessage, error) {
	all := map[int]json.RawMessage{}
	for _, s := range given {
		number, object, numbered := strings.Cut(s, "=")
		call, err := strconv.Atoi(strings.TrimSpace(number))
		if !numbered || err != nil {
			isOther := func(c client.ToolCall) bool { return !c.TakesArguments }
			tools := slices.DeleteFunc(slices.Clone(held.Calls), isOther)
			if len(tools) != 1 {
				return nil, Usage("the turn has %d calls of tools: --args must be like 0=%s", len(tools), s)
			}
			call, object = tools[0].Call, s
		}
		var value map[string]any
		if err := json.Unmarshal([]byte(object), &value); err != nil || value == nil {
			return nil, Usage("--args: the arguments must be a JSON object, got %s", object)
		}
		if _, twice := all[call]; twice {
			return nil, Usage("--args: call %d has arguments already", call)
		}
		all[call] = json.RawMessage(strings.TrimSpace(object))
	}
	return all, nil
}

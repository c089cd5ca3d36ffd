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
	"github.com/axebus/axe/subjects"
)

// PrintHeldTurn prints a turn that waits for a person.
func PrintHeldTurn(stdout io.Writer, t client.HeldTurn) {
	fmt.Fprintf(stdout, "%s %s: turn %d of %s, until %s\n",
		t.Run.Tree, t.Run.Path, t.Turn, t.Run.Agent, t.Until.Local().Format(time.DateTime))
	cause := "its supervisor"
	if t.Supervisor == "" {
		cause = "it waits"
	}
	fmt.Fprintf(stdout, "  %s: %s\n", cause, Printable(t.Reason))
	printApprovers(stdout, t.Approvers)
	if t.Text != "" {
		fmt.Fprintf(stdout, "  it says: %s\n", Printable(t.Text))
	}
	for _, c := range t.Calls {
		number := ""
		if c.TakesArguments {
			number = fmt.Sprintf("call %d: ", c.Call)
		}
		fmt.Fprintf(stdout, "  %s%s%s\n", number, c.Tool, Printable(arguments(c.Arguments)))
	}
}

// printApprovers says of which users a decision counts, if not of each one.
func printApprovers(stdout io.Writer, a subjects.Approvers) {
	if len(a) > 0 {
		fmt.Fprintf(stdout, "  a decision needs %s\n", Printable(a.String()))
	}
}

// PrintHeldCall prints a call of a tool that waits for a person, and the fields
// of the answer if its tool asks for input.
func PrintHeldCall(stdout io.Writer, c client.HeldCall) {
	fmt.Fprintf(stdout, "%s %s: %s of %s, until %s\n",
		c.Run.Tree, c.Run.Path, c.Tool, c.Run.Agent, c.Until.Local().Format(time.DateTime))
	if c.Form == nil {
		fmt.Fprintf(stdout, "  it may have taken effect: worker %s began it %s ago and did not report (key %s)\n",
			c.Worker, max(0, time.Since(c.Began)).Round(time.Second), c.Key)
	}
	printApprovers(stdout, c.Approvers)
	fmt.Fprintf(stdout, "  %s%s\n", c.Tool, Printable(arguments(c.Arguments)))
	if c.Form != nil {
		fmt.Fprintln(stdout, "  it asks for input (axe answer):")
		printForm(stdout, c.Form)
	}
}

// arguments returns the arguments of a tool call on one line, sorted by name.
func arguments(m map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, " %s=%q", k, m[k])
	}
	return b.String()
}

// AnswersTo returns the answers to a form, by the keys of its questions. The
// given arguments are one JSON object: the answer to the only question, or the
// answers by key. For the only question they may also be fields like
// NAME=VALUE.
func AnswersTo(form *run.Form, given []string) (map[string]json.RawMessage, error) {
	if len(given) == 0 {
		return nil, Usage("the answer is missing: %s (axe pending lists its fields)", form)
	}
	answers, err := parseAnswers(form.Questions, given)
	if err != nil {
		return nil, err
	}
	for _, q := range form.Questions {
		if err := toolset.CheckAnswer(q, answers[q.Key]); err != nil {
			return nil, Usage("%s: %v", q.Key, err)
		}
	}
	return answers, nil
}

func parseAnswers(questions []run.Question, given []string) (answers map[string]json.RawMessage, _ error) {
	only := len(questions) == 1
	if only && !strings.HasPrefix(strings.TrimSpace(given[0]), "{") {
		answer, err := toolset.ParseFields(questions[0], given)
		if err != nil {
			return nil, Usage("%v", err)
		}
		return map[string]json.RawMessage{questions[0].Key: answer}, nil
	}
	object := json.RawMessage(given[0])
	if len(given) > 1 || !json.Valid(object) {
		return nil, Usage("the answer must be one JSON object, got %s", strings.Join(given, " "))
	}
	if only {
		return map[string]json.RawMessage{questions[0].Key: object}, nil
	}
	if err := json.Unmarshal(object, &answers); err != nil {
		return nil, Usage("the answer must be a JSON object with an object for each question: %v", err)
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
		of := "one of "
		if f.Type == "array" {
			of = "any of "
		}
		about = append(about, of+strings.Join(f.Choices, ", "))
	}
	text := fmt.Sprintf("%s (%s)", f.Name, strings.Join(about, ", "))
	if f.Description != "" {
		text += ": " + f.Description
	}
	return text
}

// OtherArguments parses the values of --args for a held turn, by call. A value
// is [CALL=]JSON. It needs no CALL if one call of the turn takes arguments.
func OtherArguments(held client.HeldTurn, given []string) (map[int]json.RawMessage, error) {
	all := map[int]json.RawMessage{}
	for _, s := range given {
		number, object, numbered := strings.Cut(s, "=")
		call, err := strconv.Atoi(strings.TrimSpace(number))
		if !numbered || err != nil {
			takesNone := func(c client.ToolCall) bool { return !c.TakesArguments }
			tools := slices.DeleteFunc(slices.Clone(held.Calls), takesNone)
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

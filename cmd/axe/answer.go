package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/toolset"
)

const (
	answerLong = `Answer a tool that asks for input, as axe pending lists it. The tool is called
again with the answers, by any worker that serves it. PATH is the path of the
tool run, as axe pending lists it, or of the run that made the call. Without a
PATH the answer is for the only tool of the tree that asks.

The answer is a JSON object, or fields like NAME=VALUE. A form of several
questions takes one JSON object with an answer for each question's key. A
question with a URL is answered by {} after you have visited the page.

  --decline  You give no answer. The tool is told so, and decides.

Of two answers to one form the first counts. It is an error if no tool asks (any
more), or if the answer does not fit the question.`

	answerExamples = `  axe pending
  axe answer 5Rt0yAkYxJ r-1-0 '{"confirm": true, "branch": "main"}'
  axe answer 5Rt0yAkYxJ confirm=true branch=main --by ann
  axe answer 5Rt0yAkYxJ --decline`
)

func answerCommand() *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		var decline bool
		var by string
		cmd := &cobra.Command{
			Use: "answer ID [PATH] ANSWER...|--decline", Short: "Answer a tool that asks for input",
			Long: answerLong, Example: answerExamples, Args: cobra.MinimumNArgs(1),
		}
		cmd.Flags().BoolVar(&decline, "decline", false, "give no answer, and tell the tool so")
		cmd.Flags().StringVar(&by, "by", os.Getenv("USER"), "your name, for the record")
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			args, answer := splitAnswer(args)
			switch err := cli.RunArgs(cmd, args); {
			case err != nil:
				return err
			case decline && len(answer) > 0:
				return cli.Usage("give an answer or --decline, not both")
			}
			return f.UseRun(cmd.Context(), args, func(ses *cli.Session, t cli.Target) error {
				settlement := run.Settlement{As: run.SettleDecline, By: by}
				if !decline {
					settlement = run.Settlement{As: run.SettleAnswer, By: by}
				}
				return settleForm(cmd.Context(), ses, t, settlement, answer)
			})
		}
		return cmd
	})
}

// splitAnswer separates the arguments that name a run from those that are the
// answer: JSON, and fields with "=".
func splitAnswer(args []string) (place, answer []string) {
	isAnswer := func(s string) bool {
		return strings.HasPrefix(strings.TrimSpace(s), "{") || strings.Contains(s, "=")
	}
	i := slices.IndexFunc(args, isAnswer)
	if i < 0 {
		return args, nil
	}
	return args[:i], args[i:]
}

// settleForm sends a person's decision about the form of a tool. The given
// arguments are the answer of a decision that is no refusal.
func settleForm(
	ctx context.Context, ses *cli.Session, t cli.Target, settlement run.Settlement, given []string,
) error {
	held, err := ses.HeldForm(ctx, t.Tree, t.Path)
	if err != nil {
		return err
	}
	done := "declined"
	if settlement.As == run.SettleAnswer {
		done = "answered"
		if settlement.Answers, err = answersTo(held.Form, given); err != nil {
			return err
		}
	}
	settlement.Attempt = held.Form.ID
	if err := ses.Settle(ctx, t.Tree, held.Run.Path, settlement); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: %s %s: %s is %s\n", name, t.Tree, held.Run.Path, held.Tool, done)
	return nil
}

// answersTo returns the answers to a form, by the keys of its questions.
func answersTo(form *run.Form, given []string) (map[string]json.RawMessage, error) {
	if len(given) == 0 {
		return nil, cli.Usage("the answer is missing: %s (axe pending lists its fields)", form)
	}
	answers := map[string]json.RawMessage{}
	switch one := len(form.Questions) == 1; {
	case !strings.HasPrefix(strings.TrimSpace(given[0]), "{") && one:
		b, err := toolset.ParseFields(form.Questions[0], given)
		if err != nil {
			return nil, cli.Usage("%v", err)
		}
		answers[form.Questions[0].Key] = b
	case len(given) > 1 || !json.Valid([]byte(given[0])):
		return nil, cli.Usage("the answer must be one JSON object, got %s", strings.Join(given, " "))
	case one:
		answers[form.Questions[0].Key] = json.RawMessage(given[0])
	default:
		if err := json.Unmarshal([]byte(given[0]), &answers); err != nil {
			return nil, cli.Usage("the answer must be a JSON object with an object for each question: %v", err)
		}
	}
	for _, q := range form.Questions {
		if err := toolset.CheckAnswer(q, answers[q.Key]); err != nil {
			return nil, cli.Usage("%s: %v", q.Key, err)
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
		fmt.Fprintf(w, "  %s%s\n", prefix, cli.Printable(q.Text))
		if q.URL != "" {
			fmt.Fprintf(w, "    visit %s, then answer {}\n", cli.Printable(q.URL))
		}
		for _, f := range toolset.FieldsOf(q) {
			fmt.Fprintf(w, "    %s\n", cli.Printable(fieldText(f)))
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

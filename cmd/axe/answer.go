package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/cmd/internal/cli"
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
		if settlement.Answers, err = cli.AnswersTo(held.Form, given); err != nil {
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

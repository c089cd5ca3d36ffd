package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/subjects"
)

const (
	settleLong = `Settle a call of a tool that may have taken effect. Its worker began it and did
not report, and the agent's file says on_unknown = "ask". Find out whether the
call has taken effect. axe pending shows the key under which it was made. PATH
is the path of the tool run, as axe pending lists it, or of the run that made
the call, if no other call of that run waits.

  --done TEXT  It has taken effect. The model reads TEXT as its result.
  --again      It has not. The tool is called again, with the same key.
  --fail       The run that made the call fails with the kind unknown.

Of two decisions about one call the first counts. It is an error if no call
waits (any more).`

	settleExamples = `  axe pending
  axe settle 5Rt0yAkYxJ r-1-0 --done "paid, receipt 4711"
  axe settle 5Rt0yAkYxJ r-1-0 --again
  axe settle 5Rt0yAkYxJ r-1-0 --fail --reason "nobody knows" --by ann`
)

// settleFlags are the flags of axe settle.
type settleFlags struct {
	done   string
	again  bool
	fail   bool
	reason string
	by     string
}

func settleCommand() *cobra.Command {
	var f settleFlags
	cmd := &cobra.Command{
		Use: "settle ID [PATH] --done TEXT|--again|--fail", Short: "Settle a call of a tool that may have taken effect",
		Long: settleLong, Example: settleExamples,
	}
	cmd.Flags().StringVar(&f.done, "done", "", "the call has taken effect, and this is its result")
	cmd.Flags().BoolVar(&f.again, "again", false, "call the tool again")
	cmd.Flags().BoolVar(&f.fail, "fail", false, "let the run that made the call fail")
	cmd.Flags().StringVar(&f.reason, "reason", "", "with --fail: the reason")
	cmd.Flags().StringVar(&f.by, "by", os.Getenv("USER"), "your name, for the record")
	var settlement run.Settlement
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		settlement, err = f.settlement(cmd.Flags().Changed("done"))
		return err
	}
	settle := func(s *cli.Session, ctx context.Context, tree subjects.Tree, path subjects.Path) error {
		return s.Settle(ctx, tree, path, settlement)
	}
	return actionCommand("settled", cmd, settle)
}

// settlement returns the decision of the flags. Done says that --done was
// given: its text may be empty.
func (f settleFlags) settlement(done bool) (run.Settlement, error) {
	var all []run.Settlement
	if done {
		all = append(all, run.Settlement{As: run.SettleDone, Text: f.done})
	}
	if f.again {
		all = append(all, run.Settlement{As: run.SettleAgain})
	}
	if f.fail {
		all = append(all, run.Settlement{As: run.SettleFail, Text: f.reason})
	}
	switch {
	case len(all) != 1:
		return run.Settlement{}, cli.Usage("give one of --done TEXT, --again and --fail")
	case f.reason != "" && !f.fail:
		return run.Settlement{}, cli.Usage("--reason goes with --fail alone")
	}
	all[0].By = f.by
	return all[0], nil
}

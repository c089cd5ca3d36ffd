package cli

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
)

// Output is the format of a command's standard output. The zero value is text.
type Output string

const (
	outputText Output = "text"
	outputJSON Output = "json"
)

// Register adds -o, --output to a command, and its alias --json.
func (o *Output) Register(cmd *cobra.Command, help string) {
	*o = outputText
	cmd.Flags().VarP(o, "output", "o", help)
	_ = cmd.RegisterFlagCompletionFunc("output", completeWords("text", "json")) // the flag exists
	cmd.Flags().BoolFunc("json", "the same as -o json", func(text string) error {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("must be true or false")
		}
		*o = outputText
		if on {
			*o = outputJSON
		}
		return nil
	})
}

// JSON reports whether the format is JSON.
func (o *Output) JSON() bool { return *o == outputJSON }

// String returns the format.
func (o *Output) String() string { return string(*o) }

// Set parses a format.
func (o *Output) Set(text string) error {
	if f := Output(text); f == outputText || f == outputJSON {
		*o = f
		return nil
	}
	return errors.New("must be text or json")
}

// Type names the type of the value in the help.
func (*Output) Type() string { return "format" }

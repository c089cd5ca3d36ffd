package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus"
)

// KeepFlags are the flags for how long and how many trees a bus keeps.
type KeepFlags struct {
	// Time is 0 to leave the age of existing streams.
	Time keepTime
	// Bytes is 0 to leave the bound of existing streams, and negative to
	// remove it.
	Bytes keepBytes
}

// Register adds the flags to a command.
func (f *KeepFlags) Register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var(&f.Time, "keep",
		"time for which trees are kept, such as 30d; "+
			"without it existing streams stay as they are, and new ones keep trees for 7d")
	flags.Var(&f.Bytes, "keep-bytes",
		"size of all trees, such as 20GiB, from which on no new tree begins, or unlimited; "+
			"without it existing streams stay as they are")
}

// Check validates the flags. Longest is the longest time that a tree may take.
// The error is a usage error.
func (f *KeepFlags) Check(longest time.Duration) error {
	if least := bus.AgeFor(longest); f.Time > 0 && time.Duration(f.Time) < least {
		const text = "--keep must be at least %s, a quarter more than --timeout, or trees lose their history: got %s"
		return Usage(text, (*Seconds)(&least), &f.Time)
	}
	return nil
}

// keepTime is the flag --keep: a positive time.
type keepTime time.Duration

// String returns the value as Set reads it.
func (k *keepTime) String() string { return (*Seconds)(k).String() }

// Set parses a value.
func (k *keepTime) Set(text string) error {
	var s Seconds
	if err := s.Set(text); err != nil {
		return err
	}
	if s <= 0 {
		return errors.New("must be positive")
	}
	*k = keepTime(s)
	return nil
}

// Type names the type of the value in the help.
func (*keepTime) Type() string { return "seconds" }

// keepBytes is the flag --keep-bytes: a size, or unlimited.
type keepBytes int64

const unlimited = "unlimited"

// String returns the value as Set reads it.
func (k *keepBytes) String() string {
	if *k < 0 {
		return unlimited
	}
	return (*Size)(k).String()
}

// Set parses a value.
func (k *keepBytes) Set(text string) error {
	if text == unlimited {
		*k = -1
		return nil
	}
	return (*Size)(k).Set(text)
}

// Type names the type of the value in the help.
func (*keepBytes) Type() string { return "bytes" }

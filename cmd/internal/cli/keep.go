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
	if least := bus.AgeFor(longest); f.Time.Seconds > 0 && time.Duration(f.Time.Seconds) < least {
		const text = "--keep must be at least %s, a quarter more than --timeout, or trees lose their history: got %s"
		return Usage(text, (*Seconds)(&least), &f.Time)
	}
	return nil
}

// keepTime is the flag --keep: a positive time.
type keepTime struct{ Seconds }

// Set parses a value.
func (k *keepTime) Set(text string) error {
	var s Seconds
	if err := s.Set(text); err != nil {
		return err
	}
	if s <= 0 {
		return errors.New("must be positive")
	}
	k.Seconds = s
	return nil
}

// keepBytes is the flag --keep-bytes: a size, or unlimited.
type keepBytes struct{ Size }

const unlimited = "unlimited"

// String returns the value as Set reads it.
func (k *keepBytes) String() string {
	if k.Size < 0 {
		return unlimited
	}
	return k.Size.String()
}

// Set parses a value.
func (k *keepBytes) Set(text string) error {
	if text == unlimited {
		k.Size = -1
		return nil
	}
	return k.Size.Set(text)
}

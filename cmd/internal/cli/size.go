package cli

import (
	"errors"
	"strconv"
	"strings"
)

// Size is a flag for a number of bytes: 1048576, 512KiB, 64MiB, 1GiB. The value
// 0 means that the flag is not set.
type Size int64

// String returns the value in the form that Set reads.
func (s *Size) String() string {
	n := int64(*s)
	for _, u := range units() {
		if n > 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// Set parses a value.
func (s *Size) Set(text string) error {
	number, factor := text, int64(1)
	for _, u := range units() {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			number, factor = rest, u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > (1<<62)/factor {
		return errors.New("must be a number of bytes, for example 1048576 or 64MiB")
	}
	*s = Size(n * factor)
	return nil
}

// Type names the type of the value in the help.
func (*Size) Type() string { return "bytes" }

type unit struct {
	name  string
	bytes int64
}

func units() []unit { return []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} }

package cli

import (
	"errors"
	"strconv"
	"strings"
)

// Size is a flag for a number of bytes: 1048576, 512KiB, 64MiB, 1GiB. The value
// 0 means that the flag is not set.
type Size int64

// String returns the value with the largest unit that divides it, as 64MiB, or
// in plain bytes. Set parses it back, unless it is 0.
func (s *Size) String() string {
	n := int64(*s)
	for _, u := range units() {
		if n > 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// Set parses a whole number of bytes from 1 to 4 EiB, with the suffix KiB, MiB,
// GiB or none. After an error the value is unchanged.
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
		return errors.New("must be a number of bytes of at least 1, for example 1048576 or 64MiB")
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

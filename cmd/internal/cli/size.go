package cli

import (
	"errors"
	"strconv"
	"strings"
)

// Size is a number of bytes as a flag: 1048576, 512KiB, 64MiB, 1GiB. 0 leaves
// the choice to others.
type Size int64

// String is the value as it would be typed.
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
		return errors.New("want a number of bytes, for example 1048576 or 64MiB")
	}
	*s = Size(n * factor)
	return nil
}

// Type names the kind of value in a command's help.
func (*Size) Type() string { return "bytes" }

type unit struct {
	name  string
	bytes int64
}

func units() []unit { return []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} }

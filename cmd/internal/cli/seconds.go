package cli

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// Seconds is a flag for a duration: a number of seconds, or a duration like
// 2m30s. Days may come before the rest: 30d, 1d12h.
type Seconds time.Duration

// String returns the value as a duration without zero parts at its end: 2m, not
// 2m0s.
func (s *Seconds) String() string {
	text := time.Duration(*s).String()
	switch {
	case *s == 0:
		return "0"
	case strings.HasSuffix(text, "h0m0s"):
		return strings.TrimSuffix(text, "0m0s")
	case strings.HasSuffix(text, "m0s"):
		return strings.TrimSuffix(text, "0s")
	}
	return text
}

// Set parses a value.
func (s *Seconds) Set(text string) error {
	d, err := parseDays(text)
	if n, wrong := strconv.ParseInt(text, 10, 64); wrong == nil && -1<<32 < n && n < 1<<32 {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil {
		return errors.New("must be seconds, for example 120, or a duration like 2m30s or 30d")
	}
	*s = Seconds(d)
	return nil
}

// parseDays is time.ParseDuration, with days before the rest.
func parseDays(text string) (time.Duration, error) {
	number, rest, ok := strings.Cut(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	days, err := strconv.ParseUint(number, 10, 16)
	if err != nil || rest == "" {
		return time.Duration(days) * 24 * time.Hour, err
	}
	d, err := time.ParseDuration(rest)
	if d < 0 {
		return 0, strconv.ErrRange
	}
	return time.Duration(days)*24*time.Hour + d, err
}

// Type names the type of the value in the help.
func (*Seconds) Type() string { return "seconds" }

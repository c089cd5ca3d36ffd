package cli

import (
	"errors"
	"strconv"
	"time"
)

// Seconds is a flag for a duration: a number of seconds, or a duration like
// 2m30s.
type Seconds time.Duration

// String returns the value in the form that Set reads.
func (s *Seconds) String() string {
	if d := time.Duration(*s); d%time.Second != 0 {
		return d.String()
	}
	return strconv.FormatInt(int64(time.Duration(*s)/time.Second), 10)
}

// Set parses a value.
func (s *Seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, wrong := strconv.ParseInt(text, 10, 64); wrong == nil && -1<<32 < n && n < 1<<32 {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil {
		return errors.New("must be seconds, for example 120, or a duration like 2m30s")
	}
	*s = Seconds(d)
	return nil
}

// Type names the type of the value in the help.
func (*Seconds) Type() string { return "seconds" }

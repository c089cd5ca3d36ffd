package configs

import (
	"strconv"
	"strings"
)

// Error is what is wrong with one file.
type Error struct {
	File    string
	Line    int    // 0: no line in particular
	Key     string // dotted, empty: no key in particular
	Message string

	cause error
}

// Error returns "file:line: key: message", leaving out what is unknown, and the
// key where the message begins with it.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		b.WriteString(":" + strconv.Itoa(e.Line))
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	if e.Key != "" && !strings.HasPrefix(e.Message, e.Key+" ") {
		b.WriteString(e.Key + ": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Unwrap returns the file system's error, if that is what went wrong.
func (e *Error) Unwrap() error { return e.cause }

// invalid is an Error about a key whose place is not known yet.
func invalid(key, message string) *Error { return &Error{Key: key, Message: message} }

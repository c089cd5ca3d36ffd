package configs

import (
	"strconv"
	"strings"
)

// Error is the error of one file.
type Error struct {
	File string
	// Line is 0 if the error concerns no single line.
	Line int
	// Key is dotted. It is empty if the error concerns no single key.
	Key     string
	Message string

	cause error
}

// Error returns "file:line: key: message". It leaves out unknown parts, and the
// key if the message begins with the key.
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

// Unwrap returns the file system's error, or nil.
func (e *Error) Unwrap() error { return e.cause }

// invalid returns an Error about a key. The document adds file and line.
func invalid(key, message string) *Error { return &Error{Key: key, Message: message} }

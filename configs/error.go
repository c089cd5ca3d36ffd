package configs

import (
	"errors"
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
	prefix := e.File
	if e.Line > 0 {
		prefix += ":" + strconv.Itoa(e.Line)
	}
	if prefix != "" {
		prefix += ": "
	}
	if e.Key != "" && !strings.HasPrefix(e.Message, e.Key+" ") {
		prefix += e.Key + ": "
	}
	return prefix + e.Message
}

// ErrSyntax is wrapped by the error of a file that is not TOML.
var ErrSyntax = errors.New("not TOML")

// Unwrap returns the file system's error, ErrSyntax, or nil.
func (e *Error) Unwrap() error { return e.cause }

// invalid returns an Error about a key. The document adds file and line.
func invalid(key, message string) *Error { return &Error{Key: key, Message: message} }

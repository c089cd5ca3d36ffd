package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/axebus/axe/bus"
)

// TestLargeArguments: arguments above the bound are refused as such. They are
// not cut to JSON that is wrong.
func TestLargeArguments(t *testing.T) {
	const object = `{"order": "7"}`
	for _, arg := range []string{object, "-"} {
		got, err := argumentsOf([]string{arg}, strings.NewReader(object), int64(len(object)))
		if string(got) != object || err != nil {
			t.Errorf("arguments %s: got %s, error %v", arg, got, err)
		}
		_, err = argumentsOf([]string{arg}, strings.NewReader(object), int64(len(object))-1)
		const want = "the arguments have more than 13 bytes"
		if !errors.Is(err, bus.ErrTooLarge) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("arguments %s: got error %v, want %q", arg, err, want)
		}
	}
}

package provider

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRequired: Required returns the required parameters, sorted.
func TestRequired(t *testing.T) {
	tool := Tool{Parameters: map[string]ToolParameter{
		"task": {Required: true}, "context": {}, "agent": {Required: true}, "zone": {Required: true},
	}}
	// Go ranges over maps in another order each time.
	for range 20 {
		if diff := cmp.Diff([]string{"agent", "task", "zone"}, tool.Required()); diff != "" {
			t.Fatalf("Required() (-want +got):\n%s", diff)
		}
	}
	if got := (Tool{}).Required(); len(got) != 0 {
		t.Errorf("a tool without parameters requires %q, want none", got)
	}
}

func TestUsageAdd(t *testing.T) {
	one := Usage{InputTokens: 10, OutputTokens: 2, CachedTokens: 5}
	got := one.Add(Usage{InputTokens: 1, OutputTokens: 1, CachedTokens: 1})
	if want := (Usage{InputTokens: 11, OutputTokens: 3, CachedTokens: 6}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestError: the text of an error has its category, its status if there is one,
// and its message. It wraps its cause.
func TestError(t *testing.T) {
	cause := &Error{Category: Server, Status: 502, Message: "bad gateway", Err: io.ErrUnexpectedEOF}
	err := fmt.Errorf("turn 1: %w", cause)
	if got, want := err.Error(), "turn 1: server (HTTP 502): bad gateway"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v does not wrap the cause", err)
	}
	if got, want := (&Error{Category: Auth, Message: "no key"}).Error(), "auth: no key"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

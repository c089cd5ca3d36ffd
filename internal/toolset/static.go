package toolset

import (
	"context"
	"fmt"
)

// static is the part of a set with tools that never change, and nothing to
// close.
type static struct{ tools []Tool }

// Tools returns the tools.
func (s static) Tools(context.Context) ([]Tool, error) { return s.tools, nil }

// Changed returns a channel that has no token.
func (static) Changed() <-chan struct{} { return nil }

// Close does nothing.
func (static) Close() {}

func noTool(name string) error { return fmt.Errorf("the toolset has no tool %q", name) }

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// Artifact is an artifact of a tree.
type Artifact struct {
	run.Artifact
	// Stored is the time of the outcome that names the artifact.
	Stored time.Time `json:"stored"`
}

// Artifacts lists the artifacts of a tree, in the order in which the tool runs
// that made them ended. The tree may be at work. Artifacts reads every outcome
// in the tree, so that it lists more than the outcome of the root can name. The
// error wraps ErrUnknownTree.
func (c *Client) Artifacts(ctx context.Context, tree subjects.Tree) ([]Artifact, error) {
	if _, err := c.find(ctx, tree); err != nil {
		return nil, err
	}
	var all []Artifact
	seen := map[string]bool{}
	space := c.conn.Space()
	for m, err := range c.conn.Scan(ctx, space.TreeOf(tree), 0) {
		if err != nil {
			return all, fmt.Errorf("tree %s: %w", tree, err)
		}
		at, err := space.Parse(m.Subject)
		if err != nil || at.Kind != subjects.Reply || m.IsAnswer() {
			continue
		}
		body, err := c.runs.Load(ctx, m)
		if err != nil {
			return all, fmt.Errorf("%s: %w", m.Subject, err)
		}
		o, err := run.DecodeOutcome(body)
		if err != nil || o.Tool == "" {
			continue // the outcome of an agent repeats those of its tools
		}
		counts, err := c.counts(ctx, at, o, m)
		if err != nil {
			return all, err
		}
		if !counts {
			continue
		}
		for _, a := range o.Artifacts {
			if !seen[a.Name] {
				seen[a.Name] = true
				all = append(all, Artifact{a, m.Origin().Time})
			}
		}
	}
	return all, nil
}

// CopyArtifact writes the bytes of an artifact of a tree to w, a few MiB at a
// time. After an error w has a part of them. The error wraps ErrUnknownTree, or
// ErrUnknownArtifact if the tree has no artifact under the name, or has it no
// more. An error of w is returned as it is.
func (c *Client) CopyArtifact(ctx context.Context, w io.Writer, tree subjects.Tree, name string) error {
	stored := bus.ArtifactsOf(c.conn, tree)
	a, err := stored.Find(ctx, name)
	if err == nil {
		err = stored.Copy(ctx, w, a)
	}
	if !errors.Is(err, bus.ErrNoArtifact) {
		return err
	}
	if _, err := c.find(ctx, tree); err != nil {
		return err
	}
	return fmt.Errorf("%w: tree %s has none with the name %q", ErrUnknownArtifact, tree, name)
}

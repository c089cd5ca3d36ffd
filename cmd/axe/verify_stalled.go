package main

import (
	"context"
	"fmt"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/verify"
	"github.com/axebus/axe/subjects"
)

// checkedTrees is the output of axe verify.
type checkedTrees struct {
	verify.Report
	// Stalled are runs that need a worker and have none, of the trees under
	// way that the verdict names.
	Stalled []stalledRun `json:"stalled,omitempty"`
}

// stalledRun is a run that no worker goes on with.
type stalledRun struct {
	Tree   subjects.Tree  `json:"tree"`
	Path   subjects.Path  `json:"path"`
	Agent  subjects.Agent `json:"agent"`
	Reason string         `json:"reason"`
}

func (s stalledRun) String() string {
	return fmt.Sprintf("stalled tree %s %s %s: %s", s.Tree, s.Path, s.Agent, s.Reason)
}

// stalledRuns lists the runs that no worker goes on with, of the first trees
// under way.
func stalledRuns(ctx context.Context, c *client.Client, r verify.Report) (all []stalledRun, _ error) {
	for _, id := range r.UnderWayTrees[:min(len(r.UnderWayTrees), shownUnderWay)] {
		tree, err := subjects.ParseTree(id)
		if err != nil {
			return nil, err
		}
		events, err := c.Stalls(ctx, tree)
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			all = append(all, stalledRun{tree, e.Run.Path, e.Run.Agent, e.Reason})
		}
	}
	return all, nil
}

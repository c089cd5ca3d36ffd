package run_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

// modelTree is a run with a model and the runs below it.
type modelTree struct {
	model string
	own   provider.Usage
	below []modelTree
}

// drawModelTree draws a tree of runs that use three models.
func drawModelTree(t *rapid.T, depth int) modelTree {
	tree := modelTree{
		model: rapid.SampledFrom([]string{"a/1", "a/2", "b/1"}).Draw(t, "model"),
		own: provider.Usage{
			InputTokens: rapid.IntRange(0, 9).Draw(t, "input"), OutputTokens: rapid.IntRange(0, 9).Draw(t, "output"),
			CachedTokens: rapid.IntRange(0, 9).Draw(t, "cached"),
		},
	}
	for range rapid.IntRange(0, depth).Draw(t, "children") {
		tree.below = append(tree.below, drawModelTree(t, depth-1))
	}
	return tree
}

// outcome sums a tree as the worker of each run does.
func (m modelTree) outcome() run.Outcome {
	sum := run.Totals{Usage: m.own, Runs: 1}
	for _, b := range m.below {
		sum = sum.AddBelow(m.model, b.outcome())
	}
	return run.Outcome{Model: m.model, Subtree: sum}
}

// add counts the tokens of each model.
func (m modelTree) add(to map[string]provider.Usage) {
	if m.own != (provider.Usage{}) {
		to[m.model] = to[m.model].Add(m.own)
	}
	for _, b := range m.below {
		b.add(to)
	}
}

// TestByModel: the totals of a tree divide its tokens by model, however the
// models are spread over its runs. Totals that were summed before stay as they
// are.
func TestByModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		tree := drawModelTree(rt, 3)
		want := map[string]provider.Usage{}
		tree.add(want)
		o := tree.outcome()
		if diff := cmp.Diff(want, o.Subtree.ByModel(o.Model)); diff != "" {
			rt.Fatalf("tokens by model (-want +got):\n%s", diff)
		}
		first := tree.outcome()
		before := cmp.Diff(run.Totals{}, first.Subtree)
		first.Subtree.AddBelow("c/1", o)
		if after := cmp.Diff(run.Totals{}, first.Subtree); after != before {
			rt.Fatalf("a sum has changed: %s, before %s", after, before)
		}
	})
}

// TestOneModel: the outcome of a run has no Others while all runs use one
// model.
func TestOneModel(t *testing.T) {
	t.Parallel()
	leaf := run.Outcome{Model: "a/1", Subtree: run.Totals{Usage: provider.Usage{InputTokens: 5}}}
	failed := run.Outcome{Subtree: run.Totals{Runs: 1}} // before its first turn
	sum := run.Totals{Usage: provider.Usage{InputTokens: 1}}.AddBelow("a/1", leaf).AddBelow("a/1", failed)
	if sum.Others != nil {
		t.Errorf("others are %v, want none", sum.Others)
	}
}

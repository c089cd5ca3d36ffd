package bench

import (
	"context"
	"errors"

	"github.com/axebus/axe/bus/busbench"
)

// signed compares leaves, and parents with one child, of a worker that signs
// its outcomes and requires signatures with those of one that does neither.
func signed(ctx context.Context, s *testbed) (ms []Metric, err error) {
	grant, err := busbench.StoreGrant(ctx, s.conn)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, grant.Remove(ctx)) }()
	sign := func(o *processConfig) { o.Signers, o.SignSeed = []string{grant.Signer}, grant.Seed }
	leaf, many := &pair{do: s.leafOf}, &pair{do: s.leafOf, size: 2 * s.cfg.Slots}
	parent := &pair{do: func(ctx context.Context, agent string) error {
		_, err := s.tree(ctx, parentOf(agent))
		return err
	}}
	if err := s.comparePairs(ctx, sign, leaf, parent); err != nil {
		return nil, err
	}
	if err := s.comparePairs(ctx, sign, many); err != nil {
		return nil, err
	}
	return []Metric{
		count("outcomes with a signature", float64(s.signatures.Load())),
		duration("a leaf without signature, p50", leaf.off.quantile(.5)),
		duration("signed, p50", leaf.on.quantile(.5)),
		quotient("latency of a leaf signed, of that without", &leaf.on, &leaf.off).atMost(1.25),
		quotient("latency of a parent and its leaf signed and checked, of that without", &parent.on, &parent.off).
			atMost(1.25),
		quotient("rate signed, of that without", &many.off, &many.on).atLeast(.8),
		ratio("CPU time of the worker for a leaf signed, of that without", many.cpu()),
	}, nil
}

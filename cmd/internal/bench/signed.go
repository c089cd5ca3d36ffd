package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/axebus/axe/bus/busbench"
)

// signed compares leaves, and parents with one child, of a worker that signs
// its outcomes and requires signatures with those of one that does neither, in
// turn.
func signed(ctx context.Context, s *testbed) ([]Metric, error) {
	grant, err := busbench.NewGranted(s.conn)
	if err != nil {
		return nil, fmt.Errorf("%w: this workload needs a server of its own", err)
	}
	var leaf, parent, many [2]runner // unsigned, signed
	for range minRounds {
		for on := range leaf {
			leaf[on].do, parent[on].do, many[on].do = s.leaf, s.calls("parent"), s.leaf
			o := s.workerConfig(false)
			if on == 1 {
				o.Signers, err = []string{grant.Signer}, grant.Store(ctx)
			} else {
				err = grant.Remove(ctx)
			}
			if err == nil {
				err = s.replaceWorkers(ctx, 1, o)
			}
			if err == nil {
				err = s.compare(ctx, 1, &leaf[on])
			}
			if err == nil {
				err = s.compare(ctx, 1, &parent[on])
			}
			if err == nil {
				err = s.compare(ctx, s.cfg.Slots, &many[on])
			}
			if err != nil {
				return nil, errors.Join(err, grant.Remove(ctx))
			}
		}
	}
	cpu := func(r runner) float64 { return r.perRun(r.used.workers.CPU.Seconds()) }
	return []Metric{
		count("outcomes with a signature", float64(s.signatures.Load())),
		duration("a leaf without signature, p50", leaf[0].quantile(.5)),
		duration("signed, p50", leaf[1].quantile(.5)),
		quotient("latency of a leaf signed, of that without", &leaf[1], &leaf[0]).atMost(1.25),
		quotient("latency of a parent and its leaf signed and checked, of that without", &parent[1], &parent[0]).
			atMost(1.25),
		ratio("rate signed, of that without", many[1].rate()/many[0].rate()).atLeast(.8),
		ratio("CPU time of the worker for a leaf signed, of that without", cpu(many[1])/cpu(many[0])),
	}, grant.Remove(ctx)
}

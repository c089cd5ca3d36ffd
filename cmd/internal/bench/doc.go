// Package bench measures the cost of runs beyond their model calls: leaves,
// fan-outs, trees, conversations and idle children. It compares leaves and
// trees with raw durable request and reply on the same server. The rounds of a
// workload and of its raw counterpart alternate.
//
// A worker, the model behind HTTP and the benchmark's own NATS server each run
// in a process of this program. The first line of a process's standard input
// configures it. So the processor time and the memory of each are known, and a
// worker shares nothing with the submitter. All subjects lie under prefixes of
// the benchmark's own. Run removes their streams at its end.
//
//	report, err := bench.Run(ctx, cfg)
//	report.Text(os.Stdout)
package bench

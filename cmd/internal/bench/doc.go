// Package bench measures the cost of runs beyond their model calls: leaves,
// fan-outs, trees, conversations and idle children. Leaves and trees are
// compared with raw durable request and reply on the same server. Both are
// measured in turn.
//
// A worker, the model behind HTTP and the benchmark's own NATS server are each
// a process: this program again, configured by a line on its standard input. So
// their processor time and memory are known, and a worker shares nothing with
// the submitter. All subjects lie under prefixes of the benchmark's own. Their
// streams are removed at the end.
//
//	report, err := bench.Run(ctx, cfg)
//	report.Text(os.Stdout)
package bench

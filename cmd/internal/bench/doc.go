// Package bench measures what runs cost beyond their model calls, on a bus:
// leaves, fan-outs, trees, conversations and idle children, each against raw
// durable request and reply on the same server, in turn with it.
//
// Workers, raw servers, the model that is asked over HTTP and, if there is no
// other, the NATS server are processes of their own (parts): this program
// again, told what to be by a line on its standard input. So their processor
// time and memory are known, and a worker shares nothing with who submits.
// Everything lies under a subject prefix of its own and is removed at the end.
//
//	report, err := bench.Run(ctx, bench.Config{Progress: os.Stderr})
//	report.Text(os.Stdout)
package bench

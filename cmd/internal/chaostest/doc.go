// Package chaostest runs real processes under random faults, drawn from a seed.
// It checks the promises of the project: every tree of agents ends once, with
// the right answer, and no crash loses or repeats work.
//
// The package has only tests. TestChaos has a scenario for each kind of fault.
// Each scenario has these parts:
//
//	pool      agentd processes, replaced as soon as they end
//	servers   one NATS server or a cluster of three, each a process with a
//	          store and a port that last
//	proxies   between some workers and the server, to cut and delay connections
//	model     an HTTP server that speaks as Ollama does, and records which
//	          worker asked which turn of which tree, and when
//	load      trees of 1+3+9 runs, submitted under ids of their own until the
//	          server has taken them
//	schedule  the faults, their targets and times, drawn from the seed alone
//
// At the end the test reads the stream, and compares the stored turns with the
// requests to the model. A turn may be asked again only if a fault struck the
// worker that asked first, or the worker that asks again.
//
//	make chaos                                every scenario: 1,000 trees, or a part
//	make chaos CHAOS=zombies TREES=200        one scenario
//	AXE_CHAOS_SEED=7 make chaos CHAOS=both    the same schedule again
//
// AXE_CHAOS_LOGS names a directory for the whole output of the processes.
// Otherwise the last of it is printed when a scenario fails.
package chaostest

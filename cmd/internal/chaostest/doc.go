// Package chaostest runs real processes under random faults, drawn from a seed,
// and holds them to what the project promises: every tree of agents ends, once,
// with the right answer, and no crash loses or repeats what was done.
//
// There is nothing but tests here. TestChaos has a scenario for each kind of
// fault; each has
//
//	crew      agentd processes, replaced as soon as they end
//	servers   one NATS server or a cluster of three, each a process on a store and a port that last
//	proxies   between some workers and the server, to cut and hold up connections
//	model     an Ollama that counts who asked which turn of which tree, and when
//	load      trees of 1+3+9 runs, submitted under ids of their own until the server has taken them
//	schedule  what is done to whom and when: it follows from the seed alone
//
// In the end the stream is read: what it holds of each turn, and when, is set
// against what the model was asked. A turn may be asked again only if a fault
// hit who had asked before, or who asks again.
//
//	make chaos                                every scenario with 1,000 trees
//	make chaos CHAOS=zombies TREES=200        one of them
//	AXE_CHAOS_SEED=7 make chaos CHAOS=both    a schedule again
//
// AXE_CHAOS_LOGS names a directory for all that the processes have logged;
// otherwise the last of it is printed when a scenario fails.
package chaostest

// Package agentd is the worker. It takes triggers (delivered messages), folds
// the runs that they belong to, carries out the effects that those runs owe,
// and acknowledges only then. Between turns it keeps nothing that matters: its
// cache may be dropped at any time.
//
// The invariant it keeps: an effect is carried out only by the holder of the
// message that the folded state names as its owner, and every log entry and
// every outcome is fenced by the run's log. Two more messages let their holders
// act. The firing of a run's own timer ends the run, or polls its server task,
// and its holder carries out what an ended run owes. The firing of the timer
// that its last turn waits for ends that wait. So any number of workers may
// hold the same run, die at any step, or come back from the dead.
//
//	w, err := agentd.New(conn, agentd.Config{Name: "w1", Open: catalog.Open})
//	err = w.Serve(configs.Definitions{Agents: agents}) // after each change
//	err = w.Run(ctx)      // drains when ctx ends
package agentd

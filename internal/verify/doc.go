// Package verify checks a stream of runs against the rules that hold for it. It
// is pure: a program feeds it the stream's messages in their order, and asks
// for a report as of a moment.
//
// The invariant it keeps: a violation is something that no worker writes,
// whichever worker died, froze or got a message twice. Anything that a race can
// explain, and anything that the stream cannot decide, is a note.
//
//	c := verify.New(verify.Config{Slack: 5 * time.Second})
//	for m := range stream {
//		c.Add(m)
//	}
//	report := c.Report(time.Now())
//
// Runs are decoded and folded as workers do it (agentd/run). The effects that a
// fold owes at a message say whether that message may be there. Of each run
// only the fold is kept, without the texts.
package verify

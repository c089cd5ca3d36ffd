// Package verify checks a stream of runs against the rules that hold for it. It
// is pure: it is fed the stream's messages in their order, and asked what it
// found as of a moment.
//
// The invariant it keeps: a violation is something that no worker writes,
// whatever died, froze or came twice. What a race can explain, and what cannot
// be decided from the stream, is a note.
//
//	c := verify.New(verify.Config{Slack: 5 * time.Second})
//	for m := range stream {
//		c.Add(m)
//	}
//	report := c.Report(time.Now())
//
// Runs are folded by the state machine that workers use (agentd/run), and what
// the fold owes at a message says whether that message may be there. Of a run
// only its fold is kept, without the texts.
package verify

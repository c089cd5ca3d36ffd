// Package client is the submitter's side of the bus: it publishes a task, waits
// for the outcome of its tree, follows what the tree does, writes to its runs,
// and cancels it. It carries no worker.
//
// The invariant it keeps: a submission is what a bare `nats pub
// axe.submit.<agent>.<id> TEXT` would send, and everything it tells is read
// from stored messages, so that a submitter may go away at any time and another
// one, which knows the id alone, goes on. What is republished live only says
// when to read.
//
//	c := client.New(conn)
//	tree, err := c.Submit(ctx, client.Task{Agent: lead, Text: "Review this."})
//	outcome, err := c.Wait(ctx, tree)
package client

import (
	"errors"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/history"
)

var (
	// ErrUnknownTree says that there is no such tree: neither a submission
	// nor a run nor a result.
	ErrUnknownTree = errors.New("unknown tree id")
	// ErrUnknownRun says that a tree has no run of a path: it was not
	// called, or not yet.
	ErrUnknownRun = errors.New("unknown run")
	// ErrEnded says that a run cannot be cancelled or written to, since it
	// has an outcome.
	ErrEnded = errors.New("has ended already")
	// ErrNotCalled says that a tree cannot be written to yet, since no
	// worker has taken it.
	ErrNotCalled = errors.New("has not begun: no worker has taken it yet")
	// ErrBadMail says that a message cannot be sent as it is.
	ErrBadMail = errors.New("not a message")
	// ErrCancelled says that a run was cancelled before.
	ErrCancelled = errors.New("was cancelled already")
	// ErrOtherAgent says that an id is taken by the tree of another agent.
	ErrOtherAgent = errors.New("the id is that of another agent's tree")
)

const (
	// poll is how often storage is read though no live message said so:
	// those are at-most-once.
	poll = 2 * time.Second
	// patience is how long a tree may be nowhere to be seen before it is
	// unknown, and how often it is looked for meanwhile: a follower that
	// answers a read may lag.
	patience     = 2 * time.Second
	patiencePoll = 250 * time.Millisecond
)

// Client submits and watches trees on one connection. It is safe for concurrent
// use.
type Client struct {
	conn *bus.Conn
	runs history.Reader
}

// New makes a client of an open connection, which stays the caller's to close.
func New(conn *bus.Conn) *Client { return &Client{conn, history.New(conn)} }

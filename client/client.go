// Package client is the Go library for programs that submit tasks to agents and
// watch over the runs that follow. A [Client] submits a task, waits for its
// outcome, follows every event of the tree, writes to runs, interrupts and
// cancels them, and decides on turns that are held for a person. A client runs
// no worker.
//
// The package keeps one invariant: a client has no state of its own. A
// submission is the message that `nats pub axe.submit.<agent>.<id> TEXT` sends,
// and every answer is read from stored messages. So a submitter may exit at any
// time, and another process that knows the tree's id continues in its place.
// Live copies of messages only say that there is something new to read, and
// live events only report progress.
//
//	c := client.New(conn)
//	tree, err := c.Submit(ctx, client.Task{Agent: lead, Text: "Review this."})
//	...
//	outcome, err := c.Wait(ctx, tree)
package client

import (
	"errors"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/history"
	"github.com/axebus/axe/subjects"
)

// The errors that callers tell apart with errors.Is.
var (
	// ErrUnknownTree is returned for a tree id without a submission, a run
	// or an outcome.
	ErrUnknownTree = errors.New("unknown tree id")
	// ErrRemoved is returned for a tree whose messages were removed from
	// the stream while the client waited for it.
	ErrRemoved = errors.New("the tree is lost: its messages were removed from the stream")
	// ErrNeverTaken is returned for a task whose submission was removed
	// before a worker took it.
	ErrNeverTaken = errors.New("the task was removed from the bus before a worker took it")
	// ErrOverdue is returned for a tree that has no outcome 15 seconds
	// after its deadline. Workers end a tree at its deadline.
	ErrOverdue = errors.New("no outcome after the deadline: no worker ends the tree")
	// ErrUnknownRun is returned for a path that was not called, or not yet.
	ErrUnknownRun = errors.New("unknown run")
	// ErrUnknownTurn is returned for a turn that the run did not take, or
	// not yet.
	ErrUnknownTurn = errors.New("unknown turn")
	// ErrUnknownDeadLetter is returned for an id that no dead letter has.
	ErrUnknownDeadLetter = errors.New("unknown dead letter")
	// ErrUnknownArtifact is returned for a name under which a tree has no
	// artifact.
	ErrUnknownArtifact = errors.New("unknown artifact")
	// ErrKeptTooShort is returned for a task with a timeout for which the
	// bus does not keep messages long enough: see bus.AgeFor.
	ErrKeptTooShort = errors.New("the bus does not keep messages for the time of the tree")
	// ErrAtWork is returned for a tree of which some run may still move.
	ErrAtWork = errors.New("the tree is at work")
	// ErrNotStarted is returned for a submission that no worker has taken
	// yet: it has no run to write to.
	ErrNotStarted = errors.New("not started: no worker has taken the task yet")
	// ErrEnded is returned for a run that has an outcome.
	ErrEnded = errors.New("run already ended")
	// ErrCancelled is returned for a run that has a cancel message and no
	// outcome yet.
	ErrCancelled = errors.New("run already cancelled")
	// ErrNotHeld is returned for a decision about a run that does not wait
	// for one.
	ErrNotHeld = errors.New("run is not held for approval")
	// ErrNotApprover is returned for a decision about a run of an agent
	// that names its approvers, by a user that is none of them.
	ErrNotApprover = errors.New("the agent does not count decisions of this user")
	// ErrNoArguments is returned for an approval with arguments for a call
	// that is no call of a tool, or was refused.
	ErrNoArguments = errors.New("there is no call of a tool with this number")
	// ErrNothingToSettle is returned for a decision about a call of a tool
	// that no person has to settle.
	ErrNothingToSettle = errors.New("no call of a tool waits for a person")
	// ErrSettledOtherwise is returned for an answer to a call that may have
	// taken effect. It is returned too for any other decision about a tool
	// that asks for input.
	ErrSettledOtherwise = errors.New("the call is not settled so")
	// ErrManyToSettle is returned for a decision about a run of which
	// several calls of tools wait for a person.
	ErrManyToSettle = errors.New("several calls of tools wait for a person")
	// ErrNoMail is returned for a message to a run that would never read
	// it.
	ErrNoMail = errors.New("run cannot read mail")
	// ErrInvalidMessage is returned for a text or a sender's name that
	// cannot be sent to a run.
	ErrInvalidMessage = errors.New("invalid message")
	// ErrIDTaken is returned for a task with the id of another agent's
	// tree.
	ErrIDTaken = errors.New("id is taken by a tree of another agent")
	// ErrIDReused is returned for a task with the id of a tree of the same
	// agent that was submitted with another text or another budget.
	ErrIDReused = errors.New("id was submitted before")
)

const (
	// pollInterval is the time between two reads of storage without a live
	// message in between. Live messages are delivered at most once.
	pollInterval = 2 * time.Second
	// restrictedInterval is the same for a user that gets no live messages.
	restrictedInterval = 200 * time.Millisecond
	// lookupTimeout bounds the search for a tree that is not found. The
	// server that answers a read may lag behind the stream's leader.
	lookupTimeout = 2 * time.Second
	// lookupInterval is the pause between two lookups of one search.
	lookupInterval = 250 * time.Millisecond
)

// Client submits, follows and steers trees over one connection. It is safe for
// concurrent use.
type Client struct {
	conn *bus.Conn
	runs history.Reader
}

// New returns a client of an open connection. The caller closes the connection.
func New(conn *bus.Conn) *Client { return &Client{conn, history.New(conn)} }

// interval is the time between two reads of storage without a live message in
// between.
func (c *Client) interval() time.Duration {
	if bus.Restricted(c.conn) {
		return restrictedInterval
	}
	return pollInterval
}

// describe names a run for an error message.
func describe(r subjects.Run) string {
	if r.Path.IsRoot() {
		return "tree " + r.Tree.String()
	}
	return "run " + r.Path.String() + " of tree " + r.Tree.String()
}

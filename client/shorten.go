package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// AmbiguousError is the error of the beginning of an id that several trees
// have.
type AmbiguousError struct {
	Prefix string
	// Trees are candidates, at most 10 of them, sorted by id.
	Trees []TreeName
}

// TreeName is a tree with its agent.
type TreeName struct {
	Tree  subjects.Tree
	Agent subjects.Agent
}

// Error lists the candidates.
func (e *AmbiguousError) Error() string {
	var names []string
	for _, t := range e.Trees {
		names = append(names, fmt.Sprintf("%s (%s)", t.Tree, t.Agent))
	}
	return fmt.Sprintf("several ids begin with %s: %s", e.Prefix, strings.Join(names, ", "))
}

const (
	// maxCandidates bounds the candidates of an AmbiguousError.
	maxCandidates = 10
	// minShort is the least length of a shortened id.
	minShort = 2
	// madeLength is the length of an id that Submit makes.
	madeLength = 22
)

// Resolve returns the tree that an id names, or the beginning of an id that no
// other tree has. It looks at the trees at work and at the 10,000 newest. Made
// leaves out ids that a person has chosen: a command that changes something, or
// hands trees on, must not take order12 for order1. The error is an
// *AmbiguousError if several ids begin so. A tree that is not found is returned
// as it is, and so is each for a user that may not list trees.
func (c *Client) Resolve(ctx context.Context, id subjects.Tree, made bool) (subjects.Tree, error) {
	if err := c.conn.Provisioned(ctx); err != nil {
		return id, err
	}
	f, err := c.lookup(ctx, id)
	short := id.String()
	if err != nil || !f.root.Agent.IsZero() || len(short) < minShort || bus.Restricted(c.conn) {
		return id, err
	}
	var found []TreeName
	for t, err := range names(ctx, c) {
		if err != nil {
			return id, err
		}
		fits := strings.HasPrefix(t.Tree.String(), short) && (!made || len(t.Tree.String()) == madeLength)
		if fits && !slices.Contains(found, t) {
			if found = append(found, t); len(found) == maxCandidates {
				break
			}
		}
	}
	switch len(found) {
	case 0:
		return id, nil
	case 1:
		return found[0].Tree, nil
	}
	slices.SortFunc(found, func(a, b TreeName) int { return cmp.Compare(a.Tree.String(), b.Tree.String()) })
	return id, &AmbiguousError{short, found}
}

// Names yields the trees at work, and the newest, at most n of each. A tree may
// come twice.
func (c *Client) Names(ctx context.Context, n int) ([]TreeName, error) {
	if err := c.conn.Provisioned(ctx); err != nil {
		return nil, err
	}
	var all []TreeName
	for t, err := range names(ctx, c) {
		if err != nil || len(all) == n {
			return all, err
		}
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all, nil
}

// names yields the trees at work, those of submissions, and the newest.
func names(ctx context.Context, c *Client) iter.Seq2[TreeName, error] {
	l := &treeList{c: c}
	space := c.conn.Space()
	return func(yield func(TreeName, error) bool) {
		queued, _, err := bus.QueuedSubmissions(ctx, c.conn, maxCandidates)
		if err != nil && !errors.Is(err, bus.ErrNoStream) {
			yield(TreeName{}, err)
			return
		}
		for _, cand := range l.submitted(queued) {
			if !yield(TreeName{cand.root.Tree, cand.root.Agent}, nil) {
				return
			}
		}
		for _, seq := range []iter.Seq2[candidate, error]{
			l.found(bus.NewestOf(ctx, c.conn, space.RootTimers(l.q.Agent), time.Time{}), subjects.Timer),
			l.found(bus.Newest(ctx, c.conn, space.RootCalls(l.q.Agent), time.Time{}), subjects.Call),
		} {
			for cand, err := range first(seq, maxLooked) {
				if !yield(TreeName{cand.root.Tree, cand.root.Agent}, err) || err != nil {
					return
				}
			}
		}
	}
}

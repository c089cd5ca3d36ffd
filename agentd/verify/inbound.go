package verify

import "github.com/axebus/axe/agentd/run"

// timer folds a timer that fired. Timers cannot be fenced: one that fires for nobody is nothing.
func (c *Checker) timer(n *node, turn int, m Message) {
	n.triggers = append(n.triggers, m.Seq)
	n.overdue = n.overdue || turn == 0
	if turn > 0 && turn == len(n.state.Turns) && !n.broken {
		for _, child := range n.unpublished() {
			c.violate(n, m.Seq, FanOut, "call %d of turn %d, of %s, timed out without having been published", child.Index, turn, child.Call.Agent)
		}
	}
	c.apply(n, run.TimedOut{Meta: meta(m), Turn: turn}, m)
}

// cancel folds a tombstone: of the run, and over all runs below it.
func (c *Checker) cancel(n *node, m Message) {
	n.triggers = append(n.triggers, m.Seq)
	if _, before := n.tree.tombs[n.path]; !before {
		n.tree.tombs[n.path] = m.Seq
	}
	if n.cancel == 0 {
		n.cancel = m.Seq
	}
	c.apply(n, run.Cancelled{Meta: meta(m)}, m)
}

package chaostest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// kept is where a turn's answer is on the stream.
type kept struct {
	worker string
	at     time.Time
	kind   run.Kind // of a failed outcome
}

// record is what the stream says of all trees.
type record struct {
	space subjects.Space
	calls map[subjects.Run]call
	// by the subject they were to go to
	outcomes map[string][]kept
	turns    map[turnKey]kept
	letters  map[subjects.Tree]letters
	dead     []string
	all      []bus.Stored
}

// tell is what the stream has of the tree of a run.
func (r *record) tell(label string) string {
	var b strings.Builder
	tree, _, _ := strings.Cut(label, ".")
	for _, m := range r.all {
		if strings.Contains(m.Subject, "."+tree) {
			fmt.Fprintf(&b, "%6d %s %s %s\n", m.Seq, m.Time.Format("15:04:05.000"), m.Subject, m.Body)
		}
	}
	return b.String()
}

// letters is what a tree's runs have written to each other.
type letters struct{ all, doubled int }

type call struct {
	label, reply string
	at           time.Time
}

// readRecord reads the stream from its beginning.
func readRecord(ctx context.Context, conn *bus.Conn) (*record, error) {
	ms, err := conn.ReadByScan(ctx, conn.Space().All(), 0)
	if err != nil {
		return nil, err
	}
	r := &record{
		space:    conn.Space(),
		calls:    map[subjects.Run]call{},
		outcomes: map[string][]kept{},
		turns:    map[turnKey]kept{},
		letters:  map[subjects.Tree]letters{},
		all:      ms,
	}
	seen := map[string]bool{}
	for _, m := range ms {
		if err := r.take(m); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Subject, err)
		}
		if at, err := r.space.Parse(m.Subject); err == nil && at.Kind == subjects.Mail {
			l := r.letters[at.Run.Tree]
			if l.all++; seen[m.Subject] {
				l.doubled++
			}
			r.letters[at.Run.Tree] = l
			seen[m.Subject] = true
		}
	}
	return r, nil
}

func (r *record) take(m bus.Stored) error {
	at, err := r.space.Parse(m.Subject)
	// a dead letter or an armed timer
	if err != nil {
		if m.Header.Get("Axe-Reason") != "" {
			r.dead = append(r.dead, m.Subject+": "+m.Header.Get("Axe-Reason"))
		}
		return nil
	}
	switch at.Kind { //nolint:exhaustive // the others say nothing of a turn
	case subjects.Call:
		var in run.Input
		if err := json.Unmarshal(m.Body, &in); err != nil {
			return err
		}
		r.calls[at.Run] = call{in.Task, m.Header.Get(subjects.HeaderReply), m.Time}
	case subjects.Log:
		e, err := run.DecodeEntry(m.Body)
		if err != nil {
			return err
		}
		r.turns[turnKey{r.calls[at.Run].label, e.Index}] = kept{worker: e.Worker, at: m.Time}
	case subjects.Reply, subjects.Result:
		o, err := run.DecodeOutcome(m.Body)
		if err != nil {
			return err
		}
		r.outcomes[m.Subject] = append(r.outcomes[m.Subject], kept{o.Worker, m.Time, o.Kind})
		return r.lastTurn(o, at, m)
	}
	return nil
}

// lastTurn notes the last turn of a run, whose answer its outcome is. The first
// outcome counts.
func (r *record) lastTurn(o run.Outcome, at subjects.Address, m bus.Stored) error {
	if len(r.outcomes[m.Subject]) > 1 || o.Turns == 0 {
		return nil
	}
	agent, err := subjects.ParseAgent(o.Agent)
	if err != nil {
		return err
	}
	path, err := subjects.ParsePath(o.Path)
	if err != nil {
		return err
	}
	c, ok := r.calls[r.space.Run(agent, at.Run.Tree, path)]
	if !ok {
		return fmt.Errorf("an outcome of %s.%s, which nobody called", agent, path)
	}
	key := turnKey{c.label, o.Turns}
	if r.turns[key].at.IsZero() { // else it is on the log
		r.turns[key] = kept{o.Worker, m.Time, o.Kind}
	}
	return nil
}

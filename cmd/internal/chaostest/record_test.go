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

// storedTurn says which worker stored a turn's answer or an outcome, and when.
type storedTurn struct {
	worker string
	at     time.Time
	kind   run.Kind // of a failed outcome
}

// record is the content of the stream, for all trees.
type record struct {
	space subjects.Space
	calls map[subjects.Run]call
	// outcomes holds the outcomes by the subject on which they are stored,
	// in stream order.
	outcomes map[string][]storedTurn
	// turns holds the turns of the logs, and last turns.
	turns map[turnKey]storedTurn
	mail  map[subjects.Tree]mailCount
	// dead describes the dead letters.
	dead []string
	all  []bus.Stored
}

// treeMessages lists the stored messages of the tree of a run, one a line.
func (r *record) treeMessages(label string) string {
	var b strings.Builder
	tree, _, _ := strings.Cut(label, ".")
	for _, m := range r.all {
		if strings.Contains(m.Subject, "."+tree) {
			fmt.Fprintf(&b, "%6d %s %s %s\n", m.Seq, m.Time.Format("15:04:05.000"), m.Subject, m.Body)
		}
	}
	return b.String()
}

// mailCount counts the mail between the runs of a tree: all messages, and those
// that were stored for a second time.
type mailCount struct{ all, doubled int }

// call is the call of a run. Its label is the task or, for a call of a tool,
// the address of the tool run.
type call struct {
	label, reply string
	at           time.Time
	tool         *run.ToolInput // nil: it is no call of a tool
}

// readRecord reads the whole stream.
func readRecord(ctx context.Context, conn *bus.Conn) (*record, error) {
	ms, err := conn.ReadByScan(ctx, conn.Space().All(), 0)
	if err != nil {
		return nil, err
	}
	r := &record{
		space:    conn.Space(),
		calls:    map[subjects.Run]call{},
		outcomes: map[string][]storedTurn{},
		turns:    map[turnKey]storedTurn{},
		mail:     map[subjects.Tree]mailCount{},
		all:      ms,
	}
	seen := map[string]bool{}
	for _, m := range ms {
		if err := r.take(m); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Subject, err)
		}
		if at, err := r.space.Parse(m.Subject); err == nil && at.Kind == subjects.Mail {
			l := r.mail[at.Run.Tree]
			if l.all++; seen[m.Subject] {
				l.doubled++
			}
			r.mail[at.Run.Tree] = l
			seen[m.Subject] = true
		}
	}
	return r, nil
}

// take adds a message to the record.
func (r *record) take(m bus.Stored) error {
	at, err := r.space.Parse(m.Subject)
	if err != nil {
		// The message is a dead letter or an armed timer.
		if m.Header.Get("Axe-Reason") != "" {
			r.dead = append(r.dead, m.Subject+": "+m.Header.Get("Axe-Reason"))
		}
		return nil
	}
	switch at.Kind { //nolint:exhaustive // other kinds store no turn
	case subjects.Call, subjects.Tool:
		var in run.Input
		if err := json.Unmarshal(m.Body, &in); err != nil {
			return err
		}
		label, _, _ := strings.Cut(in.Task, "\n")
		if in.Tool != nil {
			label = at.Run.Tree.String() + "." + at.Run.Path.String()
		}
		r.calls[at.Run] = call{label, m.Header.Get(subjects.HeaderReply), m.Time, in.Tool}
	case subjects.Log:
		e, err := run.DecodeEntry(m.Body)
		if err != nil {
			return err
		}
		r.turns[turnKey{r.calls[at.Run].label, e.Index}] = storedTurn{worker: e.Worker, at: m.Time}
	case subjects.Reply, subjects.Result:
		o, err := run.DecodeOutcome(m.Body)
		if err != nil {
			return err
		}
		r.outcomes[m.Subject] = append(r.outcomes[m.Subject], storedTurn{o.Worker, m.Time, o.Kind})
		return r.lastTurn(o, at, m)
	}
	return nil
}

// lastTurn records the last turn of a run, whose answer is its outcome o. Of
// several outcomes the first counts.
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
		return fmt.Errorf("an outcome of %s.%s, which was not called", agent, path)
	}
	key := turnKey{c.label, o.Turns}
	if r.turns[key].at.IsZero() { // otherwise the log has it
		r.turns[key] = storedTurn{o.Worker, m.Time, o.Kind}
	}
	return nil
}

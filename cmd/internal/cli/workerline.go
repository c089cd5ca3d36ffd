package cli

import (
	"context"
	"slices"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/subjects"
)

// WorkerLine is a worker as axe workers -o json prints it.
type WorkerLine struct {
	Name   string    `json:"name"`
	Host   string    `json:"host,omitzero"`
	PID    int       `json:"pid,omitzero"`
	Since  time.Time `json:"since"`
	Ended  time.Time `json:"ended,omitzero"`
	Agents []string  `json:"agents"`
	// Sole are the agents that no other worker serves. A worker that drains
	// serves none.
	Sole []string `json:"sole,omitempty"`
	// Known says that the worker has answered, with its Work. A worker of
	// an older version does not.
	Known bool `json:"known"`
	presence.Work

	// Gone says that the worker is not there any more.
	Gone bool `json:"-"`
}

// Workers lists the workers on the bus and those of the last day.
func Workers(ctx context.Context, conn *bus.Conn) (lines []WorkerLine, err error) {
	if bus.Restricted(conn) {
		// The list would be empty. This read fails, and its error names
		// the permission that is missing.
		if _, _, err := conn.Workers().Entry(ctx, subjects.Worker{}); err != nil {
			return nil, err
		}
	}
	survey, err := presence.New(conn).Survey(ctx)
	if err != nil {
		return nil, err
	}
	there := survey.AtWork(ctx, subjects.Tree{})
	for _, w := range survey.Workers() {
		i := slices.IndexFunc(there, func(b presence.Busy) bool { return b.Name == w.Name })
		if i < 0 {
			lines = append(lines, workerLine(w))
			continue
		}
		l := WorkerLineOf(there[i])
		l.Sole = soleAgents(there[i], there)
		lines = append(lines, l)
	}
	return lines, nil
}

// WorkerLineOf describes a worker that is there, without its sole agents.
func WorkerLineOf(b presence.Busy) WorkerLine {
	l := workerLine(b.Worker)
	l.Gone, l.Known = false, b.Known
	if b.Known {
		l.Work = b.Work
	}
	return l
}

// workerLine describes a worker that is gone.
func workerLine(w presence.Worker) WorkerLine {
	return WorkerLine{
		Name: w.Name, Host: w.Host, PID: w.PID, Since: w.Since, Ended: w.Ended, Agents: w.Agents, Gone: true,
		Work: presence.Work{Slots: w.Slots},
	}
}

// Status is the status of a worker in a few words.
func (w WorkerLine) Status(now time.Time) string {
	switch {
	case w.Gone && w.Ended.IsZero():
		return "gone"
	case w.Gone:
		return "ended " + presence.Age(now.Sub(w.Ended)) + " ago"
	case !w.Known:
		return "does not answer"
	case w.Draining:
		return "draining"
	case w.Trouble != "":
		return "stuck: " + Printable(w.Trouble)
	}
	return "up " + presence.Age(now.Sub(w.Since))
}

// soleAgents returns the agents that no other worker serves. A worker that
// drains serves none.
func soleAgents(w presence.Busy, there []presence.Busy) (sole []string) {
	for _, agent := range w.Agents {
		serves := func(b presence.Busy) bool { return b.Name != w.Name && !b.Draining && b.Serves(agent) }
		if !slices.ContainsFunc(there, serves) {
			sole = append(sole, agent)
		}
	}
	return sole
}

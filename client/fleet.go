package client

import (
	"context"
	"fmt"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/subjects"
)

// fleet is one look at all workers, and at the work that they have in hand.
type fleet struct {
	// survey is nil if the workers cannot be asked, and err says why. No
	// run has a reason then.
	survey *presence.Survey
	err    error
	there  []presence.Busy
	hands  map[place]hand
	// now is the server's time, and shift the time by which it is moved to
	// become a time of this machine.
	now   time.Time
	shift time.Duration
	// reasons has the reasons of whyNot by agent and kind of run.
	reasons map[string]reason
}

// place is a run by its tree and its path.
type place struct {
	tree subjects.Tree
	path subjects.Path
}

func placeOf(r subjects.Run) place { return place{r.Tree, r.Path} }

// hand is a run in the hand of a worker.
type hand struct {
	presence.InHand
	worker presence.Busy
}

// askFleet asks the workers for the runs in their hands: of one tree or, for
// the zero Tree, of all. A person without the right to ask the workers sees the
// trees all the same.
func askFleet(ctx context.Context, c *Client, tree subjects.Tree) *fleet {
	fl := &fleet{
		hands: map[place]hand{}, now: c.conn.Clocks.Now(), shift: c.toLocalClock(), reasons: map[string]reason{},
	}
	survey, err := presence.New(c.conn).Survey(ctx)
	if err != nil {
		fl.err = err
		return fl
	}
	fl.survey, fl.there = survey, survey.AtWork(ctx, tree)
	for _, b := range fl.there {
		for _, h := range b.Runs {
			fl.hands[place{h.Tree, h.Path}] = hand{h, b}
		}
	}
	return fl
}

// waitsForSlot reports whether the run waits for a slot of its worker.
func (h hand) waitsForSlot(s run.State) bool {
	if h.Progress.Turn > len(s.Turns) {
		return false // it has one
	}
	if s.Input.Tool != nil {
		return h.worker.FreeTools == 0
	}
	return h.worker.Free == 0
}

// noSlot says that a worker has no slot for a run in its hand.
func (h hand) noSlot() string {
	return fmt.Sprintf("waits for a slot of worker %s: all %d taken", h.worker.Name, h.worker.Slots)
}

// event returns the last report of progress as a live event. A worker that has
// not reported yet has had the run for a moment only.
func (h hand) event(r subjects.Run, s run.State, shift time.Duration) Event {
	p, at := h.Progress, h.At
	if p.Turn <= len(s.Turns) {
		p = run.Progress{Event: run.ProgressAsking, Turn: len(s.Turns) + 1}
		if s.Input.Tool != nil {
			p.Event = run.ProgressRunning
		}
		at = h.Since
	}
	if !p.Next.IsZero() {
		p.Next = p.Next.Add(shift)
	}
	p.Worker = h.worker.Name
	return Event{
		Kind: EventKind(p.Event), Run: r, Time: at.Add(shift), Worker: p.Worker, Turn: p.Turn, Progress: p,
	}
}

// untaken says why no worker has taken a submission, "" if one may be about to.
func (fl *fleet) untaken(ctx context.Context) string {
	if fl.survey == nil {
		return ""
	}
	switch service := fl.survey.Serving(ctx, ""); {
	case service.Unserved():
		return service.Text(fl.now)
	case len(service.Live) == 0:
		return "no worker is there"
	}
	return fl.survey.Trouble()
}

// pickUpTime is the time in which a worker with a free slot takes a run up.
const pickUpTime = time.Second

// whyNot says why no worker has a run in hand that needs one. It is "" if a
// worker may have the run in hand, or may be about to.
func (fl *fleet) whyNot(ctx context.Context, r subjects.Run, s run.State) string {
	tool := s.Input.Tool != nil
	key := fmt.Sprint(r.Agent, tool)
	reason, known := fl.reasons[key]
	if !known {
		reason = fl.service(ctx, r.Agent.String(), tool)
		fl.reasons[key] = reason
	}
	last := s.CalledAt
	if n := len(s.Turns); n > 0 {
		last = s.Turns[n-1].Time
	}
	if reason.idle && fl.now.Add(fl.shift).Sub(last) < pickUpTime {
		return ""
	}
	return reason.text
}

// reason says why the workers of an agent leave its runs alone.
type reason struct {
	text string
	// idle says that a worker has a free slot.
	idle bool
}

// service says why the workers of an agent leave its runs alone.
func (fl *fleet) service(ctx context.Context, agent string, tool bool) reason {
	if fl.survey == nil {
		return reason{}
	}
	service := fl.survey.Serving(ctx, agent)
	if service.Unserved() {
		return reason{text: service.Text(fl.now)}
	}
	if trouble := fl.survey.Trouble(); trouble != "" {
		return reason{text: ErrNoProgress.Error() + ": " + trouble}
	}
	var workers, slots, free int
	for _, b := range fl.there {
		switch {
		case !b.Serves(agent):
			continue
		case !b.Known, b.More > 0:
			return reason{} // it may have the run in hand
		}
		workers++
		if b.Draining {
			continue
		}
		if tool {
			slots, free = slots+b.ToolSlots, free+b.FreeTools
		} else {
			slots, free = slots+b.Slots, free+b.Free
		}
	}
	serve := fmt.Sprintf("%d workers serve %s", workers, agent)
	if workers == 1 {
		serve = "1 worker serves " + agent
	}
	switch {
	case workers == 0:
		return reason{text: "no worker is known to serve " + agent}
	case slots == 0:
		return reason{text: "waits for a worker: " + serve + " and drains"}
	case free == 0:
		return reason{text: fmt.Sprintf("waits for a slot: %s, all %d slots taken", serve, slots)}
	}
	return reason{fmt.Sprintf("no worker has it in hand: %s, %d of %d slots free", serve, free, slots), true}
}

package chaostest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/subjects"
)

// verdict is the result of a scenario.
type verdict struct {
	// lost counts missing outcomes, doubled outcomes and mail that were
	// stored twice, and wrongAnswers trees without the right answer.
	lost, doubled, wrongAnswers int
	// asked counts requests to the model, and minimum the turns of all
	// trees.
	asked, minimum int
	// extra counts repeated requests, and allowed the requests that a fault
	// struck.
	extra, allowed int
	// wrong describes all mistakes.
	wrong []string
}

// clockSlack is the time for which an effect may come after its cause. A worker
// that has read a run may still ask its model for so long after another worker
// has stored the answer.
const clockSlack = 500 * time.Millisecond

// holdingUp lists the faults that hold a worker up.
var holdingUp = []kind{freezeWorker, stallConn, slowConn, freezeServer, slowServer}

// blame adds a mistake.
func (v *verdict) blame(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

// judge compares the stream with the submissions and with the requests to the
// model.
func (h *harness) judge(l *load, r *record) *verdict {
	trees := int(l.ended.Load())
	v := &verdict{
		lost:         l.lost,
		wrongAnswers: l.wrongAnswers,
		wrong:        l.wrong,
		asked:        h.model.count(),
		minimum:      trees * turnsOfTree(),
	}
	h.runs(v, r, trees)
	var again []string
	h.model.mu.Lock()
	defer h.model.mu.Unlock()
	for key, asks := range h.model.asks {
		if key.turn > turnsOf(key.label) {
			v.blame(
				"turn %s was asked, which is beyond the last turn of its run: %s\n%s",
				key,
				h.describeTurn(asks, r.turns[key]),
				r.treeMessages(key.label),
			)
		}
		slices.SortFunc(asks, func(a, b *modelRequest) int { return a.begin.Compare(b.begin) })
		v.extra += len(asks) - 1
		inFlight := h.inFlight(asks, r.turns[key])
		v.allowed += inFlight
		if n := len(asks) - 1; n > inFlight {
			again = append(again, fmt.Sprintf("turn %s: %s", key, h.describeTurn(asks, r.turns[key])))
		}
		for i := 1; i < len(asks); i++ {
			if why := h.repeated(asks[i-1], asks[i], r.turns[key]); why != "" {
				v.blame("turn %s was asked again %s: %s", key, why, h.describeTurn(asks, r.turns[key]))
			}
		}
	}
	if got := v.asked - v.extra; got != v.minimum {
		v.blame("%d different turns were asked, %d are needed", got, v.minimum)
	}
	if v.extra > v.allowed {
		v.blame(
			"%d turns were asked again, %d were in flight at a fault\n%s\nfaults: %s",
			v.extra,
			v.allowed,
			strings.Join(again, "\n"),
			h.describeFaults(),
		)
	}
	return v
}

// runs checks that each call has one outcome, that each tree has all its runs
// and its mail, and that there are no dead letters.
func (h *harness) runs(v *verdict, r *record, trees int) {
	ofTree := map[subjects.Tree]int{}
	for at, c := range r.calls {
		ofTree[at.Tree]++
		all := r.outcomes[c.reply]
		if len(all) == 0 {
			v.lost++
			v.blame("%s has no outcome", at)
			continue
		}
		for _, k := range all[1:] {
			v.doubled++
			v.blame(
				"%s has another outcome: by %s at %s, the first by %s at %s",
				at,
				k.worker,
				h.clock(k.at),
				all[0].worker,
				h.clock(all[0].at),
			)
		}
	}
	for tree, n := range ofTree {
		if n != runsOfTree {
			v.blame("tree %s has %d runs, want %d", tree, n, runsOfTree)
		}
	}
	for tree := range ofTree {
		l := r.mail[tree]
		v.doubled += l.doubled
		if l.all != mailOfTree || l.doubled > 0 {
			v.blame(
				"tree %s has %d messages of mail, %d of them for a second time, want %d",
				tree,
				l.all,
				l.doubled,
				mailOfTree,
			)
		}
	}
	if len(ofTree) != trees {
		v.blame("%d trees on the stream, %d were submitted", len(ofTree), trees)
	}
	for _, d := range r.dead {
		v.blame("dead letter %s", d)
	}
}

// repeated says why a second request for a turn is wrong; "" if a fault
// explains it. A fault explains requests in flight until its lease has expired.
// A request that began after the answer was stored is explained only by a fault
// that held its worker up between the read of the run and the request: a fault
// of the worker or its connection, or a server that stood still and then had to
// answer everything at once.
func (h *harness) repeated(before, again *modelRequest, k storedTurn) string {
	lease := h.ackWait + time.Second
	if !k.at.IsZero() && again.begin.After(k.at.Add(clockSlack)) {
		if !h.hits.struck(again.worker, k.at, again.begin, clockSlack, holdingUp...) {
			return "after its answer was stored"
		}
		return ""
	}
	if !h.hits.struck(before.worker, before.begin, again.begin, lease) &&
		!h.hits.struck(again.worker, before.begin, again.begin, lease) {
		return "and no fault had struck the worker that asked"
	}
	return ""
}

// inFlight counts the requests that a fault struck before their answers were
// stored.
func (h *harness) inFlight(asks []*modelRequest, k storedTurn) int {
	n := 0
	for i, a := range asks {
		until := k.at
		if a.worker != k.worker && i+1 < len(asks) {
			until = asks[i+1].begin
		}
		if until.IsZero() || h.hits.struck(a.worker, a.begin, until, clockSlack) {
			n++
		}
	}
	return n
}

// clock formats a time as the journal does, in seconds since its start.
func (h *harness) clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return fmt.Sprintf("%.3f", t.Sub(h.log.start).Seconds())
}

// describeTurn lists the requests for a turn and its storing.
func (h *harness) describeTurn(asks []*modelRequest, k storedTurn) string {
	var s strings.Builder
	for _, a := range asks {
		fmt.Fprintf(&s, "%s asked at %s (answered %s), ", a.worker, h.clock(a.begin), h.clock(a.end))
	}
	fmt.Fprintf(&s, "stored by %s at %s", k.worker, h.clock(k.at))
	return s.String()
}

// describeFaults lists the faults that have happened.
func (h *harness) describeFaults() string {
	h.hits.mu.Lock()
	defer h.hits.mu.Unlock()
	var s strings.Builder
	for _, f := range h.hits.all {
		fmt.Fprintf(&s, "%s %s from %s to %s, ", f.kind, f.worker, h.clock(f.from), h.clock(f.to))
	}
	return s.String()
}

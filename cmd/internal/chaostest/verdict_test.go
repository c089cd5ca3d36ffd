package chaostest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/subjects"
)

// verdict is what came of a scenario.
type verdict struct {
	lost, doubled, misordered int
	asked, minimum            int
	extra, allowed            int
	wrong                     []string
}

// blur is how much later than the storing of an answer somebody may ask who had
// looked before.
const blur = 500 * time.Millisecond

func (v *verdict) blame(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

// judge sets what the stream holds against what was submitted and what the
// model was asked.
func (st *stage) judge(l *load, r *record) *verdict {
	trees := int(l.ended.Load())
	v := &verdict{
		lost:       l.lost,
		misordered: l.mixed,
		wrong:      l.wrong,
		asked:      st.model.count(),
		minimum:    trees * turnsOfTree(),
	}
	st.runs(v, r, trees)
	st.model.mu.Lock()
	defer st.model.mu.Unlock()
	for key, asks := range st.model.asks {
		if key.turn > turnsOf(key.label) {
			v.blame(
				"turn %s was asked, which no tree needs: %s\n%s",
				key,
				st.story(asks, r.turns[key]),
				r.tell(key.label),
			)
		}
		slices.SortFunc(asks, func(a, b *ask) int { return a.begin.Compare(b.begin) })
		v.extra += len(asks) - 1
		v.allowed += st.inFlight(asks, r.turns[key])
		for i := 1; i < len(asks); i++ {
			if why := st.repeated(asks[i-1], asks[i], r.turns[key]); why != "" {
				v.blame("turn %s was asked again %s: %s", key, why, st.story(asks, r.turns[key]))
			}
		}
	}
	if got := v.asked - v.extra; got != v.minimum {
		v.blame("%d different turns were asked, %d are needed", got, v.minimum)
	}
	if v.extra > v.allowed {
		v.blame("%d turns were asked again, %d were in flight at a fault", v.extra, v.allowed)
	}
	return v
}

// runs counts the calls and their outcomes: each has one.
func (st *stage) runs(v *verdict, r *record, trees int) {
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
				st.clock(k.at),
				all[0].worker,
				st.clock(all[0].at),
			)
		}
	}
	for tree, n := range ofTree {
		if n != runsOfTree {
			v.blame("tree %s has %d runs, want %d", tree, n, runsOfTree)
		}
	}
	for tree := range ofTree {
		l := r.letters[tree]
		v.doubled += l.doubled
		if l.all != lettersOfTree || l.doubled > 0 {
			v.blame(
				"tree %s has %d letters, %d of them for a second time, want %d",
				tree,
				l.all,
				l.doubled,
				lettersOfTree,
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

// repeated says what is wrong with a second request for a turn, nothing if a
// fault explains it. A fault does so until the lease is over of what was on its
// way. A request that began after the answer was stored is explained only by
// what held up who asked, between its look at the bus and the request.
func (st *stage) repeated(before, again *ask, k kept) string {
	lease := st.ackWait + time.Second
	if !k.at.IsZero() && again.begin.After(k.at.Add(blur)) {
		if !st.hits.struck(again.worker, k.at, again.begin, blur, stopWorker, holdConn, slowConn) {
			return "after its answer was stored"
		}
		return ""
	}
	if !st.hits.struck(before.worker, before.begin, again.begin, lease) &&
		!st.hits.struck(again.worker, before.begin, again.begin, lease) {
		return "and no fault had hit who asked"
	}
	return ""
}

// inFlight counts the requests whose answers were not stored yet when something
// hit their worker.
func (st *stage) inFlight(asks []*ask, k kept) int {
	n := 0
	for i, a := range asks {
		until := k.at
		if a.worker != k.worker && i+1 < len(asks) {
			until = asks[i+1].begin
		}
		if until.IsZero() || st.hits.struck(a.worker, a.begin, until, blur) {
			n++
		}
	}
	return n
}

// clock is a moment in seconds of the journal.
func (st *stage) clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return fmt.Sprintf("%.3f", t.Sub(st.log.start).Seconds())
}

// story tells what happened to a turn.
func (st *stage) story(asks []*ask, k kept) string {
	var s strings.Builder
	for _, a := range asks {
		fmt.Fprintf(&s, "%s asked at %s (answered %s), ", a.worker, st.clock(a.begin), st.clock(a.end))
	}
	fmt.Fprintf(&s, "stored by %s at %s", k.worker, st.clock(k.at))
	return s.String()
}

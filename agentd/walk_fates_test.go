package agentd_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
)

// settle waits until every run has its end and whoever was away is back, for
// some minutes at most.
func (w *walk) settle() {
	for range 36 {
		time.Sleep(5 * time.Second)
		w.mu.Lock()
		back := time.Now().After(w.quiet)
		w.mu.Unlock()
		if back && w.verified().UnderWay == 0 {
			break
		}
	}
	time.Sleep(15 * time.Second) // what is unacknowledged comes again
}

// thrifty checks what was asked of the model: nothing below a tombstone, and
// each turn once by all the workers that met no bad fate. (Those that did may
// have had it in flight then.)
func (w *walk) thrifty() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.model.mu.Lock()
	defer w.model.mu.Unlock()
	for key, at := range w.model.ended {
		for label, cut := range w.cuts {
			below := strings.HasPrefix(key, label+"#") || strings.HasPrefix(key, label+".") ||
				strings.HasPrefix(key, label+"~")
			if late := at.Sub(cut); below && late > time.Second {
				w.tb.Errorf("%s was at work %v after the end of %s", key, late, label)
			}
		}
	}
	for key, who := range w.model.asked {
		lived := slices.DeleteFunc(slices.Clone(who), func(name string) bool { return w.met[name] })
		if w.Tries == 1 && len(lived) > 1 {
			w.tb.Errorf("%s was asked by %v, of whom %v had no bad fate", key, who, lived)
		}
	}
}

// fated starts a worker that meets its fate.
func (w *walk) fated(name string, f fate) *proc {
	var mute atomic.Bool
	return w.startWith(name, agentd.Config{Slots: w.Slots}, &mute, func(p *proc, step int, _ bus.Point) {
		if step != f.Step {
			return
		}
		w.mu.Lock()
		w.met[name] = true
		w.mu.Unlock()
		switch f.What {
		case "kill":
			p.kill()
		case "drain":
			p.stop()
		case "cut":
			w.away(30 * time.Second)
			p.lose(30 * time.Second)
		case "freeze":
			w.away(time.Minute)
			mute.Store(true)
			time.Sleep(time.Minute)
			mute.Store(false)
		}
	})
}

// away notes that a worker will be away for so long.
func (w *walk) away(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if back := time.Now().Add(d); back.After(w.quiet) {
		w.quiet = back
	}
}

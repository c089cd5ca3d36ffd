package run_test

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// node is how a world was reached.
type node struct {
	parent int32
	step   step
}

// search visits the worlds of a scenario breadth first, at most limit of them, and returns the
// shortest way to a violation. whole says that there are no more.
func search(s scenario, r rules, limit int) (bad string, way []step, states int, whole bool) {
	type place struct {
		w  *world
		id int32
	}
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	hash := func(key []byte) [2]uint64 {
		return [2]uint64{maphash.Bytes(seeds[0], key), maphash.Bytes(seeds[1], key)}
	}
	start := newWorld(s, r, max(2, s.workers))
	seen := map[[2]uint64]bool{hash(start.key()): true}
	nodes := []node{{-1, step{}}}
	path := func(id int32, last ...step) []step {
		for ; id > 0; id = nodes[id].parent {
			last = append(last, nodes[id].step)
		}
		slices.Reverse(last)
		return last
	}
	for front := []place{{start, 0}}; len(front) > 0; {
		at := front[0]
		front[0] = place{}
		front = front[1:]
		for _, st := range at.w.steps() {
			n := at.w.clone()
			n.do(st)
			n.stuck()
			if n.bad != "" {
				return n.bad, path(at.id, st), len(nodes), false
			}
			k := hash(n.key())
			if seen[k] {
				continue
			}
			if len(nodes) >= limit {
				return "", nil, len(nodes), false
			}
			seen[k] = true
			nodes = append(nodes, node{at.id, st})
			front = append(front, place{n, int32(len(nodes) - 1)})
		}
	}
	return "", nil, len(nodes), true
}

// key tells worlds apart. Handlers are interchangeable, and a state follows from its sequence.
func (w *world) key() []byte {
	var b []byte
	num := func(ns ...int) {
		for _, n := range ns {
			b = binary.AppendVarint(b, int64(n))
		}
	}
	for i, m := range w.stream {
		c := w.cons[i]
		b = append(append(b, m.path.String()...), 0)
		num(int(m.kind), m.turn, m.index, int(m.entry.Trigger), int(m.entry.Seen), m.answer.calls, m.answer.refused, m.by, bits(c.acked, c.due), c.count, c.total)
		b = append(append(b, m.outcome.Kind...), m.outcome.Result...)
	}
	var hs []string
	for _, h := range w.workers {
		hs = append(hs, fmt.Sprint(h.busy, h.known, h.trig, h.count, h.n, h.at, h.stored, h.must, h.state.Seq, h.state.LogSeq, h.state.Concluded,
			h.slot, h.turned, h.answer, len(h.writes), h.end.Kind, h.out.Kind, h.out.Status, h.desist, h.logEnds))
	}
	slices.Sort(hs)
	b = append(b, strings.Join(hs, "|")...)
	asks := slices.Clone(w.asks)
	slices.SortFunc(asks, func(x, y asked) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
	b = fmt.Append(b, w.budget, w.faulty, asks, w.armed)
	return b
}

func bits(bs ...bool) (n int) {
	for _, b := range bs {
		n <<= 1
		if b {
			n |= 1
		}
	}
	return n
}

// explain takes steps again and tells what happens.
func explain(s scenario, r rules, workers int, way []step) string {
	w := newWorld(s, r, workers)
	w.tracing = true
	var b strings.Builder
	for _, st := range way {
		before := len(w.stream)
		w.do(st)
		fmt.Fprintf(&b, "  %s\n", w.happened)
		for i := before; i < len(w.stream) && st.op == move; i++ {
			fmt.Fprintf(&b, "      #%d %v\n", i+1, w.stream[i])
		}
	}
	return b.String()
}

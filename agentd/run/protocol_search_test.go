package run_test

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// node is a world and the step that reached it.
type node struct {
	parent int32
	step   step
}

// search visits the worlds of a scenario breadth first, at most limit of them.
// It returns the first violation, the shortest way to it, and the number of
// visited worlds; whole reports whether they are all.
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
			n.checkQuiescent()
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

// key identifies a world. Handlers are interchangeable, and a state follows
// from its sequence.
func (w *world) key() []byte {
	var b []byte
	for i, m := range w.stream {
		c := w.cons[i]
		b = append(append(b, m.path.String()...), 0)
		b = numbers(
			b,
			int(m.kind),
			m.turn,
			m.index,
			int(m.entry.Trigger),
			int(m.entry.Seen),
			m.answer.calls,
			m.answer.refused,
			m.by,
			bits(c.acked, c.due),
			c.count,
			c.total,
		)
		b = append(append(append(b, m.outcome.Kind...), m.outcome.Result...), m.outcome.Error...)
	}
	b = unordered(b, w.workers, handlerKey)
	b = unordered(b, w.asks, asked.key)
	b = unordered(b, w.armed, timer.key)
	return numbers(b, w.crash, w.redel, w.forget, w.lose, w.cancel, w.fire, w.drain, bits(w.faulty))
}

// handlerKey appends the parts of a handler that tell worlds apart.
func handlerKey(h handler, b []byte) []byte {
	b = numbers(
		b,
		bits(
			h.busy,
			h.state.OutcomeStored,
			h.slot,
			h.rereads,
			h.replyRead,
			h.givesBack,
			h.logEnds,
			h.answer.broken,
			h.answer.sequential,
		),
		int(h.known),
	)
	b = numbers(
		b,
		h.trig,
		h.count,
		h.n,
		int(h.at),
		h.stored,
		int(h.minSeq),
		int(h.state.Seq),
		int(h.state.LogSeq),
		h.answer.calls,
		h.answer.refused,
		len(h.writes),
	)
	return append(append(append(b, h.end.Kind...), h.out.Kind...), h.out.Status...)
}

func (a asked) key(b []byte) []byte {
	return numbers(append(b, a.path.String()...), 0, a.turn, a.trig, a.n)
}

func (t timer) key(b []byte) []byte { return numbers(append(b, t.path.String()...), 0, t.turn) }

// numbers appends numbers as varints.
func numbers(b []byte, ns ...int) []byte {
	for _, n := range ns {
		b = binary.AppendVarint(b, int64(n))
	}
	return b
}

// unordered appends keys in sorted order.
func unordered[T any](b []byte, things []T, key func(T, []byte) []byte) []byte {
	keys := make([]string, len(things))
	for i, t := range things {
		keys[i] = string(key(t, nil))
	}
	slices.Sort(keys)
	for _, k := range keys {
		b = append(append(b, '|'), k...)
	}
	return b
}

// bits packs flags into a number.
func bits(bs ...bool) (n int) {
	for _, b := range bs {
		n <<= 1
		if b {
			n |= 1
		}
	}
	return n
}

// explain takes steps again and describes each.
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

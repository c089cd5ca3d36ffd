package subjects

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// Spread is the space with its trees spread over so many partitions; 1 or less
// is none, as a space is without it.
//
// Each partition is a stream of its own, and a token behind the prefix says
// which: axe.2.run.…, axe.2.result.…. All that belongs to a tree is in the
// partition that its id names, so that whatever is fenced, ordered or timed
// stays in one stream. Submissions and what is watched live have no such token.
func (s Space) Spread(partitions int) Space {
	s.parts = 0
	if partitions > 1 {
		s.parts = partitions
	}
	return s
}

// Partitions is how many there are, 1 for a space that is not spread.
func (s Space) Partitions() int { return max(1, s.parts) }

// PartitionOf is the partition of a tree, from 0: the one that a subject
// mapping of NATS names for its id, with {{partition(n,k)}} (FNV-1a).
func (s Space) PartitionOf(t Tree) int {
	if s.parts == 0 {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(t.s)) // never fails
	return int(h.Sum32() % uint32(s.parts))
}

// PartitionIn is the partition that a subject or filter of stored messages
// names; ok is false for a filter of all of them.
func (s Space) PartitionIn(subject string) (p int, ok bool) {
	if s.parts == 0 {
		return 0, true
	}
	rest, _ := strings.CutPrefix(subject, s.Prefix()+".")
	tok, _, _ := strings.Cut(rest, ".")
	p, err := number(tok)
	return p, err == nil && p < s.parts
}

// Stream is what there is to know of the stream of a partition.
type Stream struct {
	Name     string
	Subjects []string
	All      string // matches every subject of the partition
}

// Stream is that of a partition.
func (s Space) Stream(p int) Stream {
	name, prefix := "RUNS", s.Prefix()
	if s.parts > 0 {
		prefix += "." + strconv.Itoa(p)
	}
	if p > 0 {
		name += "_" + strconv.Itoa(p)
	}
	st := Stream{Name: s.Name(name), All: prefix + ".>"}
	for _, kind := range []string{"run", "result", "timer", "tally", "dead"} {
		st.Subjects = append(st.Subjects, prefix+"."+kind+".>")
	}
	return st
}

// of is a subject of a tree.
func (s Space) of(t Tree, tokens ...string) string {
	if s.parts == 0 {
		return s.join(tokens...)
	}
	var all [9]string
	return s.join(append(append(all[:0], strconv.Itoa(s.PartitionOf(t))), tokens...)...)
}

// any is a filter for trees of all partitions.
func (s Space) any(tokens ...string) string {
	if s.parts == 0 {
		return s.join(tokens...)
	}
	return s.Prefix() + ".*." + strings.Join(tokens, ".")
}

// unprefixed cuts the prefix and the partition off a subject or a filter; p is
// -1 if there is none to be checked.
func (s Space) unprefixed(subject string) (rest string, p int, ok bool) {
	rest, ok = strings.CutPrefix(subject, s.Prefix())
	if ok {
		rest, ok = strings.CutPrefix(rest, ".")
	}
	if !ok || s.parts == 0 {
		return rest, -1, ok
	}
	tok, behind, more := strings.Cut(rest, ".")
	if p, err := number(tok); err == nil && more {
		return behind, p, true
	}
	if tok == "*" && more {
		return behind, -1, true
	}
	return rest, -1, true
}

package subjects

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// Spread returns the space with its trees spread over partitions. With 1 or
// less the space is not spread, which is the default.
//
// Each partition is a stream of its own. Its number is the token after the
// prefix: axe.2.run.…, axe.2.result.…. All messages of a tree are in the
// partition that follows from the tree's id, so that fences, order and timers
// stay within one stream. Submissions, live subjects and those of workers have
// no such token.
func (s Space) Spread(partitions int) Space {
	s.parts = 0
	if partitions > 1 {
		s.parts = partitions
	}
	return s
}

// Partitions is the number of partitions, 1 for a space that is not spread.
func (s Space) Partitions() int { return max(1, s.parts) }

// PartitionOf is the partition of a tree, from 0. A subject mapping of NATS
// with {{partition(n,k)}} computes the same number from the id (FNV-1a).
func (s Space) PartitionOf(t Tree) int {
	if s.parts == 0 {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(t.s))
	return int(h.Sum32() % uint32(s.parts))
}

// PartitionIn is the partition in a subject or filter of stored messages; ok is
// false for a filter of all partitions.
func (s Space) PartitionIn(subject string) (p int, ok bool) {
	if s.parts == 0 {
		return 0, true
	}
	rest, _ := strings.CutPrefix(subject, s.Prefix()+".")
	tok, _, _ := strings.Cut(rest, ".")
	p, err := number(tok)
	return p, err == nil && p < s.parts
}

// Stream is the stream of a partition.
type Stream struct {
	Name     string
	Subjects []string
	// All matches every subject of the partition.
	All string
	// Timers matches every schedule of the partition.
	Timers string
}

// Stream returns the stream of a partition.
func (s Space) Stream(p int) Stream {
	name, prefix := "RUNS", s.Prefix()
	if s.parts > 0 {
		prefix += "." + strconv.Itoa(p)
	}
	if p > 0 {
		name += "_" + strconv.Itoa(p)
	}
	st := Stream{Name: s.Name(name), All: prefix + ".>", Timers: prefix + ".timer.>"}
	for _, kind := range []string{"run", "result", "timer", "tally", "dead"} {
		st.Subjects = append(st.Subjects, prefix+"."+kind+".>")
	}
	return st
}

// of builds a subject of a tree.
func (s Space) of(t Tree, tokens ...string) string {
	if s.parts == 0 {
		return s.join(tokens...)
	}
	if t.s == anyToken {
		return s.any(tokens...)
	}
	var all [9]string
	return s.join(append(append(all[:0], strconv.Itoa(s.PartitionOf(t))), tokens...)...)
}

// any builds a filter for the trees of all partitions.
func (s Space) any(tokens ...string) string {
	if s.parts == 0 {
		return s.join(tokens...)
	}
	return s.Prefix() + ".*." + strings.Join(tokens, ".")
}

// unprefixed cuts the prefix and the partition off a subject or a filter. P is
// the partition, -1 if there is none or the filter is for all.
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

// Relative returns a subject without the prefix and the partition; ok is false
// for a subject of another space.
func (s Space) Relative(subject string) (rel string, ok bool) {
	rel, _, ok = s.unprefixed(subject)
	return rel, ok
}

// Absolute inverts Relative for the subject of a stored message of a tree, in
// any space. The error wraps ErrToken for any other subject.
func Absolute(s Space, t Tree, rel string) (string, error) {
	tok := strings.Split(rel, ".")
	for _, each := range tok {
		if !plain(each) {
			return "", malformed(rel)
		}
	}
	subject := s.of(t, tok...)
	if of, ok := s.TreeIn(subject); !ok || of != t || tok[0] == "submit" || tok[0] == "timer" {
		return "", malformed(rel)
	}
	return subject, nil
}

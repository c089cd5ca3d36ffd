package sandbox

import "fmt"

// Output is what a program printed: all of it, or its beginning and its end.
type Output struct {
	// Head is the beginning. It is the whole output if that fits.
	Head []byte
	// Tail is the end, if Head is full. It follows Head if Dropped is 0.
	Tail []byte
	// Dropped is the number of bytes between Head and Tail that are lost.
	Dropped int64
}

// String returns the output with a line in place of the dropped bytes.
func (o Output) String() string {
	if o.Dropped == 0 {
		return string(o.Head) + string(o.Tail)
	}
	return fmt.Sprintf("%s\n… %d bytes left out …\n%s", o.Head, o.Dropped, o.Tail)
}

// buffer keeps the first head and the last tail bytes that are written to it.
// Its memory does not grow beyond them. Writing never fails, so that the
// program goes on while its output is dropped.
type buffer struct {
	head, tail int

	first []byte
	ring  []byte // the last bytes; next is the oldest once it is full
	next  int
	lost  int64
}

// Write keeps p, or counts it.
func (b *buffer) Write(p []byte) (int, error) {
	n := len(p)
	k := min(b.head-len(b.first), len(p))
	b.first = append(b.first, p[:k]...)
	p = p[k:]
	if extra := len(p) - b.tail; extra > 0 {
		b.lost += int64(extra)
		p = p[extra:]
	}
	k = min(b.tail-len(b.ring), len(p))
	b.ring = append(b.ring, p[:k]...)
	for p = p[k:]; len(p) > 0; {
		k = copy(b.ring[b.next:], p)
		b.lost += int64(k)
		b.next = (b.next + k) % b.tail
		p = p[k:]
	}
	return n, nil
}

// output returns what was kept. The buffer is not used after it.
func (b *buffer) output() Output {
	o := Output{Head: b.first, Tail: b.ring, Dropped: b.lost}
	if b.next > 0 {
		o.Tail = append(append([]byte(nil), b.ring[b.next:]...), b.ring[:b.next]...)
	}
	return o
}

// printed keeps what a program prints. Both buffers are the same one unless the
// standard error is kept apart.
type printed struct{ out, errors *buffer }

func newPrinted(c Config) printed {
	out := &buffer{head: c.Head, tail: c.Tail}
	if !c.Apart {
		return printed{out, out}
	}
	return printed{out, &buffer{head: c.Head, tail: c.Tail}}
}

// into returns a result with the output.
func (p printed) into(r Result) Result {
	r.Output = p.out.output()
	if p.errors != p.out {
		r.Errors = p.errors.output()
	}
	return r
}

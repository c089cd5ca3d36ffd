// Package ballast makes the garbage collector of a process with a small heap
// run less often.
//
// The collector runs when the heap has doubled, or at 4 MiB. A worker has
// hardly more than that, so it spends a seventh of its processor time on
// collections at full load. A percentage (GOGC) that helps a small heap makes a
// large one far larger. Ballast counts as heap. So it sets the least garbage
// between two collections, and adds no more than that to a heap of any size.
package ballast

import "runtime"

// Size is the size of the ballast in bytes.
const Size = 16 << 20

// Reserve allocates the ballast and returns the function that lets go of it.
// The ballast takes address space and no memory, since it is never written. It
// counts for GOMEMLIMIT and for the size of the heap.
func Reserve() (release func()) {
	b := make([]byte, Size)
	return func() { runtime.KeepAlive(b) }
}

//go:build !unix

package bench

// used returns the zero usage. Outside unix, a benchmark does not measure the
// processor time and the memory of its process.
func used() usage { return usage{} }

//go:build !unix

package bench

// used returns no usage: on this system it is not known.
func used() usage { return usage{} }

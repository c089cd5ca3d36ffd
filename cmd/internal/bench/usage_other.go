//go:build !unix

package bench

// used is not known here.
func used() usage { return usage{} }

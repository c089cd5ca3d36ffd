// Package testflags sets the flags of go test from within a TestMain.
package testflags

import "flag"

// Default sets a flag of the test binary, such as "test.parallel", unless the
// command line gives it. It reports whether the command line does. The flags
// must have been parsed. Default panics if there is no such flag, or if it does
// not take the value.
func Default(name, value string) (given bool) {
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return true
	}
	if err := flag.Set(name, value); err != nil {
		panic(err)
	}
	return false
}

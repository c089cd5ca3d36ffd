package sandbox

import "golang.org/x/sys/unix"

// load loads a word of struct seccomp_data.
func (f *filter) load(offset uint32) {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset})
}

// loadArg loads the lower half of an argument.
func (f *filter) loadArg(i uint32) { f.load(offArgs + 8*i) }

// and masks the loaded word.
func (f *filter) and(mask uint32) {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: mask})
}

// give ends the program with a decision.
func (f *filter) give(decision uint32) {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: decision})
}

// when decides if the loaded word meets a test.
func (f *filter) when(test uint16, k, decision uint32) {
	f.jumpOver(test, k, func() { f.give(decision) })
}

// unless decides if the loaded word does not meet a test.
func (f *filter) unless(test uint16, k, decision uint32) {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: k, Jt: 1})
	f.give(decision)
}

// jumpOver adds instructions that run only if the loaded word meets a test.
func (f *filter) jumpOver(test uint16, k uint32, then func()) {
	at := len(*f)
	*f = append(*f, unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: k})
	then()
	(*f)[at].Jf = uint8(len(*f) - at - 1)
}

// on adds the decision about one system call. What it does not refuse is
// allowed.
func (f *filter) on(nr uint32, decide func()) {
	f.jumpOver(unix.BPF_JEQ, nr, func() {
		decide()
		f.give(allow)
	})
}

// argIs refuses a value of an argument.
func (f *filter) argIs(i, value uint32) {
	f.loadArg(i)
	f.when(unix.BPF_JEQ, value, refuse)
}

// argIsNot refuses every other value of an argument.
func (f *filter) argIsNot(i, value uint32) {
	f.loadArg(i)
	f.unless(unix.BPF_JEQ, value, refuse)
}

// argHas refuses an argument with one of the bits.
func (f *filter) argHas(i, bits uint32) {
	f.loadArg(i)
	f.when(unix.BPF_JSET, bits, refuse)
}

// jumpUnlessInternet refuses if the loaded word is no family of the internet.
func (f *filter) jumpUnlessInternet() {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.AF_INET, Jt: 2})
	*f = append(*f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.AF_INET6, Jt: 1})
	f.give(refuse)
}

package bench

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// profile writes a CPU profile until stop is called, and then a heap profile.
// The names of both files begin with path. Without a path it does nothing.
func profile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	cpu, err := os.Create(path + ".cpu.pprof")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		heap, err := os.Create(path + ".heap.pprof")
		if err != nil {
			return errors.Join(err, cpu.Close())
		}
		runtime.GC()
		return errors.Join(cpu.Close(), pprof.WriteHeapProfile(heap), heap.Close())
	}, nil
}

package ballast_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/axebus/axe/internal/ballast"
)

// garbage is where the test puts what it allocates.
var garbage []byte

// TestReserve: with ballast the collector runs after as much garbage and not
// before. It runs as often as before once the ballast is let go of.
func TestReserve(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	collections := func() uint32 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range 4 * ballast.Size / (32 << 10) {
			garbage = make([]byte, 32<<10)
		}
		runtime.ReadMemStats(&after)
		return after.NumGC - before.NumGC
	}
	without := collections()
	release := ballast.Reserve()
	with := collections()
	release()
	again := collections()
	// The garbage is four times the ballast. The collector begins a little
	// early.
	if with > 5 || without < 10 || again < 10 {
		t.Errorf("%d collections without ballast, %d with it, %d after it, want 10 or more, 5 at most, 10 or more",
			without, with, again)
	}
}

package ballast_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/axebus/axe/internal/ballast"
)

// TestReserve: with ballast the collector begins after as much garbage and not
// before. It begins as early as before once the ballast is let go of.
func TestReserve(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	room := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.NextGC - m.HeapAlloc
	}
	without := room()
	release := ballast.Reserve()
	with := room()
	release()
	if again := room(); with < ballast.Size || without >= ballast.Size/2 || again >= ballast.Size/2 {
		t.Errorf("a collection after %d B of garbage without ballast, %d B with it, %d B after it; "+
			"want %d at least with it, and less than half of that without", without, with, again, ballast.Size)
	}
}

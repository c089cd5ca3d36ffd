package bus

import (
	"testing"

	"github.com/axebus/axe/subjects"
)

// TestWorkersOfAnUnusedBus: a bus has no workers, and that is no error, until
// the first worker has stored its entry.
func TestWorkersOfAnUnusedBus(t *testing.T) {
	t.Parallel()
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	if all, err := c.Workers().List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("before the first entry: got %d entries, %v; want none", len(all), err)
	}
	if _, err := c.Workers().Swap(t.Context(), subjects.WorkerOf("w1"), 0, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if all, err := c.Workers().List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("after it: got %d entries, %v; want one", len(all), err)
	}
}

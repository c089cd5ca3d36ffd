package presence

import (
	"testing"

	"github.com/axebus/axe/bus"
)

// TestEmptyListAfterLetGo: a worker has let go of the messages of its stored
// list, and has nothing in hand. It stores the empty list, once.
func TestEmptyListAfterLetGo(t *testing.T) {
	var h held
	if h.begin(nil) {
		t.Error("an empty list is stored at first")
	}
	h.begin([]bus.Held{{Ack: "a"}})
	h.end(true)
	h.letGo()
	if !h.begin(nil) {
		t.Fatal("the list is not stored")
	}
	h.end(false)
	if !h.begin(nil) {
		t.Fatal("the list is not stored after an attempt that failed")
	}
	h.end(true)
	if h.begin(nil) {
		t.Error("the empty list is stored again")
	}
}

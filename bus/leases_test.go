package bus

import (
	"testing"
	"time"
)

// TestExpiredLeaseIsNotRenewed: a delivery that its handler was told to give up
// is not renewed by a beat that was on its way. Otherwise the server would
// never deliver the message again.
func TestExpiredLeaseIsNotRenewed(t *testing.T) {
	l := leases{held: map[message]*lease{}}
	d, begun := new(Delivery), time.Now()
	l.hold(d, begun, 10*time.Second)
	told := l.renewable(begun.Add(8 * time.Second))
	if !l.expired(d, begun.Add(11*time.Second), 10*time.Second) {
		t.Fatal("not late after 11 s of 10")
	}
	l.renewed(told, begun.Add(8*time.Second))
	if len(l.renewable(begun.Add(12*time.Second))) != 0 || !l.expired(d, begun.Add(12*time.Second), 10*time.Second) {
		t.Error("renewed after it was given up")
	}
}

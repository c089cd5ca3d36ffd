package bus

import (
	"testing"
	"time"
)

// TestLateForGood: a delivery that somebody was told to give up is not renewed
// by a round of beats that was on its way meanwhile: nobody would ever have it
// again.
func TestLateForGood(t *testing.T) {
	l := leases{held: map[*Delivery]*lease{}}
	d, begun := new(Delivery), time.Now()
	l.hold(d, begun)
	told := l.renewable(begun.Add(8 * time.Second))
	if !l.expired(d, begun.Add(11*time.Second), 10*time.Second) {
		t.Fatal("not late after 11 s of 10")
	}
	l.renewed(told, begun.Add(8*time.Second))
	if len(l.renewable(begun.Add(12*time.Second))) != 0 || !l.expired(d, begun.Add(12*time.Second), 10*time.Second) {
		t.Error("renewed after it was given up")
	}
}

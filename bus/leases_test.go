package bus

import (
	"testing"
	"time"
)

// TestExpiredLeaseIsNotRenewed: a handler learns that its lease has expired,
// and gives the delivery up. A renewal that was sent before does not renew the
// lease when its echo arrives, and no later renewal is sent. Otherwise the
// server would never deliver the message again.
func TestExpiredLeaseIsNotRenewed(t *testing.T) {
	l := leases{held: map[message]*Delivery{}}
	d, begun := new(Delivery), time.Now()
	l.hold(d, begun, 10*time.Second)
	sent := l.renewable(begun.Add(8 * time.Second))
	if !l.expired(d, begun.Add(11*time.Second), 10*time.Second) {
		t.Fatal("a lease of 10s has not expired after 11s")
	}
	l.renewed(sent, begun.Add(8*time.Second))
	if len(l.renewable(begun.Add(12*time.Second))) != 0 || !l.expired(d, begun.Add(12*time.Second), 10*time.Second) {
		t.Error("the lease was renewed after it had expired")
	}
}

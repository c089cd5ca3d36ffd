package bus

import (
	"context"
)

// epoch is a time since which one server has kept the delivery counts of all
// streams of runs, with this connection to it unbroken.
type epoch struct {
	// dials is the number of attempts to connect when the epoch began.
	dials uint64
	// last has the last sequence of each stream when the epoch began, by
	// partition. It is nil if there is no epoch (startEpoch).
	last []uint64
}

// ProvablyFirst reports that no other worker can have received the message,
// unless an earlier consumer delivered it (Replayed). It is a first delivery,
// the server has kept its delivery counts since the message was stored (one
// server, no reconnect), and half a lease has not passed.
func (d *Delivery) ProvablyFirst() bool {
	c := d.conn
	e := c.epoch.Load()
	if e == nil || d.Count != 1 || c.inflight.dials.Load() != e.dials {
		return false
	}
	p, ok := c.Space().PartitionIn(d.Subject)
	if !ok || p >= len(e.last) || d.Seq <= e.last[p] || d.LeaseExpired() {
		return false
	}
	return c.streams.Load().clocks[p].Now().Sub(d.Time) <= c.cfg.AckWait/2
}

// startEpoch begins an epoch if none has begun since the last reconnect. With a
// cluster or a leaf node there is no epoch: another server leads a stream, or
// may lead one later.
func (c *Conn) startEpoch(ctx context.Context) {
	now := c.inflight.dials.Load()
	if e := c.epoch.Load(); e != nil && e.dials == now {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AckWait/4)
	defer cancel()
	e := &epoch{dials: now}
	for _, name := range c.streams.Load().names {
		s, err := c.js.Stream(ctx, name)
		if err != nil {
			return
		}
		c.handles.Store(name, s)
		info := s.CachedInfo()
		if at := info.Cluster; at == nil || at.Name != "" || at.Leader != c.nc.ConnectedServerName() {
			e.last = nil
			break
		}
		e.last = append(e.last, info.State.LastSeq)
	}
	if c.inflight.dials.Load() == now {
		c.epoch.Store(e)
	}
}

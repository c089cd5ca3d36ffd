package bus

import (
	"context"
	"time"
)

// mark is a moment since when the connection has been to the one server that
// keeps the streams of runs, without a break.
type mark struct {
	reconnects uint64 // until then
	// the last message of each stream at that moment; none: there is no
	// such server
	last []uint64
}

// ProvablyFirst reports whether nobody else can have had the message: it is
// delivered for the first time and was stored since this connection is to the
// server that counts its deliveries, so that this has not forgotten any; and
// not so long ago that another worker could have taken it over from this one.
func (d *Delivery) ProvablyFirst() bool {
	c := d.conn
	m := c.marked.Load()
	if m == nil || d.Count != 1 || time.Since(d.Time) > c.cfg.AckWait/2 || d.LeaseExpired() ||
		c.nc.Stats().Reconnects != m.reconnects {
		return false
	}
	p, ok := c.Space().PartitionIn(d.Subject)
	return ok && p < len(m.last) && d.Seq > m.last[p]
}

// remark makes a mark if there is none since the connection was made. It is one
// that no message is behind where another server than the one that the
// connection is to keeps a stream, or may keep it some day: a cluster, or one
// behind a leaf node.
func (c *Conn) remark(ctx context.Context) {
	now := c.nc.Stats().Reconnects
	if m := c.marked.Load(); m != nil && m.reconnects == now {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AckWait/4)
	defer cancel()
	m := &mark{reconnects: now}
	for _, name := range c.known.Load().streams {
		s, err := c.js.Stream(ctx, name)
		if err != nil {
			return
		}
		info := s.CachedInfo()
		if at := info.Cluster; at == nil || at.Name != "" || at.Leader != c.nc.ConnectedServerName() {
			m.last = nil
			break
		}
		m.last = append(m.last, info.State.LastSeq)
	}
	if c.nc.Stats().Reconnects == now {
		c.marked.Store(m)
	}
}

package bus

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Losses looks once at the streams of runs and of submissions. It returns the
// limits by which they drop messages that workers need, and the messages that
// they have lost before their age. Longest is the longest time that a tree may
// take.
func (h *Health) Losses(ctx context.Context, longest time.Duration) (all []Fault, err error) {
	submissions := h.conn.cfg.Space.Name("SUBMIT")
	for _, name := range append([]string{submissions}, h.conn.streams.Load().names...) {
		info, err := h.info(ctx, name)
		if err != nil {
			return nil, err
		}
		if name == submissions {
			all = append(all, drops(info.Config, 0)...)
			continue
		}
		all = append(all, drops(info.Config, longest)...)
		if n := removed(info); n > 0 {
			const text = "has lost messages before their age: number %d and those before it are not there " +
				"(so it looks too where max-age was raised)"
			all = append(all, Fault{Kind: FaultRemoved, Stream: name, OfRuns: true, Problem: fmt.Sprintf(text, n)})
		}
	}
	return all, nil
}

// aged returns the time before which a stream may have dropped messages for
// their age; zero if the stream is younger than that, or has no largest age.
// The age may have been shorter before.
func aged(info *jetstream.StreamInfo) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, info.Config.Metadata[metaAged])
	if now := cmp.Or(info.TimeStamp, time.Now()).Add(-info.Config.MaxAge); info.Config.MaxAge > 0 && now.After(at) {
		at = now
	}
	if at.Before(info.Created) {
		return time.Time{}
	}
	return at
}

// removed returns the sequence up to which messages of a stream are not there,
// if one of them was certainly removed before its age; 0 otherwise.
func removed(info *jetstream.StreamInfo) uint64 {
	is, old := info.State, aged(info)
	if is.FirstSeq <= 1+forgotten(info) || !old.IsZero() && (is.Msgs > 0 || is.LastTime.Before(old)) {
		return 0
	}
	return is.FirstSeq - 1
}

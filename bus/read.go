package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// Stored is a message of a stream.
type Stored struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Header  nats.Header
	// Body may be a reference to an object. Conn.Load returns the body.
	Body []byte
	// answer says that its writer's header has the place of a message,
	// which a server alone writes: see hasPlace.
	answer bool
}

// ProvesSender reports whether the user that ends the subject has published the
// message. The server also writes to subjects that a user names and may not
// publish to: it stores the answer to a request there, or a scheduled message.
// Such a message tells it by its header: an answer with a stored message has a
// place, a scheduled one names its schedule, and any other answer has no
// schema.
func (m Stored) ProvesSender() bool {
	return m.Header.Get(subjects.HeaderSchema) != "" && m.Header.Get(headerScheduler) == "" && !m.IsAnswer()
}

// FirstOnSubject reports whether the message is certainly the first one of its
// subject. Its own fence proves that: the server keeps the fence with the
// message, and stores a message only if its fence holds.
func (m Stored) FirstOnSubject() bool {
	before, ok := m.before()
	return ok && before == 0
}

// before returns the sequence of the message before this one on its subject, 0
// for none; ok is false if the message has no fence, or one of another subject.
func (m Stored) before() (seq uint64, ok bool) {
	if m.Header.Get(headerFenceSubject) != "" {
		return 0, false
	}
	return m.Fence()
}

// Fence returns the sequence that the fenced subject ended with when the
// message was stored; ok is false if it was written without a fence.
func (m Stored) Fence() (seq uint64, ok bool) {
	seq, err := strconv.ParseUint(m.Header.Get(jetstream.ExpectedLastSubjSeqHeader), 10, 64)
	return seq, err == nil
}

// StoredHeader returns the header as the writer of a message wrote it: without
// the headers that the server adds to an answer. A message that has some of
// these itself keeps them, so that it proves no sender elsewhere either.
func StoredHeader(m Stored) map[string][]string {
	own := map[string][]string{}
	for name, values := range m.Header {
		if m.answer || !slices.Contains(answerHeaders, name) {
			own[name] = values
		}
	}
	return own
}

// answerHeaders are the headers of an answer to a read.
var answerHeaders = []string{
	jetstream.StreamHeader, jetstream.SubjectHeader, jetstream.SequenceHeader, jetstream.TimeStampHeaer,
	jetstream.LastSequenceHeader, headerNumPending,
}

// ErrTooMany is the error of a read by subject if the filter matches more
// subjects, or more bytes, than a server reads at once.
var ErrTooMany = errors.New("too many messages for one read")

// First reads the first message of a subject; ok is false if the replica that
// answers has none.
func (c *Conn) First(ctx context.Context, subject string) (m Stored, ok bool, err error) {
	ms, err := c.get(ctx, subject, directGet{NextFor: subject, Seq: 1, Batch: 1})
	if err != nil || len(ms) == 0 {
		return Stored{}, false, err
	}
	return ms[0], true, nil
}

// LastPerSubject reads the last message of every subject that one of the
// filters matches, as of one moment, in stream order. It needs at least one
// filter, and all of them must be of the same partition.
func (c *Conn) LastPerSubject(ctx context.Context, filters ...string) ([]Stored, error) {
	ms, err := c.get(ctx, filters[0], directGet{MultiLast: filters})
	return InOrder(ms), err
}

// LastSeq asks the stream's leader for the sequence of the last message that a
// filter matches, 0 if there is none. On replicas other reads may lag behind
// it.
func (c *Conn) LastSeq(ctx context.Context, filter string) (uint64, error) {
	stream, err := c.streams.Load().streamOf(filter)
	if err != nil {
		return 0, err
	}
	m, _, err := c.last(ctx, stream, filter)
	if err != nil {
		return 0, fmt.Errorf("last message of %s: %w", filter, err)
	}
	return m.Seq, nil
}

// Scan reads every message after seq that the filter matches, in stream order,
// a page at a time. A filter for all partitions yields one partition after the
// other, each after seq. The scan ends with the message that was the last one
// when its last page was read, or after an error.
func (c *Conn) Scan(ctx context.Context, filter string, seq uint64) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		for _, stream := range c.streams.Load().streamsOf(filter) {
			for page, err := range c.reader.pages(ctx, stream, filter, seq) {
				if err != nil {
					yield(Stored{}, err)
					return
				}
				for _, m := range page {
					if !yield(m, nil) {
						return
					}
				}
			}
		}
	}
}

// pages yields the pages of a scan of one stream. It ends after an error.
func (r *reader) pages(ctx context.Context, stream, filter string, seq uint64) iter.Seq2[[]Stored, error] {
	return func(yield func([]Stored, error) bool) {
		for more := true; more; {
			page, err := r.ask(ctx, stream, pageAfter(filter, seq))
			if !yield(page, err) || err != nil {
				return
			}
			seq, more = pageEnd(page)
		}
	}
}

// ReadByScan reads every message after seq that the filter matches, in stream
// order. The server looks at every message of the stream after seq.
func (c *Conn) ReadByScan(ctx context.Context, filter string, seq uint64) ([]Stored, error) {
	var all []Stored
	for m, err := range c.Scan(ctx, filter, seq) {
		if err != nil {
			return all, err
		}
		all = append(all, m)
	}
	return all, nil
}

// ScanUntil reads as ReadByScan does, until the answer contains the message
// minSeq or a later one. A replica that lags behind the writer of minSeq is
// asked again, until ctx ends.
func (c *Conn) ScanUntil(ctx context.Context, filter string, seq, minSeq uint64) ([]Stored, error) {
	for {
		ms, err := c.ReadByScan(ctx, filter, seq)
		if err != nil || minSeq <= seq || len(ms) > 0 && ms[len(ms)-1].Seq >= minSeq {
			return ms, err
		}
		if err := pause.For(ctx, lagPoll); err != nil {
			return nil, fmt.Errorf("read %s up to %d: %w", filter, minSeq, err)
		}
	}
}

// lagPoll is the pause before a replica that lags is asked again.
const lagPoll = 10 * time.Millisecond

// ReadSince reads every message after seq that the filter matches, in stream
// order. It chooses the cheaper way: by scan if the message minSeq is near seq
// (Config.ScanLimit), by subject if it is far. It scans all the same if that
// read is too large (ErrTooMany). The answer need not contain minSeq.
func (c *Conn) ReadSince(ctx context.Context, filter string, seq, minSeq uint64) ([]Stored, error) {
	if minSeq > seq && minSeq-seq > c.cfg.ScanLimit {
		ms, err := c.ReadBySubject(ctx, filter, seq)
		if !errors.Is(err, ErrTooMany) {
			return ms, err
		}
	}
	return c.ReadByScan(ctx, filter, seq)
}

// ReadBySubject reads every message after seq that the filter matches, and the
// last message after seq of each subject of others, in stream order. Its cost
// depends on the matching messages alone, not on the length of the stream. The
// error is ErrTooMany if the filter matches more than a server reads at once.
//
// The read holds one invariant: the last message of a subject hides the earlier
// ones, unless its fence proves that there are none after seq. So one request
// reads the last message of each subject, as of one moment. Each subject that
// hides messages is then read by itself, up to that moment.
//
// With seq 0, the read also asks for the server's counts of messages by
// subject. A run is usually read as a whole when an outcome of another run has
// arrived for it. That outcome is fenced by the other run's log, so its fence
// does not tell whether its own subject has earlier messages.
func (c *Conn) ReadBySubject(ctx context.Context, filter string, seq uint64, others ...string) (ms []Stored, _ error) {
	var counted counts
	both, reading := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		ms, err = c.get(reading, filter, directGet{MultiLast: append([]string{filter}, others...), Seq: seq + 1})
		return err
	})
	if seq == 0 {
		both.Go(func() (err error) {
			counted, err = count(reading, c, filter)
			return err
		})
	}
	if err := both.Wait(); err != nil || len(ms) == 0 {
		return nil, err
	}
	hiding, err := c.hiding(ctx, filter, seq, counted, slices.DeleteFunc(slices.Clone(ms), func(m Stored) bool {
		return slices.Contains(others, m.Subject)
	}))
	if err != nil {
		return nil, err
	}
	for _, last := range hiding {
		all, err := c.ScanUntil(ctx, last.Subject, seq, last.Seq)
		if err != nil {
			return nil, err
		}
		ms = append(ms, slices.DeleteFunc(all, func(m Stored) bool { return m.Seq > last.Seq })...)
	}
	return InOrder(ms), nil
}

// hiding returns the messages that hide earlier messages after seq. Last has
// the last message of each subject. If the fence of a message does not tell
// which message came before, the server's count of the subject decides. If
// counted is older than such a message, hiding asks for the counts again.
func (c *Conn) hiding(ctx context.Context, filter string, seq uint64, counted counts, last []Stored) ([]Stored, error) {
	var hiding, ambiguous []Stored
	var newest uint64
	for _, m := range last {
		before, ok := m.before()
		switch {
		case !ok:
			ambiguous = append(ambiguous, m)
			newest = max(newest, m.Seq)
		case before > seq:
			hiding = append(hiding, m)
		}
	}
	if newest > counted.last {
		var err error
		if counted, err = count(ctx, c, filter); err != nil {
			return nil, err
		}
	}
	for _, m := range ambiguous {
		if counted.subjects[m.Subject] > 1 {
			hiding = append(hiding, m)
		}
	}
	return hiding, nil
}

// counts are the numbers of messages on the subjects below a filter.
type counts struct {
	subjects map[string]uint64
	// last is the sequence up to which every message is counted.
	last uint64
}

// count asks the stream's leader for the counts of the subjects below a filter.
// The server takes the sequence before it counts.
func count(ctx context.Context, c *Conn, filter string) (counts, error) {
	stream, err := c.streams.Load().streamOf(filter)
	if err != nil {
		return counts{}, err
	}
	info, err := ask(ctx, c, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		// The library asks for the stream to make a handle, so each is
		// kept. One for a single tree is not.
		kept, ok := c.handles.Load(stream)
		if api := apiOf(c, filter); !ok || api != c.reader.api {
			made, err := streamBy(ctx, c, api, stream)
			if err != nil {
				return nil, err
			}
			if kept = made; api == c.reader.api {
				c.handles.Store(stream, made)
			}
		}
		//nolint:forcetypeassert // nothing else is stored
		return kept.(jetstream.Stream).Info(ctx, jetstream.WithSubjectFilter(filter))
	})
	if err != nil {
		return counts{}, fmt.Errorf("subjects of %s: %w", filter, err)
	}
	return counts{info.State.Subjects, info.State.LastSeq}, nil
}

// streamBy asks for a stream under a prefix of the JetStream API.
func streamBy(ctx context.Context, c *Conn, api, stream string) (jetstream.Stream, error) {
	js, err := jetstream.NewWithAPIPrefix(c.nc, api)
	if err != nil {
		return nil, err
	}
	return js.Stream(ctx, stream)
}

// InOrder sorts messages by their place in the stream, and removes second
// copies of a message.
func InOrder(ms []Stored) []Stored {
	slices.SortFunc(ms, func(a, b Stored) int { return cmp.Compare(a.Seq, b.Seq) })
	return slices.CompactFunc(ms, func(a, b Stored) bool { return a.Seq == b.Seq })
}

// Stats counts the direct gets of a connection, and everything that the server
// has sent. Reads and Messages leave out deliveries, and requests to a stream's
// leader, such as LastSeq.
type Stats struct {
	// Reads is the number of requests.
	Reads uint64
	// Messages is the number of messages that the requests returned.
	Messages uint64
	// Received is the number of all messages that the server has sent. It
	// stays the same while the server is silent.
	Received uint64
}

// Stats counts since the connection was opened.
func (c *Conn) Stats() Stats {
	return Stats{c.reader.requests.Load(), c.reader.messages.Load(), c.nc.Stats().InMsgs}
}

package bus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Fault is a way in which a stream is not as the bus needs it: a person has
// changed, emptied or removed it, or it has no room.
type Fault struct {
	Kind   FaultKind
	Stream string
	// OfRuns says that the stream holds runs. Health.Faults sets it.
	OfRuns bool
	// Problem is the fault in a sentence without its subject, the stream.
	Problem string
	// Limit is the setting or the resource that causes the fault. It may be
	// empty.
	Limit string
	// Advice says how a person corrects the fault. It is empty if a worker
	// does, or if it cannot be corrected.
	Advice string
}

// FaultKind is a kind of Fault.
type FaultKind string

const (
	// FaultMissing is a stream that does not exist any more.
	FaultMissing FaultKind = "missing"
	// FaultReplaced is a stream that was removed and made again, or
	// restored from a backup.
	FaultReplaced FaultKind = "replaced"
	// FaultRemoved is a stream of which messages were removed before their
	// age. This fault and FaultReplaced are past events. They stay until
	// the streams are provisioned again.
	FaultRemoved FaultKind = "removed"
	// FaultDrops is a stream that drops messages that workers need.
	FaultDrops FaultKind = "drops"
	// FaultSettings is a stream with other settings than the bus needs.
	// Provision and Health.Correct correct them.
	FaultSettings FaultKind = "settings"
	// FaultFull is a stream that holds as much as Provision.MaxBytes
	// allows: no new tree begins. Running trees go on.
	FaultFull FaultKind = "full"
	// FaultNoRoom is a stream that stores nothing.
	FaultNoRoom FaultKind = "no room"
)

// String is the fault in one line, for people.
func (f Fault) String() string {
	s := fmt.Sprintf("stream %s %s", f.Stream, f.Problem)
	if f.Advice != "" {
		s += "; to correct it: " + f.Advice
	}
	return s
}

// missing is the fault of a stream that does not exist any more.
func missing(stream string) Fault {
	return Fault{Kind: FaultMissing, Stream: stream, Problem: "does not exist any more: its messages are lost"}
}

// drops are the faults of a stream that drops messages that workers need: it
// has a bound beside its age, or too short an age for a tree that takes the
// longest time. A stream that refuses new messages beyond a bound drops none.
// Longest is 0 for a stream without runs.
func drops(have jetstream.StreamConfig, longest time.Duration) (all []Fault) {
	add := func(problem, limit, flag, right string) {
		all = append(all, Fault{
			Kind: FaultDrops, Stream: have.Name, Limit: limit, Problem: "drops messages that workers need " + problem,
			Advice: fmt.Sprintf("nats stream edit %s --%s=%s", have.Name, flag, right),
		})
	}
	if least := AgeFor(longest); have.MaxAge > 0 && have.MaxAge < least {
		add(fmt.Sprintf("after max-age=%s, and trees that may take %s need %s", have.MaxAge, longest, least),
			"max-age="+have.MaxAge.String(), "max-age", max(DefaultMaxAge, least).String())
	}
	if have.Discard == jetstream.DiscardNew {
		return all
	}
	for _, bound := range []struct {
		flag  string
		value int64
	}{{"max-bytes", have.MaxBytes}, {"max-msgs", have.MaxMsgs}, {"max-msgs-per-subject", have.MaxMsgsPerSubject}} {
		if bound.value > 0 {
			limit := fmt.Sprintf("%s=%d", bound.flag, bound.value)
			add("beyond "+limit, limit, bound.flag, "-1")
		}
	}
	return all
}

// settings is the fault of a stream with other settings than workers need; ok
// is false if they are right.
func settings(have, want jetstream.StreamConfig) (f Fault, ok bool) {
	var wrong []string
	for _, setting := range []struct {
		name string
		same bool
	}{
		{"subjects", slices.Equal(have.Subjects, want.Subjects)},
		{"allow-direct", have.AllowDirect == want.AllowDirect},
		{"allow-schedules", have.AllowMsgSchedules == want.AllowMsgSchedules},
		{"republish", samePublish(have.RePublish, want.RePublish)},
	} {
		if !setting.same {
			wrong = append(wrong, setting.name)
		}
	}
	limit := strings.Join(wrong, ",")
	return Fault{
		Kind: FaultSettings, Stream: have.Name, Limit: limit, Problem: "has other settings than workers need: " + limit,
	}, len(wrong) > 0
}

// leastRemoved is the smallest number of sequences at the beginning of a stream
// whose loss counts as a removal, unless the stream was emptied. Workers remove
// timers themselves, which may stand there.
const leastRemoved = 100

// lost is the fault of a stream that has lost messages between two states of
// it; ok is false if it has not. The server drops messages beyond their age.
func lost(was, is *jetstream.StreamInfo) (f Fault, ok bool) {
	if !was.Created.Equal(is.Created) {
		problem := "was removed and made again: its messages are lost"
		if isRestored(is) {
			problem = "was restored from a backup: messages that were stored since the backup are lost"
		}
		return Fault{
			Kind: FaultReplaced, Stream: is.Config.Name, Limit: "made at " + is.Created.UTC().Format(time.RFC3339),
			Problem: problem,
		}, true
	}
	first, stored := was.State.FirstSeq, was.State.FirstTime
	if was.State.Msgs == 0 {
		first, stored = was.State.LastSeq+1, was.TimeStamp
	}
	gone := is.State.FirstSeq - min(first, is.State.FirstSeq)
	// A timer alone may have been there. No timer is the first message that
	// an empty stream gets.
	emptied := was.State.Msgs != 1 && is.State.FirstSeq > max(first, was.State.LastSeq)
	age := is.Config.MaxAge
	aged := age > 0 && is.TimeStamp.Sub(stored) >= age
	return Fault{
		Kind: FaultRemoved, Stream: is.Config.Name, Limit: fmt.Sprintf("first sequence %d", is.State.FirstSeq),
		Problem: fmt.Sprintf("has lost its messages up to %d before their age: trees with a message there are lost",
			is.State.FirstSeq-1),
		Advice: "submit those trees again under other ids",
	}, (gone >= leastRemoved || emptied) && !aged && is.State.FirstSeq > 1+forgotten(is)
}

// refuses is the fault of a stream of which the server refuses writes.
func refuses(stream string, answer *jetstream.APIError) Fault {
	advice := "raise the JetStream limits of the account or the server, or remove old messages"
	if answer.ErrorCode == codeStoreRefused {
		advice = fmt.Sprintf("nats stream edit %s --max-msgs=-1 --max-bytes=-1", stream)
	}
	words := fmt.Sprintf("%s (%d)", answer.Description, answer.ErrorCode)
	return Fault{
		Kind: FaultNoRoom, Stream: stream, Limit: words, Problem: "stores nothing: the server says: " + words,
		Advice: advice,
	}
}

// unanswering is the fault of a stream that leaves writes without an answer.
func unanswering(stream string) Fault {
	return Fault{
		Kind: FaultNoRoom, Stream: stream, Limit: "disk of the server",
		Problem: "stores nothing: the server answers requests and no write, as after its disk was full",
		Advice: "make room on the disk of the NATS server, then restart that server; " +
			"with replicas, look whether most of them are there",
	}
}

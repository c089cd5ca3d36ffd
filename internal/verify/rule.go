package verify

// Rule names a rule of the stream.
type Rule string

// The rules.
const (
	Outcome     Rule = "outcome"
	Log         Rule = "log"
	Order       Rule = "order"
	Deadline    Rule = "deadline"
	AfterEnd    Rule = "after-end"
	Orphan      Rule = "orphan"
	FanOut      Rule = "fan-out"
	Mail        Rule = "mail"
	AfterCancel Rule = "tombstone"
	Limits      Rule = "limits"
	Header      Rule = "header"
	Waste       Rule = "waste"
	Effect      Rule = "effect"
	Artifact    Rule = "artifact"
	Foreign     Rule = "foreign"
	Stream      Rule = "stream"
)

// Description is a rule in one line.
type Description struct {
	Rule Rule
	Text string
}

// Rules describes every rule.
func Rules() []Description {
	return []Description{
		{Outcome, "every run that is called ends with one outcome, by its deadline; " +
			"of two the first counts (a note)"},
		{Log, "a run's log has the indexes 1, 2, 3 ... and folds to a state"},
		{Order, "the outcome in a reply slot is of that slot's call; " +
			"a log entry follows the message under which it was written"},
		{Deadline, "no call outlives its caller's decision, no turn or answer its deadline, no wait its timer"},
		{AfterEnd, "nothing is decided or called after a run's end; " +
			"no worker takes a turn after it has read the run's cancel message"},
		{Orphan, "every call was decided in its caller's log; " +
			"every outcome and log entry is of a run that was called"},
		{FanOut, "every call that is due is published; a run goes on when each call has an outcome, " +
			"when its timer fired, or when the message that it waits for is there"},
		{Mail, "a message of a run is under that run's key, once, and its log sends it before the run goes on"},
		{AfterCancel, "no model is asked for a run by a worker that knew of a cancel message of the run, " +
			"or of a run above it"},
		{Limits, "a run with a budget and all runs below it stay within its bounds " +
			"on runs, model calls and tool runs"},
		{Header, "a call's headers agree with its subject: schema, depth, limits, and where the outcome goes"},
		{Effect, "a tool whose effect may happen once is begun once, " +
			"or again if the first attempt had no effect, or a person or the tool's settings ask for it (a note)"},
		{Artifact, "an artifact that an outcome names is stored, with the bytes of its digest, as long as the tree"},
		{Waste, "no worker lets go of a run while it asks the model, " +
			"so that the model is asked again (only ever a note)"},
		{Foreign, "the stream holds only messages of workers and clients, " +
			"and none is a dead letter (only ever a note)"},
		{Stream, "no stream drops messages of running trees, and none has lost messages before their age"},
	}
}

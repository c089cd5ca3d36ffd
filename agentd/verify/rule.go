package verify

// Rule names what was broken.
type Rule string

// The rules.
const (
	Outcome   Rule = "outcome"
	Log       Rule = "log"
	Order     Rule = "order"
	Deadline  Rule = "deadline"
	AfterEnd  Rule = "after-end"
	Orphan    Rule = "orphan"
	FanOut    Rule = "fan-out"
	Mail      Rule = "mail"
	Tombstone Rule = "tombstone"
	Limits    Rule = "limits"
	Header    Rule = "header"
	Foreign   Rule = "foreign"
)

// Description is a rule in one line.
type Description struct {
	Rule Rule
	Text string
}

// Rules describes every rule.
func Rules() []Description {
	return []Description{
		{
			Outcome,
			"every run that is called ends with one outcome, by its deadline; of two the first counts (a note)",
		},
		{Log, "a run's log has the indexes 1, 2, 3 ... and folds to a state"},
		{Order, "an outcome is that of the call whose slot it is in; a log entry follows what it was written under"},
		{Deadline, "no call outlives its caller's decision, no turn or answer its deadline, no wait its timer"},
		{AfterEnd, "nothing is decided or called after a run's end, no turn taken by who had read its cancellation"},
		{
			Orphan,
			"every call was decided in its caller's log, every outcome and log entry is of a run that was called",
		},
		{
			FanOut,
			"every call that is due is published, and a run goes on when each has an outcome or its timer fired, approved of or written to if it waits for that",
		},
		{
			Mail,
			"what says that a run has written it is under that run's key, once, and its log sends it; no run goes on before that",
		},
		{Tombstone, "no model is asked for a run by a worker that knew of a cancellation of it, or of one above it"},
		{Limits, "a bounded run and all below it are no more runs, and ask no more often, than its bounds say"},
		{Header, "a call's headers agree with its subject: schema, depth, limits, and where the outcome goes"},
		{Foreign, "the stream holds what workers write, and none of it was given up (only ever a note)"},
	}
}

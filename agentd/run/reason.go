package run

import (
	"fmt"
	"time"
)

// Reason is a code for the rule that ended a run, beside its Kind. It is empty
// if the kind is enough, and in messages of versions that had no reasons.
// Programs decide by codes. The texts beside them are for people and models.
type Reason string

// The reasons. All of them are of the kind KindCancelled.
const (
	// ReasonParentAnswered: the parent answered before its fork had ended.
	ReasonParentAnswered Reason = "parent_answered"
	// ReasonParentEnded: the parent failed.
	ReasonParentEnded Reason = "parent_ended"
	// ReasonInterrupted: a person interrupted the run or its parent.
	ReasonInterrupted Reason = "interrupted"
	// ReasonKilled: another run killed the run.
	ReasonKilled Reason = "killed"
)

// EndInterrupted is the end of work that an interrupt has stopped.
func EndInterrupted() End {
	return End{Kind: KindCancelled, Reason: ReasonInterrupted, Text: TextInterrupted}
}

// EndKilled is the end of a run that another run, at by, has killed.
func EndKilled(by string) End {
	return End{Kind: KindCancelled, Reason: ReasonKilled, Text: textKilled + by}
}

// EndTimeout is the end of a run that had no more than the allowed time.
func EndTimeout(allowed time.Duration) End {
	return End{Kind: KindTimeout, Text: textTimeout(allowed)}
}

// EndUnknown is the end of a tool run that may have taken effect. The worker
// began it some time ago. The key is that of the call.
func EndUnknown(worker string, ago time.Duration, key string) End {
	return End{Kind: KindUnknown, Text: fmt.Sprintf(textUnknown, worker, int(ago.Seconds()), key)}
}

// EndForgotten is the end of a tool run with a task that the server does not
// know any more. The key is that of the call.
func EndForgotten(key string) End {
	return End{Kind: KindUnknown, Text: fmt.Sprintf(textForgotten, key)}
}

// endBelow is the end of the runs that work for a run that has ended.
func (s State) endBelow() End {
	if s.Phase == Completed {
		return End{Kind: KindCancelled, Reason: ReasonParentAnswered, Text: textParentAnswered}
	}
	return End{Kind: KindCancelled, Reason: ReasonParentEnded, Text: textParentEnded + s.End.Text}
}

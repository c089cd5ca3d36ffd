package toolset

import (
	"errors"

	"github.com/axebus/axe/agentd/run"
)

// ErrLost is the error of a call that was made and of which no answer came. The
// tool may have taken effect.
var ErrLost = errors.New("no answer came")

// InputError is the error of a call that goes on only after a person's answers.
// The next call has the form with the answers in Call.Filled. The form has no
// ID.
type InputError struct{ Form run.Form }

// Error says what the tool asks.
func (e *InputError) Error() string { return e.Form.String() }

package toolset

import "errors"

// ErrLost is the error of a call that was made and of which no answer came. The
// tool may have taken effect.
var ErrLost = errors.New("no answer came")

package configs

import (
	"cmp"
	"fmt"
)

// Artifacts says which results of an agent's tools become artifacts.
type Artifacts struct {
	// MaxResult is the number of bytes beyond which a result becomes an
	// artifact. Its model then reads the beginning and the end. 0 stands
	// for DefaultMaxResult.
	MaxResult int
}

// DefaultMaxResult is the default of Artifacts.MaxResult.
const DefaultMaxResult = 64 << 10

// The bounds of Artifacts.MaxResult. With less than the smaller one, a result
// would hardly have room for the note that says what is left out.
const (
	leastMaxResult = 1 << 10
	mostMaxResult  = 1 << 20
)

// Limit returns MaxResult, or its default.
func (a Artifacts) Limit() int { return cmp.Or(a.MaxResult, DefaultMaxResult) }

func checkArtifacts(a Agent) *Error {
	if n := a.Artifacts.MaxResult; n != 0 && (n < leastMaxResult || n > mostMaxResult) {
		const format = "artifacts.max_result must be 0, or %d to %d, got %d"
		return invalid("artifacts.max_result", fmt.Sprintf(format, leastMaxResult, mostMaxResult, n))
	}
	return nil
}

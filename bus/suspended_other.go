//go:build !linux

package bus

import "time"

// suspended is 0: only Linux tells for how long a machine was suspended.
func suspended() time.Duration { return 0 }

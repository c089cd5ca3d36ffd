package configs

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// ChangedKeys returns the keys of the format in which two definitions of an
// agent differ, sorted.
func ChangedKeys(before, after Agent) []string {
	old := fields(&before, toolConf(before.ToolConf))
	now := fields(&after, toolConf(after.ToolConf))
	return slices.DeleteFunc(slices.Sorted(maps.Keys(old)), func(key string) bool {
		a, errA := json.Marshal(old[key])
		b, errB := json.Marshal(now[key])
		return errA == nil && errB == nil && bytes.Equal(a, b)
	})
}

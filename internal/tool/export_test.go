package tool

import "github.com/axebus/axe/provider"

// SpawnTools is a name of this package for its external tests.
var SpawnTools = spawnTools

// ParseSlash reads the commands of a model that was taught all of them.
func ParseSlash(written string) []provider.ToolCall {
	return parseSlash(written, []string{"fork", "send", "check_mail", "wait", "kill"})
}

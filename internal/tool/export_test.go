package tool

// Names of this package for its external tests.
var (
	ParseSlash = parseSlash
	SpawnTools = spawnTools
)

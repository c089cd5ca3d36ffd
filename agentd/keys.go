package agentd

// Keys of log attributes.
const (
	keyAgent      = "agent"
	keyAgents     = "agents"
	keyCount      = "deliveries"
	keyEntries    = "entries"
	keyError      = "error"
	keyFile       = "file"
	keyKind       = "kind"
	keyRun        = "run"
	keyMaxEntries = "max_entries"
	keySeq        = "seq"
	keySubject    = "subject"
	keyTurn       = "turn"
	keyWorker     = "worker"
)

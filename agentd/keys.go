package agentd

// Keys of log attributes.
const (
	keyAgent      = "agent"
	keyCount      = "deliveries"
	keyEntries    = "entries"
	keyError      = "error"
	keyFile       = "file"
	keyKeys       = "keys"
	keyRun        = "run"
	keyMaxEntries = "max_entries"
	keySeq        = "seq"
	keySubject    = "subject"
	keyTurn       = "turn"
	keyWorker     = "worker"
)

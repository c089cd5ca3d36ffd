package agentd

// Keys of log attributes.
const (
	keyAgent   = "agent"
	keyAgents  = "agents"
	keyCount   = "deliveries"
	keyError   = "error"
	keyFile    = "file"
	keyKind    = "kind"
	keyRun     = "run"
	keySeq     = "seq"
	keySubject = "subject"
	keyTurn    = "turn"
	keyWorker  = "worker"
)

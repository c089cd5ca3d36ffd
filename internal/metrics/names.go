package metrics

import "sync"

// Bounds of the values of labels.
const (
	MaxAgents = 200
	MaxModels = 50
)

// Other is the value of a label for all names beyond a bound.
const Other = "other"

// names are the values of a label. There are no more than most, and Other.
type names struct {
	most int

	mu    sync.RWMutex
	known map[string]bool
}

func newNames(most int) *names { return &names{most: most, known: map[string]bool{}} }

// label returns the value of the label for a name: the name itself, or Other.
func (n *names) label(name string) string {
	n.mu.RLock()
	known := n.known[name]
	n.mu.RUnlock()
	if known {
		return name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known[name] || len(n.known) < n.most {
		n.known[name] = true
		return name
	}
	return Other
}

package presence

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/axebus/axe/bus"
)

// maxInline is the number of agents that an entry has room for. Each worker
// reads all entries once a second. The names of 10,000 agents would take most
// of its time, and could be larger than the server's largest message.
const maxInline = 1000

// maxListBytes bounds the size of a list of names that is read.
const maxListBytes = 64 << 20

// keepListEvery is the time after which a list is stored again. The bucket
// removes it after a day.
const keepListEvery = time.Hour

// agentList is a long list of agents.
type agentList struct {
	names []string
	has   map[string]bool
}

// listOf returns the name of the list of agents, "" if an entry has room for
// them. The name is a digest: workers with the same agents share a list.
func listOf(agents []string) string {
	if len(agents) <= maxInline {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(agents, "\n")))
	return hex.EncodeToString(sum[:16])
}

// agentLists has the lists that this process has read or stored.
type agentLists struct {
	workers *bus.Workers

	mu    sync.Mutex
	lists map[string]*agentList
	// kept has the time at which a list was stored last.
	kept map[string]time.Time
}

// maxLists bounds the number of lists in memory.
const maxLists = 64

func (l *agentLists) known(name string) *agentList {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lists[name]
}

func (l *agentLists) add(name string, names []string) *agentList {
	list := &agentList{names, make(map[string]bool, len(names))}
	for _, agent := range names {
		list.has[agent] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lists == nil || len(l.lists) >= maxLists {
		l.lists = map[string]*agentList{}
	}
	l.lists[name] = list
	return list
}

// read returns a list. A list that is not there is empty: its workers were gone
// for a day. So is one that is no list of a worker: it must not hide all other
// workers.
func (l *agentLists) read(ctx context.Context, name string) (*agentList, error) {
	if list := l.known(name); list != nil {
		return list, nil
	}
	body, ok, err := l.workers.Agents(ctx, name)
	if err != nil {
		return nil, err
	}
	if !ok {
		return &agentList{}, nil
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return &agentList{}, nil //nolint:nilerr // another writer's value
	}
	text, err := io.ReadAll(io.LimitReader(unpacked, maxListBytes))
	if err != nil {
		return &agentList{}, nil //nolint:nilerr // another writer's value
	}
	return l.add(name, strings.Split(string(text), "\n")), nil
}

// keep stores a list, unless it was stored lately.
func (l *agentLists) keep(ctx context.Context, name string, agents []string) error {
	l.mu.Lock()
	stored := l.kept[name]
	l.mu.Unlock()
	if time.Since(stored) < keepListEvery {
		return nil
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	// A buffer takes everything.
	_, _ = io.WriteString(zip, strings.Join(agents, "\n"))
	_ = zip.Close()
	if err := l.workers.PutAgents(ctx, name, packed.Bytes()); err != nil {
		return err
	}
	l.add(name, agents)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil || len(l.kept) >= maxLists {
		l.kept = map[string]time.Time{}
	}
	l.kept[name] = time.Now()
	return nil
}

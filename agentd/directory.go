package agentd

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// Card is what workers say of an agent in the bucket of known agents.
type Card struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitzero"`
	SubAgents   []string `json:"sub_agents,omitempty"`
	Digest      string   `json:"digest"` // of the agent's file
	Worker      string   `json:"worker"` // that said so last
}

// directory is this worker's copy of the bucket of known agents.
type directory struct {
	mu    sync.Mutex
	bus   *bus.Directory
	cards map[string]string // name to digest
	mine  map[string]uint64 // what this worker announced, by revision
}

func newDirectory() *directory {
	return &directory{cards: map[string]string{}, mine: map[string]uint64{}}
}

// follow keeps the copy current until ctx ends; changed is called for each name that came or went.
func (d *directory) follow(ctx context.Context, conn *bus.Conn, changed func(ctx context.Context, name string, gone bool), ready func()) error {
	dir, err := conn.Directory(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.bus = dir
	d.mu.Unlock()
	return dir.Watch(ctx, func(name string, value []byte) {
		var c Card
		gone := value == nil || json.Unmarshal(value, &c) != nil
		d.mu.Lock()
		if gone {
			delete(d.cards, name)
		} else {
			d.cards[name] = c.Digest
		}
		d.mu.Unlock()
		changed(ctx, name, gone)
	}, ready)
}

// known reports whether any worker ever announced the agent. The bucket itself has the last word
// before anybody is told no: an agent may have been announced a moment ago.
func (d *directory) known(ctx context.Context, agent string) (bool, error) {
	d.mu.Lock()
	_, ok := d.cards[agent]
	dir := d.bus
	d.mu.Unlock()
	if ok {
		return true, nil
	}
	_, _, ok, err := dir.Get(ctx, agent)
	return ok, err
}

// announced reports whether this worker has heard that some worker serves the agent.
func (d *directory) announced(agent subjects.Agent) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.cards[agent.String()]
	return ok
}

// announce says that a worker serves the agent.
func (d *directory) announce(ctx context.Context, worker string, a configs.Agent) error {
	d.mu.Lock()
	same, dir := d.cards[a.Name] == a.Digest && a.Digest != "", d.bus
	d.mu.Unlock()
	if same {
		return nil
	}
	body, err := json.Marshal(Card{a.Name, a.Description, a.SubAgents, a.Digest, worker})
	if err != nil {
		return err
	}
	rev, err := dir.Put(ctx, a.Name, body)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mine[a.Name] = rev
	d.cards[a.Name] = a.Digest
	return nil
}

// withdraw takes back what this worker announced, unless another one has announced it since. Who
// still serves the agent announces it again.
func (d *directory) withdraw(ctx context.Context, agent subjects.Agent) error {
	d.mu.Lock()
	rev, ok := d.mine[agent.String()]
	dir := d.bus
	delete(d.mine, agent.String())
	d.mu.Unlock()
	if !ok {
		return nil
	}
	return dir.Delete(ctx, agent.String(), rev)
}

package agentd

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// Card is what workers say of an agent in the bucket of known agents.
type Card struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitzero"`
	Model       string   `json:"model,omitzero"` // provider/model
	SubAgents   []string `json:"sub_agents,omitempty"`
	Digest      string   `json:"digest"` // of the agent's file
	// why nobody serves it: its file is wrong
	Problem string `json:"problem,omitzero"`
	Worker  string `json:"worker"` // that said so last
}

// card is what a worker says of an agent that it serves.
func (w *Worker) card(a configs.Agent) Card {
	return Card{
		Name: a.Name, Description: a.Description, Model: cmp.Or(w.cfg.Model, a.Model), SubAgents: a.SubAgents, Digest: a.Digest, Worker: w.cfg.Name,
	}
}

// directory is this worker's copy of the bucket of known agents.
type directory struct {
	mu    sync.Mutex
	bus   *bus.Directory
	cards map[string]Card
}

func newDirectory() *directory {
	return &directory{cards: map[string]Card{}}
}

// follow keeps the copy current until ctx ends; changed is called for each name
// that came or went.
func (d *directory) follow(
	ctx context.Context,
	conn *bus.Conn,
	changed func(name string, c Card, gone bool),
	ready func(),
) error {
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
			d.cards[name] = c
		}
		d.mu.Unlock()
		changed(name, c, gone)
	}, ready)
}

// secondLook is how long it takes a worker to announce again what another one
// has withdrawn.
const secondLook = 250 * time.Millisecond

// find is what workers say of an agent; ok is false for one that none
// announces. The bucket itself has the last word before anybody is told no,
// after a moment: the agent may just be announced, again or mended.
func (d *directory) find(ctx context.Context, agent string) (c Card, ok bool, _ error) {
	d.mu.Lock()
	c, ok = d.cards[agent]
	dir := d.bus
	d.mu.Unlock()
	for look := 0; ; look++ {
		if ok && c.Problem == "" || look == 2 {
			return c, ok, nil
		}
		if look > 0 {
			if err := bus.Pause(ctx, secondLook); err != nil {
				return Card{}, false, err
			}
		}
		value, _, there, err := dir.Get(ctx, agent)
		if err != nil {
			return Card{}, false, err
		}
		c = Card{}
		ok = there && json.Unmarshal(value, &c) == nil
	}
}

// announced reports whether this worker has heard that some worker serves the
// agent.
func (d *directory) announced(agent subjects.Agent) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, ok := d.cards[agent.String()]
	return ok && c.Problem == ""
}

// announce says what there is to say of an agent, unless it has been said. That
// its file is wrong gives way to a worker that has it right, but the first
// time: that worker may be gone, and says it again if not.
func (d *directory) announce(ctx context.Context, c Card, first bool) error {
	d.mu.Lock()
	said, ok := d.cards[c.Name]
	dir := d.bus
	d.mu.Unlock()
	if ok && said.Digest == c.Digest && said.Problem == c.Problem && c.Digest+c.Problem != "" {
		return nil
	}
	if ok && c.Problem != "" && said.Problem == "" && !first {
		return nil
	}
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if _, err := dir.Put(ctx, c.Name, body); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cards[c.Name] = c
	return nil
}

// withdraw takes back what was announced of an agent, by whomever: it may be
// gone. Who still serves the agent announces it again.
func (d *directory) withdraw(ctx context.Context, agent subjects.Agent) error {
	d.mu.Lock()
	dir := d.bus
	d.mu.Unlock()
	_, rev, ok, err := dir.Get(ctx, agent.String())
	if err != nil || !ok {
		return err
	}
	return dir.Delete(ctx, agent.String(), rev)
}

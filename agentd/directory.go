package agentd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/internal/text"
	"github.com/axebus/axe/subjects"
)

// Card is the entry of an agent or a toolset in the directory, announced by a
// worker.
type Card struct {
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	// Model is "provider/model".
	Model     string   `json:"model,omitzero"`
	SubAgents []string `json:"sub_agents,omitempty"`
	// Style has the agent's styles of delegation. Older workers leave it
	// out.
	Style []string `json:"style,omitempty"`
	// Timeout is the time in seconds of a tree with the agent as its root,
	// if the submission names none. 0 leaves it to the worker. Older
	// workers leave it out.
	Timeout int `json:"timeout,omitzero"`
	// Digest is the hash of the agent's file.
	Digest string `json:"digest"`
	// Problem says why the worker does not serve the agent: its file is
	// wrong. It is empty if the worker serves the agent.
	Problem string `json:"problem,omitzero"`
	// Worker is the name of the worker that announced the card.
	Worker string `json:"worker"`
	// Toolset is the kind of a toolset. It is empty for an agent.
	Toolset string `json:"toolset,omitzero"`
	// Tools are the tools of a toolset, in the order of its server. For an
	// agent they are the entries of its key tools: built-in tools with
	// their effects, and globs of tools of toolsets. They have no
	// definitions then.
	Tools []OfferedTool `json:"tools,omitempty"`
	// Servers names an agent's own MCP servers.
	Servers []string `json:"mcp_servers,omitempty"`
	// Required says that a run needs the tools of the toolset to start.
	Required bool `json:"required,omitzero"`
}

// maxCardText bounds each text of a card for people and models, in bytes. Any
// worker writes cards.
const maxCardText = 1000

// DecodeCard reads the card under a key of the directory. It cuts long texts.
func DecodeCard(key string, value []byte) (Card, error) {
	var c Card
	if err := json.Unmarshal(value, &c); err != nil {
		return Card{}, fmt.Errorf("card of %s: %w", key, err)
	}
	if c.Name != key {
		return Card{}, fmt.Errorf("card of %s: it is the card of %s", key, text.Truncate(c.Name, maxCardText))
	}
	return c.bounded(), nil
}

// bounded returns the card with its long texts cut.
func (c Card) bounded() Card {
	c.Description = text.Truncate(c.Description, maxCardText)
	c.Problem = text.Truncate(c.Problem, maxCardText)
	return c
}

// NotAnAgent is the problem of a call of a toolset as an agent.
const NotAnAgent = "it is a toolset, and no agent"

// CallProblem says why the agent cannot be called, "" if it can.
func (c Card) CallProblem() string {
	if c.Toolset != "" {
		return NotAnAgent
	}
	return c.Problem
}

// timeout returns the time of a tree with the agent as its root. It is 0 if the
// card has none, or one that no submission may ask for.
func (c Card) timeout() time.Duration {
	if c.Timeout < 0 || c.Timeout > int(subjects.MaxTimeout/time.Second) {
		return 0
	}
	return time.Duration(c.Timeout) * time.Second
}

// directory is a worker's copy of the bucket of known agents.
type directory struct {
	mu    sync.Mutex
	bus   *bus.Directory
	cards map[string]Card
	// changes counts the changes of each agent's card that the bucket's
	// watch has shown.
	changes map[string]int
}

func newDirectory() *directory {
	return &directory{cards: map[string]Card{}, changes: map[string]int{}}
}

// follow keeps the copy current until ctx ends. It calls changed for each card
// that was put or removed, and ready when the copy is complete.
func (d *directory) follow(
	ctx context.Context, conn *bus.Conn, changed func(name string, c Card, gone bool), ready func(),
) error {
	dir, err := conn.Directory(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.bus = dir
	d.mu.Unlock()
	return dir.Watch(ctx, func(name string, value []byte) {
		c, err := DecodeCard(name, value)
		gone := value == nil || err != nil
		d.hear(name, c, gone)
		changed(name, c, gone)
	}, ready)
}

// hear changes the copy as the bucket has changed.
func (d *directory) hear(name string, c Card, gone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changes[name]++
	if gone {
		delete(d.cards, name)
	} else {
		d.cards[name] = c
	}
}

// stored changes the copy after this worker has put a card, before the watch
// shows the card. The watch had shown the given number of changes of the card
// before the put. If it has shown one since, that one may be later than the
// put, and the copy stays as it is.
func (d *directory) stored(c Card, changes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changes[c.Name] == changes {
		d.cards[c.Name] = c
	}
}

// heard returns the copy's card of an agent, and the bucket of all cards. It
// returns false if the copy has no card of the agent.
func (d *directory) heard(agent string) (c Card, ok bool, dir *bus.Directory) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, ok = d.cards[agent]
	return c, ok, d.bus
}

// reannounceDelay is the pause of find between two reads. In that time, a
// worker announces its agent again after another worker has withdrawn the
// agent.
const reannounceDelay = 250 * time.Millisecond

// find returns the card of an agent. It returns false if no worker announces
// the agent. A missing card, or a card with a problem, may be replaced at this
// moment. So find reads the bucket twice, with a pause between the reads,
// before it returns false or a card with a problem.
func (d *directory) find(ctx context.Context, agent string) (c Card, ok bool, _ error) {
	c, ok, dir := d.heard(agent)
	for reads := 0; ; reads++ {
		if ok && c.Problem == "" || reads == 2 {
			return c, ok, nil
		}
		if reads > 0 {
			if err := pause.For(ctx, reannounceDelay); err != nil {
				return Card{}, false, err
			}
		}
		value, _, found, err := dir.Get(ctx, agent)
		if err != nil {
			return Card{}, false, err
		}
		c, err = DecodeCard(agent, value)
		ok = found && err == nil
	}
}

// announced reports whether, as far as this worker has heard, some worker
// serves the agent.
func (d *directory) announced(agent subjects.Agent) bool {
	c, ok, _ := d.heard(agent.String())
	return ok && c.Problem == ""
}

// lacks reports whether the directory needs a card of this worker: it has none
// of the agent, or one with another digest, style, timeout, problem or number
// of tools. A card with neither digest nor problem is always needed. A card
// with a problem does not replace a card without one, since another worker
// serves the agent. With first, the card is the worker's first report of the
// problem and replaces every card: the other worker may be gone. A worker that
// is not gone announces its agent again.
func (d *directory) lacks(c Card, first bool) bool {
	stored, ok, _ := d.heard(c.Name)
	same := stored.Digest == c.Digest && stored.Problem == c.Problem && slices.Equal(stored.Style, c.Style) &&
		stored.Timeout == c.Timeout && len(stored.Tools) == len(c.Tools)
	if ok && same && c.Digest+c.Problem != "" {
		return false
	}
	return !ok || c.Problem == "" || stored.Problem != "" || first
}

// announcement is a card to put into the directory.
type announcement struct {
	Card
	// first marks the worker's first report of the card's problem: see
	// lacks.
	first bool
}

// announce puts cards into the directory, but for those that the directory no
// longer lacks. Several are put with one write, which is tried once: after an
// error the directory has none of them.
func (d *directory) announce(ctx context.Context, all ...announcement) error {
	bodies, changes := map[string][]byte{}, map[string]int{}
	d.mu.Lock()
	dir := d.bus
	for _, a := range all {
		changes[a.Name] = d.changes[a.Name]
	}
	d.mu.Unlock()
	for _, a := range all {
		if !d.lacks(a.Card, a.first) {
			continue
		}
		body, err := json.Marshal(a.Card)
		if err != nil {
			return err
		}
		bodies[a.Name] = body
	}
	if err := put(ctx, dir, bodies); err != nil {
		return err
	}
	for _, a := range all {
		if bodies[a.Name] != nil {
			d.stored(a.Card, changes[a.Name])
		}
	}
	return nil
}

// put stores the bodies of cards by the names of their agents.
func put(ctx context.Context, dir *bus.Directory, bodies map[string][]byte) error {
	if len(bodies) > 1 {
		return dir.PutTogether(ctx, bodies)
	}
	for name, body := range bodies {
		if _, err := dir.Put(ctx, name, body); err != nil {
			return err
		}
	}
	return nil
}

// withdraw removes the card of an agent, whichever worker put it: that worker
// may be gone. A worker that still serves the agent announces it again.
func (d *directory) withdraw(ctx context.Context, agent subjects.Agent) error {
	_, _, dir := d.heard(agent.String())
	_, rev, ok, err := dir.Get(ctx, agent.String())
	if err != nil || !ok {
		return err
	}
	return dir.Delete(ctx, agent.String(), rev)
}

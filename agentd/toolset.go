package agentd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/mcpclient"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/internal/toolset"
	"github.com/axebus/axe/secret"
	"github.com/axebus/axe/subjects"
)

const (
	// listTimeout bounds one attempt to list the tools of a toolset.
	listTimeout = 20 * time.Second
	// listRetryDelay is the pause before another attempt.
	listRetryDelay = 2 * time.Second
	// firstListTimeout is the time for which a worker waits at its start
	// until its toolsets have listed their tools.
	firstListTimeout = 10 * time.Second
	// maxCardTools bounds the definitions of a toolset's tools, in bytes:
	// all of them are in one message.
	maxCardTools = 768 << 10
)

// toolsets are the toolsets that a worker serves.
type toolsets struct {
	w *Worker
	// added has a token after replace has made sets.
	added chan struct{}

	mu sync.Mutex
	// served has the toolsets by their keys (ownKey).
	served map[string]*servedToolset
	// waiting are the toolsets that run has not taken up.
	waiting []*servedToolset
}

// servedToolset is one toolset that a worker serves.
type servedToolset struct {
	def configs.Toolset
	set toolset.Set
	// listed is closed after the first attempt to list the tools.
	listed chan struct{}
	// removed is closed when the toolset is no longer served.
	removed chan struct{}
	calls   sync.WaitGroup

	mu    sync.Mutex
	tools []toolset.Tool
	// schemas are those of the tools, in the same order.
	schemas []toolset.Schema
	err     error
}

// open makes a set of a toolset. It connects to nothing.
func (s *toolsets) open(def configs.Toolset) (toolset.Set, error) {
	switch def.Kind {
	case configs.ToolsetHTTP:
		return toolset.HTTP(def), nil
	case configs.ToolsetNATS:
		return toolset.NATS(def, s.w.conn), nil
	case configs.ToolsetRemote:
		return toolset.Remote(def, s.w.log)
	case configs.ToolsetCommand:
		return toolset.Commands(def, s.w.cfg.Sandbox.ofToolset(def, s.w.log)), nil
	case configs.ToolsetMCP:
		return mcpclient.Open(def, secret.NewRedactor(def.Secrets...).Logger(s.w.log))
	}
	return nil, fmt.Errorf("there is no kind of toolset %q", def.Kind)
}

// replace sets the served toolsets. A toolset goes on if its file did not
// change.
func (s *toolsets) replace(defs map[string]configs.Toolset) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.served
	s.served = make(map[string]*servedToolset, len(defs))
	for name, def := range defs {
		if old, ok := before[name]; ok && old.def.Digest == def.Digest && old.def.File == def.File {
			s.served[name] = old
			delete(before, name)
			continue
		}
		t := &servedToolset{def: def, listed: make(chan struct{}), removed: make(chan struct{})}
		if t.set, t.err = s.open(def); t.err != nil {
			close(t.listed)
		} else {
			s.waiting = append(s.waiting, t)
		}
		s.served[name] = t
	}
	for _, old := range before {
		close(old.removed)
	}
	pause.Notify(s.added)
}

// run lists the tools of all toolsets until ctx ends, and closes the sets.
func (s *toolsets) run(ctx context.Context) error {
	var loops sync.WaitGroup
	defer loops.Wait()
	for {
		s.mu.Lock()
		waiting := s.waiting
		s.waiting = nil
		s.mu.Unlock()
		for _, t := range waiting {
			loops.Go(func() {
				s.follow(ctx, t)
				t.calls.Wait()
				t.set.Close()
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.added:
		}
	}
}

// follow lists the tools of a toolset, again whenever they change and after
// every failure, until ctx ends or the toolset is removed.
func (s *toolsets) follow(ctx context.Context, t *servedToolset) {
	ctx, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop()
	watch.Go(func() {
		select {
		case <-t.removed:
			stop()
		case <-ctx.Done():
		}
	})
	log := s.w.log.With(slog.String(keyToolset, t.def.Name))
	for first := true; ; first = false {
		changed := t.list(ctx, log)
		if first {
			close(t.listed)
		}
		if changed {
			pause.Notify(s.w.agents.changed)
		}
		var again <-chan time.Time
		if t.failure() != nil {
			again = time.After(listRetryDelay)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.set.Changed():
		case <-again:
		}
	}
}

// list lists the tools once. It reports whether the tools or the failure are
// others than before. After a failure the toolset keeps the tools that it had.
func (t *servedToolset) list(ctx context.Context, log *slog.Logger) (changed bool) {
	limited, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	tools, err := toolset.Redacted(t.set, t.def.Secrets).Tools(limited)
	if err == nil {
		tools = t.allowed(tools)
		err = checkListed(tools)
	}
	if ctx.Err() != nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	before, failed := t.tools, t.err
	t.err = err
	if err != nil {
		if failed == nil || failed.Error() != err.Error() {
			log.WarnContext(ctx, "tools of toolset not listed, trying again", slog.Any(keyError, err))
			return true
		}
		return false
	}
	t.tools, t.schemas = tools, nil
	for _, tool := range tools {
		t.schemas = append(t.schemas, toolset.ReadSchema(tool.Schema))
	}
	changed = failed != nil || !slices.EqualFunc(before, tools, sameTool)
	if changed {
		log.InfoContext(ctx, "tools of toolset listed", slog.Int(keyTools, len(tools)))
	}
	return changed
}

func sameTool(a, b toolset.Tool) bool {
	return a.Name == b.Name && a.Description == b.Description && a.Effect == b.Effect &&
		string(a.Schema) == string(b.Schema)
}

// allowed returns the tools that the toolset's file allows.
func (t *servedToolset) allowed(tools []toolset.Tool) []toolset.Tool {
	if len(t.def.Allow) == 0 {
		return tools
	}
	return slices.DeleteFunc(
		slices.Clone(tools),
		func(tool toolset.Tool) bool { return !matches(t.def.Allow, tool.Name) },
	)
}

// matches reports whether a name matches one of some globs.
func matches(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(g string) bool { ok, _ := path.Match(g, name); return ok })
}

// checkListed refuses lists that no model could be offered.
func checkListed(tools []toolset.Tool) error {
	if len(tools) > configs.MaxToolsetTools {
		return fmt.Errorf("the toolset has %d tools, at most %d are offered: name some of them in allow",
			len(tools), configs.MaxToolsetTools)
	}
	if b, _ := json.Marshal(tools); len(b) > maxCardTools {
		return fmt.Errorf(
			"the definitions of the toolset's tools have %d bytes, at most %d: name some of them in allow",
			len(b),
			maxCardTools,
		)
	}
	return nil
}

// failure returns the failure of the last attempt to list the tools.
func (t *servedToolset) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// ownKey is the key of a toolset of one agent alone. The key of any other
// toolset is its name, which has no slash.
func ownKey(agent, server string) string { return agent + "/" + server }

// keyed returns the toolsets of some definitions by their keys, those of single
// agents included.
func keyed(defs configs.Definitions) map[string]configs.Toolset {
	all := map[string]configs.Toolset{}
	for _, t := range defs.Toolsets {
		all[t.Name] = t
	}
	for _, a := range defs.Agents {
		for _, t := range a.Servers {
			all[ownKey(a.Name, t.Name)] = t
		}
	}
	return all
}

// find returns the toolset with a key.
func (s *toolsets) find(key string) (*servedToolset, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.served[key]
	return t, ok
}

// use is find for a call. The set stays open until the caller calls
// t.calls.Done.
func (s *toolsets) use(key string) (*servedToolset, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.served[key]
	if ok {
		t.calls.Add(1)
	}
	return t, ok
}

// awaitListed waits until each toolset has tried to list its tools, at most for
// firstListTimeout.
func (s *toolsets) awaitListed(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstListTimeout)
	defer cancel()
	s.mu.Lock()
	var all []chan struct{}
	for _, t := range s.served {
		all = append(all, t.listed)
	}
	s.mu.Unlock()
	for _, listed := range all {
		select {
		case <-listed:
		case <-ctx.Done():
			return
		}
	}
}

// OfferedTool is a tool on the card of a toolset.
type OfferedTool struct {
	toolset.Tool
	// As is the tool's name for a model.
	As        string        `json:"as"`
	Timeout   time.Duration `json:"timeout_ns,omitzero"`
	OnUnknown run.OnUnknown `json:"on_unknown,omitzero"`
}

// maxModelName is the longest name of a tool that all providers accept.
const maxModelName = 64

// modelName returns a name that all providers accept: other characters than
// letters, digits, _ and - become _.
func modelName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), maxModelName)]
}

// offered returns a tool with the settings that the toolset's file gives it.
func (t *servedToolset) offered(tool toolset.Tool) OfferedTool {
	c := t.def.Tools[tool.Name]
	tool.Effect = cmp.Or(run.ToolEffect(c.Effect), tool.Effect, run.ToolOnce)
	return OfferedTool{
		Tool: tool, As: modelName(t.def.Prefix + tool.Name), Timeout: cmp.Or(c.Timeout, t.def.Timeout),
		OnUnknown: run.OnUnknown(c.OnUnknown),
	}
}

// tool returns a tool that the toolset lists, and its schema.
func (t *servedToolset) tool(name string) (OfferedTool, toolset.Schema, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.tools, func(tool toolset.Tool) bool { return tool.Name == name })
	if i < 0 {
		return OfferedTool{}, toolset.Schema{}, false
	}
	return t.offered(t.tools[i]), t.schemas[i], true
}

// card returns the card of the toolset. A toolset that never listed its tools
// has a problem. The digest covers the tools.
func (t *servedToolset) card(worker string) Card {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := Card{
		Name: t.def.Name, Description: t.def.Description, Toolset: string(t.def.Kind), Required: t.def.Required,
		Worker: worker,
	}
	if t.tools == nil {
		c.Problem = "its tools are not known yet"
		if t.err != nil {
			c.Problem = t.err.Error()
		}
		return c
	}
	c.Tools = make([]OfferedTool, len(t.tools))
	for i, tool := range t.tools {
		c.Tools[i] = t.offered(tool)
	}
	b, _ := json.Marshal(c.Tools)
	sum := sha256.Sum256(append(b, t.def.Digest...))
	c.Digest = hex.EncodeToString(sum[:])
	return c
}

// cards returns the cards of all toolsets but those of single agents.
func (s *toolsets) cards(worker string) map[subjects.Agent]Card {
	s.mu.Lock()
	defer s.mu.Unlock()
	cards := make(map[subjects.Agent]Card, len(s.served))
	for key, t := range s.served {
		if name, err := subjects.ParseAgent(key); err == nil {
			cards[name] = t.card(worker)
		}
	}
	return cards
}

// action returns the action of a call of one of the toolset's tools. Files of
// the result become artifacts.
func (t *servedToolset) action(call toolset.Call, a *artifacts) (action, error) {
	tool, schema, ok := t.tool(call.Tool)
	if !ok {
		err := fmt.Errorf("the toolset %s has no tool %q", t.def.Name, call.Tool)
		if failed := t.failure(); failed != nil {
			err = fmt.Errorf("%w; its tools are not known: %w", err, failed)
		}
		return action{}, err
	}
	if err := schema.Check(call.Arguments); err != nil {
		return action{}, err
	}
	return t.actionWith(tool.Effect, call, a), nil
}

// actionWith returns the action of a call of a tool with an effect.
func (t *servedToolset) actionWith(effect run.ToolEffect, call toolset.Call, a *artifacts) action {
	return action{
		effect: effect, key: call.Key, maxResult: configs.DefaultMaxResult,
		use: func(ctx context.Context) (string, error) {
			r, err := toolset.Redacted(t.set, t.def.Secrets).Call(ctx, call)
			var failed error // after it, no file is stored
			for _, f := range r.Files {
				var stored run.Artifact
				if failed == nil {
					stored, failed = a.storeFile(ctx, f)
				}
				if failed == nil {
					r.Text += fmt.Sprintf("\n[%s is the artifact %s]", f.Name, stored.Name)
				} else {
					r.Text += fmt.Sprintf("\n[%s could not be stored: %v]", f.Name, failed)
				}
			}
			return r.Text, err
		},
	}
}

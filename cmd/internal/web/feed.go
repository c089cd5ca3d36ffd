package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/internal/text"
	"github.com/axebus/axe/price"
	"github.com/axebus/axe/subjects"
)

// maxFed bounds the task, the result and the error of a run in a stream, in
// bytes. The whole texts are in the answer about the run.
const maxFed = 500

// feeds has a feed for each tree that somebody watches.
type feeds struct {
	client *client.Client
	prices price.Table
	ctx    context.Context //nolint:containedctx // it ends all followers, when close is called
	stop   context.CancelFunc
	// followers has the goroutines of the feeds.
	followers sync.WaitGroup

	mu  sync.Mutex
	all map[subjects.Tree]*feed
}

func newFeeds(c *client.Client, prices price.Table) *feeds {
	ctx, stop := context.WithCancel(context.Background())
	return &feeds{client: c, prices: prices, ctx: ctx, stop: stop, all: map[subjects.Tree]*feed{}}
}

// close ends all feeds, and waits for their followers.
func (fs *feeds) close() {
	fs.stop()
	fs.followers.Wait()
}

// join returns the feed of a tree, for one more watcher. The first watcher
// begins to follow the tree. The watcher has to call leave.
func (fs *feeds) join(tree subjects.Tree) *feed {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.all[tree]
	if f == nil {
		ctx, stop := context.WithCancel(fs.ctx)
		f = &feed{
			stop: stop, changed: make(chan struct{}), lines: map[subjects.Path]*fedLine{},
			seen: map[subjects.Path]string{}, prices: fs.prices,
		}
		fs.all[tree] = f
		fs.followers.Go(func() {
			defer stop()
			f.end(fs.client.Follow(ctx, tree, f.apply))
		})
		fs.followers.Go(func() { f.look(ctx, fs.client, tree) })
	}
	f.watchers++
	return f
}

// leave ends the feed of a tree with its last watcher.
func (fs *feeds) leave(tree subjects.Tree, f *feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.watchers--; f.watchers == 0 {
		f.stop()
		delete(fs.all, tree)
	}
}

// feed is a tree that is being followed, with its events in the form in which
// watchers get them. Each watcher keeps its place in the feed, so that a slow
// one delays no other.
type feed struct {
	stop   context.CancelFunc
	prices price.Table
	// watchers is guarded by the lock of feeds.
	watchers int

	mu sync.Mutex
	// changed is closed and replaced at each event.
	changed chan struct{}
	// events are the stored events so far. They are never changed.
	events []fedEvent
	tree   cli.Tree
	runs   client.RunInfos
	lines  map[subjects.Path]*fedLine
	// order has the changes of lines. A line that has changed again has a
	// later one too.
	order []change
	// version counts the changes of lines.
	version int
	// dirty has the runs that may have changed since their lines were made.
	dirty []subjects.Path
	// seen has the reports of the last look, by run.
	seen map[subjects.Path]string
	// looked says that a look has ended: the lines are those of the tree as
	// it is, and not of its beginning.
	looked bool
	ended  bool
	// stopped says that the server is about to end, and the tree goes on.
	stopped bool
	err     error
}

// fedEvent is an encoded event of a stored message.
type fedEvent struct {
	id eventID
	// last says that the tree has ended. The event comes after all others,
	// also after those of later messages.
	last bool
	data []byte
}

// eventID is the id of an event: the sequence of its message, and its number
// among the events of the message. Its text is 4711 or, for the second event,
// 4711-1.
type eventID struct {
	seq    uint64
	number int
}

// String formats an id.
func (id eventID) String() string {
	if id.number == 0 {
		return strconv.FormatUint(id.seq, 10)
	}
	return fmt.Sprintf("%d-%d", id.seq, id.number)
}

// parseEventID parses an id. It is zero for a text that is none: no event has
// the sequence 0.
func parseEventID(s string) eventID {
	seq, number, _ := strings.Cut(s, "-")
	var id eventID
	id.seq, _ = strconv.ParseUint(seq, 10, 64)
	id.number, _ = strconv.Atoi(number)
	return id
}

// isAfter reports whether a watcher that has the event with an id does not have
// this one.
func (e fedEvent) isAfter(id eventID) bool {
	if e.last {
		return e.id != id
	}
	return cmp.Or(cmp.Compare(e.id.seq, id.seq), cmp.Compare(e.id.number, id.number)) > 0
}

// fedLine is the encoded line of a run. Its version is that of the feed when it
// has changed last.
type fedLine struct {
	version int
	dirty   bool
	data    []byte
}

// change is a change of the line of a run.
type change struct {
	version int
	path    subjects.Path
}

// eventLine is an event in a stream.
type eventLine struct {
	Seq    uint64           `json:"seq"`
	Time   time.Time        `json:"time"`
	Kind   client.EventKind `json:"kind"`
	Path   string           `json:"path"`
	Agent  string           `json:"agent"`
	Turn   int              `json:"turn,omitzero"`
	Worker string           `json:"worker,omitzero"`
	By     string           `json:"by,omitzero"`
	Reason string           `json:"reason,omitzero"`
}

// apply adds an event. The follower calls it.
func (f *feed) apply(e client.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tree.Apply(e)
	f.runs.Apply(e)
	f.touchUp(e.Run.Path)
	if !e.Live() {
		f.add(e)
	}
	f.wake()
}

const (
	// lookInterval is the time between two looks at the workers.
	lookInterval = 3 * time.Second
	// lookShare bounds the time of looks at a large tree: a pause takes that
	// many times as long as the look before.
	lookShare = 30
)

// look asks the workers, until ctx ends, for the runs that they have in hand,
// and why no worker has the others. A follower that comes late has missed the
// live events that say so. One look serves all watchers.
func (f *feed) look(ctx context.Context, c *client.Client, tree subjects.Tree) {
	for {
		began := time.Now()
		// The follower tells the watchers of a tree that is not found.
		if s, err := c.Snapshot(ctx, tree); err == nil {
			if f.reach(ctx, s) {
				f.observe(s)
			}
			f.mu.Lock()
			f.looked = true
			f.wake()
			f.mu.Unlock()
		}
		if pause.For(ctx, max(lookInterval, lookShare*time.Since(began))) != nil {
			return
		}
	}
}

// reach waits until the feed has the stored events of a look. It returns false
// if the feed ends before.
func (f *feed) reach(ctx context.Context, s *client.Snapshot) bool {
	stored := 0
	for _, e := range s.Events {
		if !e.Live() {
			stored++
		}
	}
	for {
		f.mu.Lock()
		n, ended, changed := len(f.events), f.ended, f.changed
		f.mu.Unlock()
		if n >= stored || ended {
			return !ended
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// observe adds the reports of a look about runs that have not moved since, and
// whose last report was another one.
func (f *feed) observe(s *client.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := map[subjects.Path]string{}
	for _, e := range s.Events {
		path, info := e.Run.Path, f.runs.Run(e.Run.Path)
		if !e.Live() || !info.Ended.IsZero() || info.Run.Tree.IsZero() ||
			len(info.State.Turns) != len(s.State(path).Turns) {
			continue
		}
		p := e.Progress
		seen[path] = fmt.Sprint(e.Kind, e.Reason, p.Turn, p.Worker, p.Event, p.Attempt, p.Reason)
		if seen[path] == f.seen[path] {
			continue
		}
		e.State = info.State
		f.tree.Apply(e)
		f.runs.Apply(e)
		f.touchUp(path)
	}
	f.seen = seen
}

// touchUp marks the lines of a run and of those above it: the reason of a run
// names those below it that it waits for.
func (f *feed) touchUp(path subjects.Path) {
	for below := true; below; path, _, _, below = path.Parent() {
		f.touch(path)
	}
}

// touch marks the line of a run.
func (f *feed) touch(path subjects.Path) {
	l := f.lines[path]
	if l == nil {
		l = &fedLine{}
		f.lines[path] = l
	}
	if !l.dirty {
		l.dirty = true
		f.dirty = append(f.dirty, path)
	}
}

// add encodes the event of a stored message. Its id is the sequence of the
// message and, for a second event of the message, a number.
func (f *feed) add(e client.Event) {
	data, err := json.Marshal(eventLine{
		Seq: e.Seq, Time: e.Time.UTC(), Kind: e.Kind, Path: e.Run.Path.String(), Agent: e.Run.Agent.String(),
		Turn: e.Turn, Worker: e.Worker, By: e.By, Reason: short(e.Reason),
	})
	if err != nil {
		return // it has nothing that cannot be encoded
	}
	id := eventID{seq: e.Seq}
	if n := len(f.events); n > 0 && f.events[n-1].id.seq == e.Seq {
		id.number = f.events[n-1].id.number + 1
	}
	f.events = append(f.events, fedEvent{id, e.Kind == client.TreeEnded, data})
}

// wake wakes all watchers.
func (f *feed) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// end ends the feed. The error is that of the follower, nil at the end of the
// tree.
func (f *feed) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended, f.err = true, err
	if errors.Is(err, context.Canceled) {
		f.err, f.stopped = nil, true
	}
	f.wake()
}

// place is the place of a watcher in a feed.
type place struct {
	// after is the last event that the watcher had when it came.
	after   eventID
	events  int
	version int
}

// news is the part of a feed after a place.
type news struct {
	lines  [][]byte
	events []fedEvent
	ended  bool
	// stopped says that the tree goes on.
	stopped bool
	err     error
	// changed is closed when there is more.
	changed <-chan struct{}
}

// read returns the part of the feed after a place, and moves the place.
func (f *feed) read(p *place) news {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.encode(time.Now())
	n := news{ended: f.ended, stopped: f.stopped, err: f.err, changed: f.changed}
	later := func(c change, version int) int { return c.version - version }
	i, _ := slices.BinarySearchFunc(f.order, p.version+1, later)
	for _, c := range f.order[i:] {
		if l := f.lines[c.path]; l.version == c.version {
			n.lines = append(n.lines, l.data)
		}
	}
	for _, e := range f.events[p.events:] {
		if e.isAfter(p.after) {
			n.events = append(n.events, e)
		}
	}
	p.events, p.version = len(f.events), f.version
	return n
}

// encode makes the lines of the runs that have changed.
func (f *feed) encode(now time.Time) {
	for _, path := range f.dirty {
		l := f.lines[path]
		l.dirty = false
		info := f.runs.Run(path)
		if info.Run.Tree.IsZero() {
			continue // no event of the run has come yet
		}
		line := cli.RunLineOf(info, f.tree.Why(path, now), f.prices)
		if path.IsRoot() && info.Called.IsZero() && info.Ended.IsZero() {
			line.Status = string(client.TreeQueued)
		}
		line.Task, line.Result, line.Error = short(line.Task), short(line.Result), short(line.Error)
		data, err := json.Marshal(line)
		if err != nil || bytes.Equal(data, l.data) {
			continue
		}
		f.version++
		l.version, l.data = f.version, data
		f.order = append(f.order, change{f.version, path})
	}
	f.dirty = f.dirty[:0]
	if len(f.order) > 2*len(f.lines)+64 {
		f.order = slices.DeleteFunc(f.order, func(c change) bool { return f.lines[c.path].version != c.version })
	}
}

// short returns the beginning of a text.
func short(s string) string { return text.Truncate(s, maxFed) }

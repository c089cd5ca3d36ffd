package chaostest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/bustest"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// backedUp lists the streams of a backup in the order of docs/operations.md.
var backedUp = []string{"AXE_SUBMIT", "AXE_RUNS", "KV_AXE_AGENTS", "OBJ_AXE_OBJECTS"}

// lostAfter is the time from the backup to the loss of the server.
const lostAfter = 3 * time.Second

// restored loses a server with its disk while trees are under way. Another
// server takes its place, with the streams of a backup that was made before. A
// tree has its right answer, or was submitted after the backup, and its
// submitter is told that it is lost. The workers live on and know the answers
// since the backup. So the model is asked again for at most half of those
// turns.
func restored(t *testing.T, bin string, trees int) {
	t.Helper()
	if trees == 0 {
		trees = submitters
	}
	h, worker := newFleet(t, bin, t.TempDir(), time.Second)
	h.name = "restore"
	worker.agents = writeAgents(t)
	h.startFleet(t, worker)
	lead, err := subjects.ParseAgent("lead")
	if err != nil {
		t.Fatal(err)
	}
	l := &load{h: h, client: client.New(h.connect(t)), lead: lead, mayTell: true}
	ctx := t.Context()
	var load sync.WaitGroup
	load.Go(func() { l.run(ctx, trees, func() bool { return true }) })
	for h.model.count() < trees*turnsOfTree()/3 {
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	asked, err := h.loseServer(t, h.servers.nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	load.Wait()
	t.Logf("%d trees, %d of them submitted after the backup; %d requests to the model, %d between the backup and the "+
		"loss of the server; %d again", l.ended.Load(), l.told, h.model.count(), asked, h.model.extra())
	if extra := h.model.extra(); 2*extra > asked {
		t.Errorf("the model was asked again for %d turns, want at most half of the %d since the backup", extra, asked)
	}
	if len(l.wrong) > 0 {
		t.Errorf("%d trees are wrong:\n%s", len(l.wrong), strings.Join(l.wrong[:min(10, len(l.wrong))], "\n"))
	}
	if err := h.awaitQuiet(t.Context()); err != nil {
		t.Error(err)
	}
	h.verify(t)
}

// loseServer backs up the server, kills it, and starts another server with the
// restored streams at its address. It returns the number of requests to the
// model from the start of the backup to the kill.
func (h *harness) loseServer(t *testing.T, node *node) (asked int, _ error) {
	t.Helper()
	ctx := t.Context()
	nc, err := h.servers.dial()
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	before := h.model.count()
	copied, err := bustest.BackUp(ctx, nc, backedUp)
	if err != nil {
		return 0, err
	}
	h.log.log("backup of %d streams", len(copied))
	if err := pause.For(ctx, lostAfter); err != nil {
		return 0, err
	}
	node.proc.kill()
	asked = h.model.count() - before
	h.log.log("the server is lost")
	// The workers reach the other server when it has the streams.
	other := newServers(t, h.servers.group, 1, t.TempDir())
	if err := h.servers.up(ctx, other.nodes[0]); err != nil {
		return 0, err
	}
	to, err := other.dial()
	if err != nil {
		return 0, err
	}
	defer to.Close()
	if err := copied.Restore(ctx, to); err != nil {
		return 0, err
	}
	other.nodes[0].proc.kill()
	node.Store = other.nodes[0].Store
	h.log.log("the streams are restored")
	return asked, h.servers.up(ctx, node)
}

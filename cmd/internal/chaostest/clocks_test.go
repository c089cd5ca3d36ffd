package chaostest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// clocksEnv makes a short run build the programs with clocks that can be set.
const clocksEnv = "AXE_CHAOS_CLOCKS"

// clockRow is one wrong clock in a fleet of one server and three workers.
type clockRow struct {
	name string
	// worker, server and submitter are the errors of the clocks of the
	// first worker, the server, and axe-submit.
	worker, server, submitter time.Duration
	// The clock of the first worker or the server is set by this time when
	// half of the trees have ended.
	workerStep, serverStep time.Duration
	// hang says that the model does not answer for the leaves of the mids.
	// The calls of these leaves have a short timeout.
	hang bool
	// inShort says that a short run has this row.
	inShort bool
}

// hangTimeout is the timeout of a call to an agent with a model that hangs.
const hangTimeout = 4 * time.Second

var clockRows = []clockRow{
	{name: "worker +5m", worker: 5 * time.Minute},
	{name: "worker -5m", worker: -5 * time.Minute, inShort: true},
	{name: "worker +1h", worker: time.Hour},
	{name: "worker -1h", worker: -time.Hour},
	{name: "server +5m", server: 5 * time.Minute},
	{name: "server -5m", server: -5 * time.Minute},
	{name: "server +1h", server: time.Hour},
	{name: "server -1h", server: -time.Hour},
	{name: "worker set +5m", workerStep: 5 * time.Minute},
	{name: "worker set -5m", workerStep: -5 * time.Minute},
	{name: "server set +5m", serverStep: 5 * time.Minute},
	{name: "server set -5m", serverStep: -5 * time.Minute},
	{name: "submitter -5m", submitter: -5 * time.Minute},
	{name: "hang, worker +5m", worker: 5 * time.Minute, hang: true, inShort: true},
	{name: "hang, worker -5m", worker: -5 * time.Minute, hang: true},
	{name: "hang, server set +5m", serverStep: 5 * time.Minute, hang: true},
	{name: "hang, server set -5m", serverStep: -5 * time.Minute, hang: true},
}

// clocks runs the rows and prints a table of them. Without a number of trees it
// runs two rows with four trees each.
func clocks(t *testing.T, bin string, trees int) {
	t.Helper()
	short := trees == 0
	if short && os.Getenv(clocksEnv) == "" {
		t.Skip("not in a short run: the programs are built anew with clocks that can be set; set " +
			clocksEnv + "=1 to run it, or make chaos CHAOS=clocks")
	}
	if short {
		trees = 4
	}
	bin = clockBinaries(t, bin)
	table := []string{"row                    trees  wrong  lost  asked  extra  deadlines   took"}
	for _, row := range clockRows {
		if short && !row.inShort {
			continue
		}
		t.Run(row.name, func(t *testing.T) { table = append(table, row.perform(t, bin, trees)) })
	}
	t.Logf("\n%s", strings.Join(table, "\n"))
}

// fleet is the harness of a row, with the clocks of its worker and its server.
type fleet struct {
	*harness
	worker, server offClock
}

// start starts the server and three workers, the first with the clock of the
// row.
func (row clockRow) start(t *testing.T, bin string) *fleet {
	t.Helper()
	agents, store := writeAgents(t), t.TempDir()
	if err := row.setTimeouts(agents); err != nil {
		t.Fatal(err)
	}
	h, worker := newFleet(t, bin, store, 200*time.Millisecond)
	f := &fleet{harness: h, worker: newOffClock(t, row.worker), server: newOffClock(t, row.server)}
	f.name = "clocks, " + row.name
	f.log.keep = "clock"
	if row.hang {
		f.model.hangs = leafOfMid
	}
	f.pool = &workerPool{group: f.servers.group}
	f.servers.program, f.servers.env = filepath.Join(bin, "server"), []string{f.server.env()}
	if err := f.servers.up(t.Context(), f.servers.nodes[0]); err != nil {
		t.Fatal(err)
	}
	worker.agents = agents
	for i := range fleetSize {
		name := fmt.Sprintf("w%d", i+1)
		cmd := worker.named(name, "--server", f.servers.urls())
		// No call waits for a slot, so that a hang lasts for its
		// timeout.
		cmd.Args = append(cmd.Args, "--slots", strconv.Itoa(submitters*runsOfTree))
		if i == 0 {
			cmd.Env = append(cmd.Env, f.worker.env())
		}
		if _, err := f.servers.group.start(name, cmd); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// setTimeouts gives all calls of the agents in a directory a timeout: that of
// a hang for the calls of the mids if the model hangs, otherwise a long one.
func (row clockRow) setTimeouts(agents string) error {
	files, err := filepath.Glob(filepath.Join(agents, "*.toml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		timeout := 120 * time.Second
		if row.hang && filepath.Base(file) == "mid.toml" {
			timeout = hangTimeout
		}
		toml, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		toml = fmt.Appendf(toml, "[sub_agents_config]\ntimeout = %d\n", int(timeout.Seconds()))
		if err := os.WriteFile(file, toml, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// leafOfMid reports whether a run is a leaf that a mid has spawned.
func leafOfMid(label string) bool {
	at := strings.Split(label, ".")
	return len(at) == 3 && at[1] != "1"
}

// timedOut is the answer of a tree in which the leaves of the mids time out.
func timedOut(label string) string {
	answer := rightAnswer(label, 2)
	for i := range width {
		for k := range width {
			if leaf := fmt.Sprintf("%s.%d.%d", label, i, k); leafOfMid(leaf) {
				answer = strings.Replace(answer, leaf+"()", "timeout after "+hangTimeout.String(), 1)
			}
		}
	}
	return answer
}

// perform runs the trees of a row and checks their answers, their deadlines,
// the stream and the workers' logs. It returns the row of the table.
func (row clockRow) perform(t *testing.T, bin string, trees int) string {
	t.Helper()
	f := row.start(t, bin)
	conn := f.connect(t)
	lead, err := subjects.ParseAgent("lead")
	if err != nil {
		t.Fatal(err)
	}
	l := &load{h: f.harness, client: client.New(conn), lead: lead}
	if row.hang {
		l.answer = timedOut
		// On a machine under load a call is stored up to a second after
		// its deadline was computed, and the text is rounded.
		l.read = func(answer string) string {
			return strings.ReplaceAll(answer, "timeout after "+(hangTimeout-time.Second).String(),
				"timeout after "+hangTimeout.String())
		}
	}
	if row.submitter != 0 {
		l.submitter = []string{newOffClock(t, row.submitter).env()}
		l.args = []string{"--timeout", "2m"}
	}
	begin := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.lasting.Go(func() { f.reportProgress(ctx, l) })
	f.lasting.Go(func() {
		if err := row.step(ctx, f, l, trees); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	l.run(t.Context(), trees, func() bool { return true })
	took := time.Since(begin)
	row.awaitLog(t, f)
	cancel()
	f.lasting.Wait()
	if err := f.awaitQuiet(t.Context()); err != nil {
		t.Error(err)
	}
	r, err := readRecord(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	v := f.judge(l, r)
	if v.extra > 0 {
		v.blame("%d turns were asked again, though no wrong clock costs a request", v.extra)
	}
	deadlines := "-"
	if row.hang {
		least, most := f.hung(v, trees)
		deadlines = fmt.Sprintf("%+.2f..%+.2f", (least - hangTimeout).Seconds(), (most - hangTimeout).Seconds())
	}
	if len(v.wrong) > 0 {
		t.Errorf("%d faults of the product:\n%s", len(v.wrong), strings.Join(v.wrong[:min(20, len(v.wrong))], "\n"))
	}
	f.verify(t)
	line := fmt.Sprintf("%-22s %5d  %5d  %4d  %5d  %5d  %-12s %.1fs", row.name, l.ended.Load(), v.wrongAnswers, v.lost,
		v.asked, v.extra, deadlines, took.Seconds())
	t.Log(line)
	return line
}

// step sets the clock of a row with a step when half of the trees have ended.
// If the model hangs, step sets it in the middle of the first calls that hang.
func (row clockRow) step(ctx context.Context, f *fleet, l *load, trees int) error {
	half := func() bool { return int(l.ended.Load()) >= trees/2 }
	if row.hang {
		half = func() bool { return f.model.hanging() > 0 }
	}
	for !half() {
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	if row.hang {
		if err := pause.For(ctx, hangTimeout/2); err != nil {
			return err
		}
	}
	if row.workerStep != 0 {
		f.log.log("the clock of w1 is set by %s", row.workerStep)
		return f.worker.set(row.worker + row.workerStep)
	}
	if row.serverStep != 0 {
		f.log.log("the clock of the server is set by %s", row.serverStep)
		return f.server.set(row.server + row.serverStep)
	}
	return nil
}

// awaitLog waits until the first worker has logged the wrong clock, and checks
// that a worker with a right clock has not. A worker measures its clock every
// ten seconds. A wrong clock of axe-submit is not logged.
func (row clockRow) awaitLog(t *testing.T, f *fleet) {
	t.Helper()
	text := "this machine's clock differs from the server's"
	switch {
	case row.serverStep != 0:
		text = "server's clock was set"
	case row.submitter != 0:
		return
	}
	for begin := time.Now(); !f.log.saidSo("w1", text); {
		if time.Since(begin) > 15*time.Second {
			t.Errorf("the worker w1 has not logged %q", text)
			return
		}
		if err := pause.For(t.Context(), 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if off := row.worker != 0 || row.workerStep != 0; off && f.log.saidSo("w2", text) {
		t.Errorf("the worker w2 has logged %q, though its clock is right", text)
	}
}

// hanging returns the number of turns that the model was asked and will not
// answer.
func (m *model) hanging() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for key := range m.asks {
		if m.hangs(key.label) {
			n++
		}
	}
	return n
}

// hung returns the shortest and the longest time for which a worker waited for
// a model that hangs, in true time. It blames those that are off by more than a
// second.
func (f *fleet) hung(v *verdict, trees int) (least, most time.Duration) {
	f.model.mu.Lock()
	defer f.model.mu.Unlock()
	n := 0
	for key, asks := range f.model.asks {
		if !f.model.hangs(key.label) {
			continue
		}
		for _, a := range asks {
			if a.left.IsZero() {
				v.blame("the request for %s is still open", key)
				continue
			}
			took := a.left.Sub(a.begin)
			if n++; n == 1 {
				least = took
			}
			least, most = min(least, took), max(most, took)
			if (took - hangTimeout).Abs() > time.Second {
				v.blame("the model was asked for %s for %s, want %s", key, took, hangTimeout)
			}
		}
	}
	if want := trees * (width - 1) * width; n != want {
		v.blame("%d requests hung, want %d", n, want)
	}
	return least, most
}

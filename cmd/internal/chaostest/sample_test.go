package chaostest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
)

// sample holds the figures of a fleet at one moment of a soak. A figure that
// this system does not tell is 0.
type sample struct {
	at    time.Duration
	trees int64 // that have ended
	// The messages and bytes are those of the streams of trees.
	messages, bytes   float64
	consumers, timers float64
	disk              float64 // bytes of the server's store
	server, workers   processes
}

// processes holds the sums of the figures of some processes.
type processes struct{ goroutines, resident, files float64 }

// A quantity is a figure of a sample that has to level off. It may still grow
// by slack, and by a fifth.
type quantity struct {
	name  string
	of    func(sample) float64
	slack float64
	// unit divides the figure in the table.
	unit float64
}

const mib = 1 << 20

// quantities lists the columns of the table.
var quantities = []quantity{
	{"messages", func(s sample) float64 { return s.messages }, 500, 1},
	{"MiB", func(s sample) float64 { return s.bytes }, 4 * mib, mib},
	{"disk MiB", func(s sample) float64 { return s.disk }, 32 * mib, mib},
	{"consumers", func(s sample) float64 { return s.consumers }, 1, 1},
	{"timers", func(s sample) float64 { return s.timers }, 50, 1},
	{"server goroutines", func(s sample) float64 { return s.server.goroutines }, 20, 1},
	{"server RSS MiB", func(s sample) float64 { return s.server.resident }, 32 * mib, mib},
	{"server files", func(s sample) float64 { return s.server.files }, 10, 1},
	{"worker goroutines", func(s sample) float64 { return s.workers.goroutines }, 60, 1},
	{"worker RSS MiB", func(s sample) float64 { return s.workers.resident }, 48 * mib, mib},
	{"worker files", func(s sample) float64 { return s.workers.files }, 20, 1},
}

// header returns the first row of the table.
func header() string {
	var row strings.Builder
	row.WriteString("    time   trees")
	for _, q := range quantities {
		row.WriteString("  " + q.name)
	}
	return row.String()
}

// String returns a row of the table.
func (s sample) String() string {
	var row strings.Builder
	fmt.Fprintf(&row, "%8s %7d", s.at.Round(time.Second), s.trees)
	for _, q := range quantities {
		fmt.Fprintf(&row, "  %*.0f", len(q.name), q.of(s)/q.unit)
	}
	return row.String()
}

// growing describes the quantities that have not levelled off. It compares the
// means of the first and of the last third of the samples after the time from.
func growing(samples []sample, from time.Duration) (all []string) {
	for len(samples) > 0 && samples[0].at < from {
		samples = samples[1:]
	}
	third := len(samples) / 3
	if third == 0 {
		return []string{"too few samples"}
	}
	for _, q := range quantities {
		mean := func(of []sample) (m float64) {
			for _, s := range of {
				m += q.of(s) / float64(len(of))
			}
			return m
		}
		first, last := mean(samples[:third]), mean(samples[len(samples)-third:])
		if most := first*1.2 + q.slack; last > most {
			const text = "%s: %.0f in the last third of the samples, %.0f in the first, want at most %.0f"
			all = append(all, fmt.Sprintf(text, q.name, last/q.unit, first/q.unit, most/q.unit))
		}
	}
	return all
}

// measure takes a sample.
func (s *soak) measure(u bus.Usage, at time.Duration) sample {
	one := sample{at: at, trees: s.ended(), timers: float64(u.Timers), disk: diskUsage(s.servers.nodes[0].Store)}
	for _, kept := range u.Streams {
		if kept.OfTrees {
			one.messages += float64(kept.Messages)
			one.bytes += float64(kept.Bytes)
			one.consumers += float64(kept.Consumers)
		}
	}
	g := s.servers.group
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range g.alive {
		to := &one.workers
		if p.name == s.servers.nodes[0].Name {
			to = &one.server
		}
		to.goroutines += float64(s.log.traces.count(p.name))
		to.resident += resident(p.cmd.Process.Pid)
		files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
		to.files += float64(len(files))
	}
	return one
}

var residentLine = regexp.MustCompile(`(?m)^VmRSS:\s*(\d+) kB$`)

// resident returns the resident memory of a process in bytes.
func resident(pid int) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if m := residentLine.FindSubmatch(status); m != nil {
		n, _ := strconv.ParseFloat(string(m[1]), 64)
		return n * 1024
	}
	return 0
}

// diskUsage returns the size of the files below a directory. Files may come and
// go meanwhile.
func diskUsage(dir string) (size float64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it is gone
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			size += float64(info.Size())
		}
		return nil
	})
	return size
}

// schedulerTraces counts the goroutines of processes that run with
// GODEBUG=schedtrace=…,scheddetail=1. Their schedulers print a line for each.
type schedulerTraces struct {
	mu sync.Mutex
	// running counts the lines of a trace that may go on, and whole has the
	// counts of the traces before, by process.
	running, whole map[string]int
}

func newSchedulerTraces() *schedulerTraces {
	return &schedulerTraces{running: map[string]int{}, whole: map[string]int{}}
}

var (
	schedulerLine = regexp.MustCompile(`^(SCHED \d+ms: |  [PMG]\d+: )`)
	// A goroutine with the status 6 has ended.
	goroutineLine = regexp.MustCompile(`^  G\d+: status=([0-57-9]|\d\d)`)
)

// take reports whether a line is one of a scheduler, and counts it.
func (s *schedulerTraces) take(process, line string) bool {
	if !schedulerLine.MatchString(line) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case strings.HasPrefix(line, "SCHED"):
		s.whole[process], s.running[process] = s.running[process], 0
	case goroutineLine.MatchString(line):
		s.running[process]++
	}
	return true
}

// count returns the number of goroutines of a process at its last whole trace.
func (s *schedulerTraces) count(process string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whole[process]
}

// TestGrowing: a soak finds each quantity that grows, and none that only goes up
// and down.
func TestGrowing(t *testing.T) {
	t.Parallel()
	grown := map[string]func(*sample, float64){
		"messages":  func(s *sample, by float64) { s.messages *= by },
		"MiB":       func(s *sample, by float64) { s.bytes *= by },
		"disk MiB":  func(s *sample, by float64) { s.disk *= by },
		"consumers": func(s *sample, by float64) { s.consumers *= by },
		"timers":    func(s *sample, by float64) { s.timers *= by },
		"server goroutines, server RSS MiB, server files": func(s *sample, by float64) {
			s.server = processes{by * s.server.goroutines, by * s.server.resident, by * s.server.files}
		},
		"worker goroutines, worker RSS MiB, worker files": func(s *sample, by float64) {
			s.workers = processes{by * s.workers.goroutines, by * s.workers.resident, by * s.workers.files}
		},
		"": func(*sample, float64) {},
	}
	for want, grow := range grown {
		var samples []sample
		for i := range 120 {
			// The first quarter fills the streams.
			full := min(1, float64(i)/30) * (1 + 0.1*float64(i%3-1))
			s := sample{
				at: time.Duration(i) * time.Minute, messages: 30000 * full, bytes: 100 * mib * full,
				disk: 200 * mib * full, consumers: 20, timers: 400 * full,
				server: processes{100, 400 * mib * full, 60}, workers: processes{500, 300 * mib * full, 100},
			}
			grow(&s, 1+float64(i)/60)
			samples = append(samples, s)
		}
		var got []string
		for _, text := range growing(samples, 40*time.Minute) {
			name, _, _ := strings.Cut(text, ":")
			got = append(got, name)
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := growing(nil, 0); len(got) != 1 {
		t.Errorf("no sample: got %q, want that there are too few", got)
	}
}

// TestSchedulerTraces: the goroutines of a process are those of its last whole
// trace that have not ended.
func TestSchedulerTraces(t *testing.T) {
	t.Parallel()
	s := newSchedulerTraces()
	for _, line := range []string{
		"SCHED 0ms: gomaxprocs=2", "  P0: status=1", "  M4: p=nil", "  G1: status=2(chan receive) m=0",
		"  G5: status=1() m=nil", "  G6: status=6() m=nil", "SCHED 500ms: gomaxprocs=2",
		"  G1: status=2(chan receive) m=0",
	} {
		if !s.take("w1", line) {
			t.Errorf("%q is not taken", line)
		}
	}
	if s.take("w1", "time=… level=INFO") {
		t.Error("a line of the log is taken")
	}
	if got := s.count("w1"); got != 2 {
		t.Errorf("got %d goroutines, want 2", got)
	}
}

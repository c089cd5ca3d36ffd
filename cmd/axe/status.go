package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/subjects"
)

const (
	statusLong = `Show how full the bus is: the size of each stream, the rate at which messages
come and go, the oldest tree, the timers that have not fired, and the consumers
that lag. It reads sizes, and of the messages only the oldest one. So it costs
the same however many there are.

The rates are measured for --for. The growth is the size of the streams of trees
over the age of their oldest message: what one day adds. With --keep the streams
level off at the growth times --keep. If that is above a limit, the status says
in how many days the limit is reached at this rate. Limits are --keep-bytes, the
size of a stream, and the storage of the account. The disk of the server is not
one of them: ask the server's machine.

A limit that is used by 80 % or more, and one that will be reached, is a
warning: a line that begins with "!". A consumer lags if messages have waited
for it through the whole of --for.

-o json prints one object: time, seconds, streams (name, messages, bytes,
oldest, keep_s, in_per_s, out_per_s, bytes_per_s, consumers), bytes (of all
trees), growth_per_day, levels_off_at, limits (name, used, most, percent,
full_in_days), oldest (tree, time), timers, lagging (stream, name, waiting,
in_hand, again), warnings.

Exit codes: 0 shown, with warnings or without, 1 the bus could not be read, 2
usage.`

	statusExamples = `  axe status
  axe status --for 30s
  axe status -o json | jq -e '.warnings == []'`
)

func statusCommand() *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		f.Looks = true
		window := 2 * time.Second
		cmd := &cobra.Command{
			Use: "status", Short: "Show how full the bus is, and for how long it lasts",
			Long: statusLong, Example: statusExamples, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if window <= 0 {
					return cli.Usage("--for must be positive, got %s", (*cli.Seconds)(&window))
				}
				return f.Use(cmd.Context(), func(ses *cli.Session) error {
					s, err := readStatus(cmd.Context(), ses.Conn, window)
					if err != nil {
						return err
					}
					if f.Output.JSON() {
						return json.NewEncoder(cmd.OutOrStdout()).Encode(s)
					}
					return s.print(cmd.OutOrStdout())
				})
			},
		}
		cmd.Flags().Var((*cli.Seconds)(&window), "for", "time for which the rates are measured")
		f.Output.Register(cmd, "text: a page; json: one object")
		return cmd
	})
}

// status is the output of axe status.
type status struct {
	Time    time.Time      `json:"time"`
	Seconds float64        `json:"seconds"`
	Streams []streamStatus `json:"streams"`
	// Bytes is the size of the streams of trees.
	Bytes uint64 `json:"bytes"`
	// GrowthPerDay is the number of bytes that a day adds. LevelsOffAt is
	// the size at which as much goes as comes, 0 if nothing ever goes.
	GrowthPerDay float64       `json:"growth_per_day"`
	LevelsOffAt  uint64        `json:"levels_off_at,omitzero"`
	Limits       []limitStatus `json:"limits"`
	Oldest       *oldestTree   `json:"oldest,omitempty"`
	Timers       int           `json:"timers"`
	Lagging      []lagging     `json:"lagging"`
	Warnings     []string      `json:"warnings"`
}

type streamStatus struct {
	Name        string    `json:"name"`
	Messages    uint64    `json:"messages"`
	Bytes       uint64    `json:"bytes"`
	Oldest      time.Time `json:"oldest,omitzero"`
	KeepSeconds float64   `json:"keep_s,omitzero"`
	InPerS      float64   `json:"in_per_s"`
	OutPerS     float64   `json:"out_per_s"`
	BytesPerS   float64   `json:"bytes_per_s"`
	Consumers   int       `json:"consumers"`
}

type limitStatus struct {
	Name    string  `json:"name"`
	Used    uint64  `json:"used"`
	Most    uint64  `json:"most"`
	Percent float64 `json:"percent"`
	// FullInDays is null if the limit is not reached at this rate.
	FullInDays *float64 `json:"full_in_days"`
}

type oldestTree struct {
	Tree subjects.Tree `json:"tree"`
	Time time.Time     `json:"time"`
}

type lagging struct {
	Stream  string `json:"stream"`
	Name    string `json:"name"`
	Waiting uint64 `json:"waiting"`
	InHand  int    `json:"in_hand"`
	Again   int    `json:"again"`
}

// readStatus measures a bus for a time.
func readStatus(ctx context.Context, conn *bus.Conn, window time.Duration) (*status, error) {
	began := time.Now()
	was, err := bus.MeasureUsage(ctx, conn)
	if err != nil {
		return nil, err
	}
	if err := pause.For(ctx, window); err != nil {
		return nil, err
	}
	is, err := bus.MeasureUsage(ctx, conn)
	if err != nil {
		return nil, err
	}
	s := newStatus(was, is, time.Since(began))
	tree, at, ok, err := bus.OldestTree(ctx, conn)
	switch {
	case err != nil && !bus.Forbidden(err):
		return nil, err
	case ok:
		s.Oldest = &oldestTree{tree, at}
	}
	return s, nil
}

// newStatus compares two measurements.
func newStatus(was, is bus.Usage, apart time.Duration) *status {
	s := &status{
		Time: is.Time.UTC(), Seconds: apart.Seconds(), Timers: is.Timers,
		Limits: []limitStatus{}, Lagging: []lagging{}, Warnings: []string{}, // never null
	}
	before := map[string]bus.StreamUsage{}
	for _, b := range was.Streams {
		before[b.Name] = b
	}
	var oldest time.Time
	var keep time.Duration
	for _, b := range is.Streams {
		s.Streams = append(s.Streams, streamRates(before[b.Name], b, apart.Seconds()))
		if !b.OfTrees {
			continue
		}
		s.Bytes += b.Bytes
		keep = max(keep, b.Keep)
		if !b.Oldest.IsZero() && (oldest.IsZero() || b.Oldest.Before(oldest)) {
			oldest = b.Oldest
		}
	}
	s.grow(is.Time, oldest, keep)
	for _, l := range is.Limits {
		s.limit(l)
	}
	s.lag(was.Consumers, is.Consumers)
	return s
}

// streamRates are the rates of a stream between two measurements.
func streamRates(was, is bus.StreamUsage, seconds float64) streamStatus {
	in := float64(is.Last - min(was.Last, is.Last))
	return streamStatus{
		Name: is.Name, Messages: is.Messages, Bytes: is.Bytes, Oldest: is.Oldest, Consumers: is.Consumers,
		KeepSeconds: is.Keep.Seconds(), InPerS: in / seconds,
		OutPerS:   max(0, in+float64(was.Messages)-float64(is.Messages)) / seconds,
		BytesPerS: (float64(is.Bytes) - float64(was.Bytes)) / seconds,
	}
}

// leastAge is the least age of the oldest message that growth is reckoned over.
const leastAge = time.Minute

const day = 24 * time.Hour

// grow reckons the growth of the streams of trees.
func (s *status) grow(now, oldest time.Time, keep time.Duration) {
	if oldest.IsZero() {
		return
	}
	perDay := float64(s.Bytes) / max(now.Sub(oldest), leastAge).Hours() * day.Hours()
	s.GrowthPerDay = perDay
	if keep > 0 {
		s.LevelsOffAt = max(s.Bytes, uint64(perDay*keep.Hours()/day.Hours()))
	}
}

// warnAt is the part of a limit from which on its use is a warning, in percent.
const warnAt = 80

// limit adds a limit, and a warning for one that is nearly used or will be.
func (s *status) limit(l bus.Limit) {
	out := limitStatus{Name: l.Name, Used: l.Used, Most: l.Most, Percent: 100 * float64(l.Used) / float64(l.Most)}
	left := float64(l.Most) - float64(l.Used)
	// The other streams beside those of trees do not grow.
	ends := float64(s.LevelsOffAt) + float64(l.Used) - float64(s.Bytes)
	if s.GrowthPerDay > 0 && (s.LevelsOffAt == 0 || ends > float64(l.Most)) || left <= 0 {
		out.FullInDays = new(max(0, left) / max(s.GrowthPerDay, 1))
	}
	switch {
	case left <= 0:
		s.warn("%s is full: %s of %s", l.Name, bytesText(l.Used), bytesText(l.Most))
	case out.Percent >= warnAt:
		s.warn("%s is used by %.0f %%: %s of %s", l.Name, out.Percent, bytesText(l.Used), bytesText(l.Most))
	case out.FullInDays != nil && s.LevelsOffAt > 0:
		s.warn("%s will be full in %s at this rate: trees of the time of --keep need %s, and it is %s",
			l.Name, daysText(*out.FullInDays), bytesText(s.LevelsOffAt), bytesText(l.Most))
	}
	s.Limits = append(s.Limits, out)
}

func (s *status) warn(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

// lag lists the consumers for which messages have waited through both
// measurements, the longest queue first.
func (s *status) lag(was, is []bus.ConsumerUsage) {
	waited := map[[2]string]bool{}
	for _, c := range was {
		waited[[2]string{c.Stream, c.Name}] = c.Waiting > 0
	}
	for _, c := range is {
		if c.Waiting > 0 && waited[[2]string{c.Stream, c.Name}] {
			s.Lagging = append(s.Lagging, lagging(c))
		}
	}
	slices.SortStableFunc(s.Lagging, func(a, b lagging) int { return cmp.Compare(b.Waiting, a.Waiting) })
}

// shownLagging bounds the consumers that the text names.
const shownLagging = 10

// print writes the status as text.
func (s *status) print(w io.Writer) error {
	var failed []error
	line := func(format string, args ...any) {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		failed = append(failed, err)
	}
	for _, text := range s.Warnings {
		line("! %s", text)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "STREAM\tMESSAGES\tSIZE\tOLDEST\tKEPT\tIN/S\tOUT/S\tCONSUMERS")
	for _, x := range s.Streams {
		oldest, keep := "-", "for ever"
		if !x.Oldest.IsZero() {
			oldest = presence.Age(s.Time.Sub(x.Oldest))
		}
		if x.KeepSeconds > 0 {
			keep = presence.Age(time.Duration(x.KeepSeconds * float64(time.Second)))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.1f\t%.1f\t%d\n", x.Name, thousands(int(x.Messages)), bytesText(x.Bytes),
			oldest, keep, x.InPerS, x.OutPerS, x.Consumers)
	}
	failed = append(failed, t.Flush())
	growth := fmt.Sprintf("%s, %s a day", bytesText(s.Bytes), bytesText(uint64(s.GrowthPerDay)))
	if s.LevelsOffAt > 0 {
		growth += ", levels off at " + bytesText(s.LevelsOffAt)
	}
	line("trees    %s", growth)
	for _, l := range s.Limits {
		full := "not reached at this rate"
		if l.FullInDays != nil {
			full = "full in " + daysText(*l.FullInDays) + " at this rate"
		}
		line("limit    %s: %.0f %% of %s, %s", l.Name, l.Percent, bytesText(l.Most), full)
	}
	if len(s.Limits) == 0 {
		line("limit    none is set: --keep-bytes of agentd and axe provision sets one")
	}
	if s.Oldest != nil {
		line("oldest   tree %s, %s", s.Oldest.Tree, presence.Age(s.Time.Sub(s.Oldest.Time)))
	}
	line("timers   %s", thousands(s.Timers))
	for _, c := range s.Lagging[:min(len(s.Lagging), shownLagging)] {
		line("lagging  %s on %s: %d waiting, %d in hand, %d of them again", cli.Printable(c.Name), c.Stream, c.Waiting,
			c.InHand, c.Again)
	}
	if more := len(s.Lagging) - shownLagging; more > 0 {
		line("lagging  and %s more", thousands(more))
	}
	return errors.Join(failed...)
}

// bytesText is a size for people: 512 B, 3.4 MiB.
func bytesText(n uint64) string {
	value, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && value >= 1024 {
		value, units = value/1024, units[1:]
	}
	if units[0] == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[0])
}

// daysText is a time for people: 3 h, 12 days.
func daysText(days float64) string {
	if days < 2 {
		return presence.Age(time.Duration(days * float64(day)))
	}
	return fmt.Sprintf("%.0f days", days)
}

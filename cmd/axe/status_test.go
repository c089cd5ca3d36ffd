package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/bus"
)

// TestStatus: rates, growth and the time until a limit is reached follow from
// two measurements. A limit warns at 80 %, and when it will be reached.
func TestStatus(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	runs := func(messages, bytes, last uint64, keep time.Duration) bus.StreamUsage {
		return bus.StreamUsage{
			Name: "AXE_RUNS", OfTrees: true, Messages: messages, Bytes: bytes, Last: last, Keep: keep,
			Oldest: now.Add(-2 * day), Consumers: 3,
		}
	}
	consumer := func(name string, waiting uint64, inHand, again int) bus.ConsumerUsage {
		return bus.ConsumerUsage{Stream: "AXE_RUNS", Name: name, Waiting: waiting, InHand: inHand, Again: again}
	}
	const mib = 1 << 20
	for _, test := range []struct {
		name     string
		keep     time.Duration
		limit    uint64
		full     float64 // days, -1 for never
		warnings []string
	}{
		{"far", 0, 1000 * mib, 98, nil},
		{"levels off below", 10 * day, 1000 * mib, -1, nil},
		{
			"levels off above", 30 * day, 200 * mib, 18,
			[]string{"keep-bytes will be full in 18 days at this rate: " +
				"trees of the time of --keep need 300.0 MiB, and it is 200.0 MiB"},
		},
		{"nearly", 10 * day, 25 * mib, 0.5, []string{"keep-bytes is used by 80 %: 20.0 MiB of 25.0 MiB"}},
		{"just below", 2 * day, 25*mib + mib/2, -1, nil},
		{"full", 10 * day, 20 * mib, 0, []string{"keep-bytes is full: 20.0 MiB of 20.0 MiB"}},
	} {
		was := bus.Usage{
			Streams:   []bus.StreamUsage{runs(100, 20*mib-1000, 500, test.keep)},
			Consumers: []bus.ConsumerUsage{consumer("agent_a", 5, 1, 0), consumer("agent_b", 0, 1, 0)},
		}
		is := bus.Usage{
			Time: now, Streams: []bus.StreamUsage{runs(110, 20*mib, 520, test.keep)}, Timers: 7,
			Limits: []bus.Limit{{Name: "keep-bytes", Used: 20 * mib, Most: test.limit}},
			Consumers: []bus.ConsumerUsage{
				consumer("agent_a", 4, 2, 1), consumer("agent_b", 9, 0, 0), consumer("agent_c", 9, 0, 0),
			},
		}
		s := newStatus(was, is, 2*time.Second)
		x := s.Streams[0]
		if x.InPerS != 10 || x.OutPerS != 5 || x.BytesPerS != 500 || s.GrowthPerDay != 10*mib || s.Timers != 7 {
			t.Errorf("%s: %+v, growth %v", test.name, x, s.GrowthPerDay)
		}
		if full := s.Limits[0].FullInDays; (full == nil) != (test.full < 0) {
			t.Errorf("%s: full in %v, want %v", test.name, full, test.full)
		} else if full != nil && *full != test.full {
			t.Errorf("%s: full in %v days, want %v", test.name, *full, test.full)
		}
		if diff := cmp.Diff(append([]string{}, test.warnings...), s.Warnings); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", test.name, diff)
		}
		if diff := cmp.Diff([]lagging{{"AXE_RUNS", "agent_a", 4, 2, 1}}, s.Lagging); diff != "" {
			t.Errorf("%s: lagging (-want +got):\n%s", test.name, diff)
		}
		var text strings.Builder
		const line = "\nlagging  agent_a on AXE_RUNS: 4 waiting"
		if err := s.print(&text); err != nil || !strings.Contains(text.String(), line) {
			t.Errorf("%s: %v, text:\n%s", test.name, err, &text)
		}
	}
}

// TestStatusOfNothing: an empty bus has no growth, and nothing that is full.
func TestStatusOfNothing(t *testing.T) {
	empty := bus.Usage{
		Streams: []bus.StreamUsage{{Name: "AXE_RUNS", OfTrees: true}}, Limits: []bus.Limit{{Name: "account", Most: 1}},
	}
	s := newStatus(empty, empty, time.Second)
	if s.GrowthPerDay != 0 || s.Limits[0].FullInDays != nil || len(s.Warnings) > 0 {
		t.Errorf("got %+v", s)
	}
}

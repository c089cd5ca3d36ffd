package bench

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"text/tabwriter"
	"time"
)

// Metric is one figure.
type Metric struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// Unit is "s", "B", "/s", "x" for a ratio, or "" for a count.
	Unit string `json:"unit"`
	// Aim is the wanted value, for example "<= 1.3"; "": none.
	Aim string `json:"aim,omitzero"`
	// Met reports whether the value meets the aim; nil without an aim.
	Met *bool `json:"met,omitempty"`
}

func duration(name string, d time.Duration) Metric { return seconds(name, d.Seconds()) }
func seconds(name string, v float64) Metric        { return Metric{Name: name, Value: v, Unit: "s"} }

func ratio(name string, v float64) Metric { return Metric{Name: name, Value: v, Unit: "x"} }

func rate(name string, v float64) Metric  { return Metric{Name: name, Value: v, Unit: "/s"} }
func count(name string, v float64) Metric { return Metric{Name: name, Value: v} }

func size[N int64 | uint64 | float64](name string, v N) Metric {
	return Metric{Name: name, Value: float64(v), Unit: "B"}
}

// quotient is the ratio of two median durations.
func quotient(name string, a, b *runner) Metric {
	return ratio(name, a.quantile(.5).Seconds()/b.quantile(.5).Seconds())
}

func (m Metric) aim(sign string, v float64, met bool) Metric {
	m.Aim, m.Met = fmt.Sprintf("%s %g", sign, v), &met
	return m
}

// A value is rounded to two decimals before it is compared with its aim.
func (m Metric) atMost(v float64) Metric  { return m.aim("<=", v, round(m.Value) <= v) }
func (m Metric) atLeast(v float64) Metric { return m.aim(">=", v, round(m.Value) >= v) }
func (m Metric) exactly(v float64) Metric { return m.aim("=", v, round(m.Value) == v) }

func round(v float64) float64 { return math.Round(v*100) / 100 }

// text formats the value for people.
func (m Metric) text() string {
	switch {
	case m.Unit == "s" && m.Value > 0 && m.Value < 10:
		return time.Duration(m.Value * float64(time.Second)).Round(precision(m.Value)).String()
	case m.Unit == "B" && m.Value >= 1<<20:
		return fmt.Sprintf("%.1f MiB", m.Value/(1<<20))
	case m.Unit == "B" && m.Value >= 10<<10:
		return fmt.Sprintf("%.1f KiB", m.Value/(1<<10))
	case m.Unit == "B":
		return fmt.Sprintf("%.0f B", m.Value)
	case m.Unit == "/s":
		return fmt.Sprintf("%.0f/s", m.Value)
	}
	return fmt.Sprintf("%.2f%s", m.Value, m.Unit)
}

func precision(seconds float64) time.Duration {
	if seconds < .01 {
		return time.Microsecond
	}
	return 100 * time.Microsecond
}

// Result holds the metrics of a workload.
type Result struct {
	Workload string   `json:"workload"`
	About    string   `json:"about"`
	Metrics  []Metric `json:"metrics"`
}

// Report holds all results, and the machine and settings they belong to.
type Report struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	System  string `json:"system"`
	CPUs    int    `json:"cpus"`
	// Server is, for example, "its own, sync always".
	Server  string   `json:"server"`
	Slots   int      `json:"slots"`
	Latency float64  `json:"model_latency_s"`
	Results []Result `json:"results"`
}

func newReport(cfg Config) Report {
	at := "attached"
	if !cfg.Attached {
		at = "its own, sync at an interval"
		if cfg.Sync {
			at = "its own, sync always"
		}
	}
	if cfg.Partitions > 1 {
		at += fmt.Sprintf(", %d partitions", cfg.Partitions)
	}
	return Report{
		Version: cfg.Version, Go: runtime.Version(),
		System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Server: at, Slots: cfg.Slots, Latency: cfg.Latency.Seconds(),
	}
}

// Missed lists the aims that were not met.
func (r Report) Missed() (missed []string) {
	for _, result := range r.Results {
		for _, m := range result.Metrics {
			if m.Met != nil && !*m.Met {
				text := fmt.Sprintf("%s: %s must be %s, got %s", result.Workload, m.Name, m.Aim, m.text())
				missed = append(missed, text)
			}
		}
	}
	return missed
}

// Text writes the report as tables.
func (r Report) Text(w io.Writer) error {
	fmt.Fprintf(w, "axe %s, %s, %s, %d cores; server: %s; %d slots; model latency %s\n",
		r.Version, r.Go, r.System, r.CPUs, r.Server, r.Slots, time.Duration(r.Latency*float64(time.Second)))
	for _, result := range r.Results {
		fmt.Fprintf(w, "\n%s: %s\n", result.Workload, result.About)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, m := range result.Metrics {
			aim := ""
			if m.Met != nil {
				aim = map[bool]string{true: "met", false: "MISSED"}[*m.Met]
			}
			fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", m.Name, m.text(), m.Aim, aim)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

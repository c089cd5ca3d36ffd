package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// promtool runs promtool, and returns what it says.
func promtool(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("there is no promtool: Debian has it in the package prometheus")
	}
	out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %q: %v: %s", args, err, out)
	}
	return string(out)
}

// known holds metrics by their names. The names of a histogram have suffixes.
type known map[string]metric

// metric has the labels of a metric.
type metric struct{ labels []string }

var (
	metricRow  = regexp.MustCompile("(?m)^\\| `(axe_[a-z_]+)` \\| (\\w+) \\| ([a-z, -]+) \\|")
	metricName = regexp.MustCompile(`\baxe_[a-z_]+`)
	grouping   = regexp.MustCompile(`by \(([a-z, ]+)\)`)
	matchers   = regexp.MustCompile(`\baxe_[a-z_]+\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z]+)(?:=~|!~|!=|=)"`)
)

// documented returns the metrics of the documentation. A test of the metrics
// holds it to the registry.
func documented(t *testing.T) known {
	t.Helper()
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := known{}
	for _, m := range metricRow.FindAllStringSubmatch(string(page), -1) {
		labels := strings.Split(m[3], ", ")
		if m[2] != "histogram" {
			all[m[1]] = metric{labels}
			continue
		}
		all[m[1]+"_bucket"] = metric{append(labels, "le")}
		all[m[1]+"_sum"], all[m[1]+"_count"] = metric{labels}, metric{labels}
	}
	if len(all) < 20 {
		t.Fatalf("the documentation has %d metrics", len(all))
	}
	return all
}

// check reports the metrics and labels of an expression that there are not.
func (k known) check(t *testing.T, where, expr string) {
	t.Helper()
	var labels []string
	for _, name := range metricName.FindAllString(expr, -1) {
		m, ok := k[name]
		if !ok {
			t.Errorf("%s: there is no metric %s", where, name)
		}
		labels = append(labels, m.labels...)
	}
	for _, by := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(by[1], ", ") {
			if !slices.Contains(labels, label) {
				t.Errorf("%s: no metric of %q has the label %s", where, expr, label)
			}
		}
	}
	for _, set := range matchers.FindAllStringSubmatch(expr, -1) {
		for _, label := range matcher.FindAllStringSubmatch(set[1], -1) {
			if !slices.Contains(labels, label[1]) {
				t.Errorf("%s: no metric of %q has the label %s", where, expr, label[1])
			}
		}
	}
}

// TestAlerts: Prometheus loads the alert rules, and each alert fires when it
// should. Their metrics exist.
func TestAlerts(t *testing.T) {
	const file = "prometheus/axe.rules.yml"
	rules, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	for expr := range strings.SplitSeq(string(rules), "- alert:") {
		if name, rest, ok := strings.Cut(expr, "\n"); ok && strings.Contains(rest, "expr:") {
			n++
			expr, _, _ = strings.Cut(rest, "annotations:")
			documented(t).check(t, name, expr)
		}
	}
	promtool(t, "check", "rules", file)
	tested := promtool(t, "test", "rules", "testdata/axe.rules.test.yml")
	if n != 8 || !strings.Contains(tested, "SUCCESS") {
		t.Errorf("%d alerts: %s", n, tested)
	}
	cases, err := os.ReadFile("testdata/axe.rules.test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, alert := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		if !regexp.MustCompile(`alertname: ` + alert[1] + `\s+exp_alerts:`).Match(cases) {
			t.Errorf("no test has the alert %s fire", alert[1])
		}
	}
}

// dashboard has the keys of Grafana's model that the file uses.
type dashboard struct {
	UID           string                    `json:"uid"`
	Title         string                    `json:"title"`
	Tags          []string                  `json:"tags"`
	SchemaVersion int                       `json:"schemaVersion"`
	Version       int                       `json:"version"`
	Editable      bool                      `json:"editable"`
	Timezone      string                    `json:"timezone"`
	Refresh       string                    `json:"refresh"`
	Time          struct{ From, To string } `json:"time"`
	Templating    struct {
		List []struct {
			Name       string `json:"name"`
			Type       string `json:"type"`
			Label      string `json:"label"`
			Datasource any    `json:"datasource"`
			Query      string `json:"query"`
			Refresh    int    `json:"refresh"`
			Multi      bool   `json:"multi"`
			IncludeAll bool   `json:"includeAll"`
			AllValue   string `json:"allValue"`
			Current    any    `json:"current"`
		} `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type panel struct {
	ID          int                      `json:"id"`
	Type        string                   `json:"type"`
	Title       string                   `json:"title"`
	Description string                   `json:"description"`
	Datasource  source                   `json:"datasource"`
	GridPos     struct{ H, W, X, Y int } `json:"gridPos"`
	FieldConfig any                      `json:"fieldConfig"`
	Options     any                      `json:"options"`
	Targets     []struct {
		RefID        string `json:"refId"`
		Datasource   source `json:"datasource"`
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
}

type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// TestDashboard: the dashboard has the form of Grafana's model, its panels do
// not overlap, and Prometheus reads each of its queries. Their metrics exist.
func TestDashboard(t *testing.T) {
	f, err := os.Open("grafana/axe.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dec := json.NewDecoder(f)
	dec.DisallowUnknownFields()
	var d dashboard
	if err := dec.Decode(&d); err != nil {
		t.Fatal(err)
	}
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 36 || len(d.Panels) < 10 {
		t.Errorf("the dashboard is %+v", d)
	}
	metrics := documented(t)
	for _, v := range d.Templating.List {
		if name := metricName.FindString(v.Query); name != "" {
			metrics.check(t, v.Name, name)
		}
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || p.Description == "" || p.Datasource.UID != "${datasource}" {
			t.Errorf("the panel %d %q lacks an id of its own, a text or the data source", p.ID, p.Title)
		}
		ids[p.ID] = true
		at := p.GridPos
		if at.X+at.W > 24 || at.W <= 0 || at.H <= 0 {
			t.Errorf("the panel %q is at %+v, want it within 24 columns", p.Title, at)
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("the panels %q and %q overlap", other, p.Title)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if len(p.Targets) == 0 {
			t.Errorf("the panel %q has no query", p.Title)
		}
		for _, target := range p.Targets {
			metrics.check(t, p.Title, target.Expr)
			expr := strings.NewReplacer("$__rate_interval", "5m", "$agent", ".*").Replace(target.Expr)
			fmt.Fprintf(&rules, "  - {record: \"dashboard:%d:%s\", expr: %q}\n", p.ID, target.RefID, expr)
		}
	}
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}

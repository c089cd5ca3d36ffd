package web

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/httpguard"
	"github.com/axebus/axe/provider/catalog"
)

// examples is the directory of the examples, with agents whose models are
// scripts.
const examples = "../../../configs/examples"

// slowdown makes the requests of the examples long enough to be seen.
const slowdown = 4

// startExamples runs a worker with the agents of a directory of examples.
func (h *harness) startExamples(name, dir string) {
	h.t.Helper()
	dir = filepath.Join(examples, dir)
	all, err := configs.LoadAll(dir)
	if err != nil {
		h.t.Fatal(err)
	}
	models := catalog.New(catalog.Config{ScriptDir: filepath.Join(dir, "scripts"), ScriptSlowdown: slowdown})
	h.startWorkerWith(name, all, models.Open)
}

// look sets the width of the window in pixels, and the colours of the system.
func (b *browser) look(width int64, scheme string) {
	b.h.t.Helper()
	b.do(chromedp.EmulateViewport(width, 800), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// keep stores a picture of the page in the directory AXE_SCREENSHOTS.
func (b *browser) keep(name string) {
	b.h.t.Helper()
	dir := os.Getenv("AXE_SCREENSHOTS")
	if dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600)
	}
	if err != nil {
		b.h.t.Fatal(err)
	}
}

// fits waits until the page has a width in pixels, and until no part of it is
// wider.
func (b *browser) fits(width int64) {
	b.h.t.Helper()
	b.until("document.documentElement.clientWidth === %s", width)
	b.until("document.documentElement.scrollWidth <= %s", width)
	b.until("document.querySelector('main').scrollWidth <= %s", width)
}

// TestPageFits: no view is wider than a window of a desk or of a telephone, in
// light and dark. With AXE_SCREENSHOTS it stores a picture of each.
func TestPageFits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	h := &harness{t: t}
	h.open()
	h.startExamples("desk-1", ".")
	h.startExamples("desk-2", ".")
	h.startExamples("site", "supervised")
	h.serve(httpguard.Tokens{})
	h.submit("lead", "Review this repository's own files", "review7")
	h.outcome("review7")
	h.submit("mason", "Make room", "wall3")
	h.held("wall3")
	h.submit("lead", "Review the last change", "review8")
	l := h.deadLetterOf("reader", "lost1")
	b := h.browse("#/trees")
	for _, at := range []struct {
		name, view string
		sees       []string
	}{
		{"trees", "#/trees", []string{"review7", "wall3", "held for a person"}},
		{"tree", "#/tree/review7", []string{"13 of 13 ended", "correctness-reviewer"}},
		{"outline", "#/tree/review7?view=outline", []string{"13 of 13 ended"}},
		{"running", "#/tree/review8", []string{"Review the last change"}},
		{"run", "#/tree/review7/r-1-0", []string{"→ call_agent", "✓ reader"}},
		{"held", "#/held", []string{"mason", "Approve"}},
		{"held-run", "#/tree/wall3/r", []string{"Approve"}},
		{"dead", "#/dead", []string{l.Reason, "Retry"}},
		{"agents", "#/agents?sort=p95", []string{"desk-1, desk-2"}},
		{"workers", "#/workers/site", []string{"No other worker serves"}},
		{"submit", "#/submit/lead", []string{"Task"}},
		{"compare", "#/diff/review7/review8", []string{"review7"}},
	} {
		b.look(1280, "light")
		b.open(at.view)
		b.sees(at.sees...)
		for _, width := range []int64{1280, 390} {
			for _, scheme := range []string{"light", "dark"} {
				b.look(width, scheme)
				b.fits(width)
				b.keep(fmt.Sprintf("%s-%d-%s", at.name, width, scheme))
			}
		}
	}
}

// TestPageFitsWithATickAtTheEnd: a waterfall is no wider than the window where
// the last tick of its time axis stands at the end. The test stretches the times
// that the page reads, so that the tree has taken 10.01 s.
func TestPageFitsWithATickAtTheEnd(t *testing.T) {
	h := newHarness(t)
	h.serve(httpguard.Tokens{})
	h.submit("gate", "Make room", "wall1")
	<-h.gate.asked
	asked := time.Now()
	h.until("the tree has taken some time", func() bool { return time.Since(asked) > 20*time.Millisecond })
	close(h.gate.open)
	h.outcome("wall1")
	var tree struct {
		Runs []struct{ Called, Ended time.Time }
	}
	h.get("/v1/trees/wall1", &tree)
	from, to := tree.Runs[0].Called, tree.Runs[0].Ended
	b := h.browse("#/trees")
	eval[chromedp.Void](b, `void (() => {
		const parse = Date.parse, from = parse(%s), took = parse(%s) - from;
		Date.parse = (text) => from + (parse(text) - from) * 10010 / took;
	})()`, from, to)
	for _, width := range []int64{1280, 390} {
		b.look(width, "light")
		b.open("#/trees")
		b.sees("wall1")
		b.open("#/tree/wall1")
		b.until("document.querySelectorAll('.ticks i').length > 1")
		b.until("parseFloat(document.querySelector('.ticks').lastElementChild.style.left) > 99")
		b.fits(width)
	}
}

package web

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browserPatience is the longest wait for a change of a page. A browser on a
// busy machine is slow.
const browserPatience = 90 * time.Second

// browser is a page of the server in a headless Chromium.
type browser struct {
	h   *harness
	ctx context.Context //nolint:containedctx // the tab is the context

	mu sync.Mutex
	// complaints are the errors of scripts and of the policy of the page.
	complaints []string
	// clicks counts the clicks since they were last set to 0.
	clicks int
}

// chromium returns the path of the browser. Without one the test is skipped,
// unless AXE_NEED_CHROMIUM is set.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("AXE_NEED_CHROMIUM") != "" {
		t.Fatal("no Chromium is installed, and AXE_NEED_CHROMIUM is set")
	}
	t.Skip("no Chromium is installed: the page is not tested in a browser")
	return ""
}

// browse opens a view of the page of the server of serve, in a window of 1280
// by 800 pixels. The test fails at its end if a script of the page has failed,
// or has done something that the policy of the page forbids.
func (h *harness) browse(view string) *browser {
	h.t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(chromium(h.t)), chromedp.WindowSize(1280, 800), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("no-sandbox", os.Geteuid() == 0))
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(h.t.Context()), options...)
	h.t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	h.t.Cleanup(cancel)
	b := &browser{h: h, ctx: ctx}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		h.t.Fatalf("the browser: %v", err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		h.t.Fatalf("the browser: %v", err)
	}
	b.do(chromedp.Navigate(h.url + "/" + view))
	h.t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range b.complaints {
			h.t.Errorf("the page: %s", c)
		}
		if h.t.Failed() {
			h.t.Logf("the page at its end:\n%s", b.text())
		}
	})
	return b
}

// listen takes the errors that the browser reports.
func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		d := e.ExceptionDetails
		text := fmt.Sprintf("%s:%d: %s", d.URL, d.LineNumber+1, d.Text)
		if d.Exception != nil {
			text += " " + d.Exception.Description
		}
		b.complaints = append(b.complaints, text)
	case *log.EventEntryAdded:
		// A request that the server refuses is no mistake of the page.
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			b.complaints = append(b.complaints, e.Entry.Text)
		}
	}
}

// do carries out actions in the tab.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.h.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.h.t.Fatalf("the browser: %v", err)
	}
}

// text returns the text of the page, or the error.
func (b *browser) text() string {
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.hash + "\n" + document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return text
}

// eval evaluates an expression in the page. Each %s of it is an argument, as
// JSON.
func eval[T any](b *browser, expression string, args ...any) T {
	b.h.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](fill(expression, args)))
	if err != nil {
		b.h.t.Fatalf("the browser: %v: %s", err, fill(expression, args))
	}
	return v
}

func fill(expression string, args []any) string {
	for _, a := range args {
		text, _ := json.Marshal(a)
		expression = strings.Replace(expression, "%s", string(text), 1)
	}
	return expression
}

// until waits until an expression is true in the page.
func (b *browser) until(expression string, args ...any) {
	b.h.t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if eval[bool](b, "Boolean("+expression+")", args...) {
			return
		}
		if time.Since(began) > browserPatience {
			b.h.t.Fatalf("not within %s: %s", browserPatience, fill(expression, args))
		}
	}
}

// sees waits until the visible text of the page has each text.
func (b *browser) sees(texts ...string) {
	b.h.t.Helper()
	for _, text := range texts {
		b.until("document.body.innerText.replace(/\\s+/g, ' ').includes(%s)", text)
	}
}

// open goes to a view, as a link does.
func (b *browser) open(view string) {
	b.h.t.Helper()
	eval[chromedp.Void](b, "void (location.hash = %s)", view)
}

// findPlace finds an element that a person can click: it is visible, and nothing
// covers it. It prefers one with the whole text to one that has it inside, and
// one in an open dialog to all others.
const findPlace = `(() => {
  const wanted = %s;
  const top = document.querySelector('dialog[open]') ?? document;
  const all = [...top.querySelectorAll('a, button, summary, input, select, textarea, .row, label')];
  const texts = (e) => [e.innerText, e.getAttribute('aria-label'), e.placeholder].filter(Boolean)
    .map((t) => t.replace(/\s+/g, ' ').trim());
  const e = all.find((e) => texts(e).includes(wanted)) ?? all.find((e) => texts(e).some((t) => t.includes(wanted)));
  if (!e) return null;
  e.scrollIntoView({block: 'nearest', inline: 'nearest'});
  const r = e.getBoundingClientRect();
  const x = r.left + Math.min(r.width / 2, 60), y = r.top + r.height / 2;
  const hit = document.elementFromPoint(x, y);
  return hit && (e.contains(hit) || hit.contains(e)) ? [x, y] : null;
})()`

// steady is the number of looks that have to find an element at one place
// before it is clicked: a page that has just been opened still moves.
const steady = 4

// click clicks at the element with a text, with the mouse.
func (b *browser) click(text string) {
	b.h.t.Helper()
	var last []float64
	same := 0
	for began := time.Now(); ; time.Sleep(30 * time.Millisecond) {
		at := eval[[]float64](b, findPlace, text)
		if same++; len(at) == 0 || !slices.Equal(at, last) {
			last, same = at, 1
		}
		if len(at) == 2 && same == steady {
			b.clicks++
			b.do(chromedp.MouseClickXY(at[0], at[1]))
			return
		}
		if time.Since(began) > browserPatience {
			b.h.t.Fatalf("not within %s: an element with the text %q", browserPatience, text)
		}
	}
}

// keys presses keys at the element that has the focus.
func (b *browser) keys(keys string) {
	b.h.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// rows waits for a number of rows in the list of the page, and returns how many
// of them are drawn.
func (b *browser) rows(want int) int {
	b.h.t.Helper()
	b.until("document.querySelector('.row')?.getAttribute('aria-setsize') === %s", strconv.Itoa(want))
	return b.drawn()
}

// drawn returns the number of rows that are drawn.
func (b *browser) drawn() int {
	b.h.t.Helper()
	return eval[int](b, "document.querySelectorAll('.row').length")
}

package web

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/httpguard"
)

// TestPageMendsFailure: a person finds the tree that has failed, reads why, and
// submits its task again. A dead letter is retried.
func TestPageMendsFailure(t *testing.T) {
	h := newHarness(t)
	h.serve(httpguard.Tokens{})
	h.submit("echo", "fine", "good1")
	h.submit("bad", "mend the cache", "bad1")
	h.outcome("good1")
	h.outcome("bad1")
	b := h.browse("")
	b.sees("2 trees")
	b.click("At work")
	b.sees("No tree has these properties")
	b.click("Failed")
	b.sees("bad1", "broken")
	b.rows(1)
	b.click("bad1")
	b.sees("error:", "broken", "mend the cache")
	b.click("Submit again")
	b.until("document.querySelector('textarea')?.value === 'mend the cache'")
	b.click("Submit")
	b.until("/^#.tree.(?!bad1)/.test(location.hash)")
	page, err := h.Trees(t.Context(), client.TreeQuery{All: true, N: 10})
	if err != nil || len(page.Trees) != 3 || page.Trees[0].Root.Agent.String() != "bad" {
		t.Fatalf("trees %+v, %v; want a third one, of the agent bad", page.Trees, err)
	}
	b.sees(page.Trees[0].Root.Tree.String())

	l := h.deadLetter("lost1")
	b.click("Dead letters")
	b.sees(l.Reason)
	b.click("Message")
	b.sees("again")
	b.click("Retry")
	b.sees("Its task is submitted again")
	b.click("Retry")
	b.until("/^#.tree/.test(location.hash)")
	b.sees("completed")
	b.click("Dead letters")
	b.sees("retried by")
	after, err := h.Trees(t.Context(), client.TreeQuery{All: true, N: 10})
	if err != nil || len(after.Trees) != 5 { // the letter's own tree is one
		t.Errorf("%d trees, %v; want one more, which retries the letter", len(after.Trees), err)
	}
}

// TestPageDecides: a person approves a held turn and denies another one, under
// a name.
func TestPageDecides(t *testing.T) {
	h := newHarness(t)
	h.serve(httpguard.Tokens{})
	h.submit("guarded", "pay ann", "yes1")
	h.held("yes1")
	b := h.browse("")
	b.sees("is held for a person")
	b.until("document.getElementById('held-count').textContent === '1'")
	b.click("Held 1")
	b.sees("who pays?", "pay ann")
	b.click("Approve")
	b.sees("carries out 1 call")
	b.keys("Ada")
	b.keys(kb.Enter)
	if o := h.outcome("yes1"); o.Result != "after: echo: pay ann" {
		t.Errorf("outcome %+v, want that the call was carried out", o)
	}
	b.sees("Nothing waits for a person")

	h.submit("guarded", "pay bob", "no1")
	h.held("no1")
	b.open("#/tree/no1")
	b.sees("Held for a person")
	b.click("r (guarded)")
	b.click("Deny")
	b.click("Reason")
	b.keys("ask him first")
	b.click("Deny")
	o := h.outcome("no1")
	if strings.Contains(o.Result, "echo: pay bob") {
		t.Errorf("outcome %+v, want that the call was withheld", o)
	}
	b.sees("denied by Ada", "ask him first")
	by := map[string]string{}
	for _, id := range []string{"yes1", "no1"} {
		err := h.Follow(t.Context(), client.TreeID(id), func(e client.Event) {
			if e.Kind == client.Approved || e.Kind == client.Denied {
				by[id] = string(e.Kind) + " by " + e.By
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if by["yes1"] != "approved by Ada" || by["no1"] != "denied by Ada" {
		t.Errorf("decisions %v, want one of each, by Ada", by)
	}
}

// TestPageWatches: a person submits a task, watches its tree until it has
// ended, and reads a run. The page changes by itself. A page that comes late
// sees the same.
func TestPageWatches(t *testing.T) {
	h := newHarness(t)
	h.serve(httpguard.Tokens{})
	b := h.browse("#/submit/lead")
	b.click("Task")
	b.keys("words of ann")
	b.click("Submit")
	next(t, h.gate.asked)
	b.sees("waits for r-1-1 (gate)", "asks the model (worker w1")
	b.rows(3)
	b.until("document.querySelector('#row-r-1-1 .k-model')")
	late := h.browse("")
	late.sees("lead", "waits for r-1-1")
	late.click("words of ann")
	late.rows(3)
	close(h.gate.open)
	for _, page := range []*browser{b, late} {
		page.sees("3 of 3 ended", "✓ completed")
		page.until("document.querySelectorAll('.row .s-completed').length === 3")
	}
	b.keys("o")
	b.sees("together: echo: words of ann, opened")
	b.click("echo r-1-0")
	b.sees("called by", "worker w1", "echo: words of ann")
	b.keys(kb.Escape)
	b.until("!document.querySelector('.side').checkVisibility()")
	b.click("lead r ")
	b.sees("→ call_agent r-1-0", "✓ echo r-1-0")
	b.click("→ call_agent r-1-0")
	b.until("document.querySelector('.call[open] .prose').innerText.includes('words of ann')")
}

// TestPageSteers: a person writes to a run, interrupts it, and cancels the tree.
func TestPageSteers(t *testing.T) {
	h := newHarness(t)
	h.serve(httpguard.Tokens{})
	h.submit("lead", "x", "t1")
	next(t, h.gate.asked)
	b := h.browse("#/tree/t1/r-1-1")
	b.click("Cancel run")
	b.keys("too slow")
	b.click("Cancel the run")
	b.sees("cancelled")
	o := h.outcome("t1")
	if !strings.Contains(o.Result, "too slow") {
		t.Errorf("outcome %+v, want that the lead reads the reason", o)
	}

	h.submit("lead", "y", "t2")
	next(t, h.gate.asked)
	b.open("#/tree/t2")
	b.click("Cancel tree")
	b.sees("This cannot be undone")
	b.click("Cancel the tree")
	if o := h.outcome("t2"); o.Kind != "cancelled" {
		t.Errorf("outcome %+v, want a cancelled tree", o)
	}
	b.sees("✗ failed", "cancelled:")

	// A run without tools reads no mail, until a person has interrupted it.
	h.submit("lead", "z", "t3")
	next(t, h.gate.asked)
	b.open("#/tree/t3/r-1-1")
	b.click("Send mail")
	b.keys("hello")
	b.click("Send")
	b.sees("gate has no tools")
	b.click("Interrupt")
	b.sees("is idle until it gets mail")
	b.click("Interrupt")
	b.sees("is idle since")
	b.click("Send mail")
	b.keys("go on")
	b.click("Your name")
	b.keys("Ada")
	b.click("Send")
	next(t, h.gate.asked)
	b.sees("Mail from Ada", "go on")
	close(h.gate.open)
	if o := h.outcome("t3"); !strings.HasSuffix(o.Result, "opened") {
		t.Errorf("outcome %+v, want that the run has gone on", o)
	}
	b.sees("✓ completed")
}

// TestPageShowsTextAsText: texts of people, of models and of tools are texts on
// every view, and never HTML.
func TestPageShowsTextAsText(t *testing.T) {
	h := newHarness(t)
	h.serve(httpguard.Tokens{})
	h.submit("echo", hostile, "x1")
	h.submit("bad", hostile, "x2")
	h.submit("guarded", hostile, "x3")
	h.submit("writer", hostile, "x4")
	h.outcome("x1")
	h.outcome("x2")
	h.held("x3")
	h.outcome("x4")
	l := h.deadLetter("x5")
	b := h.browse("#/trees")
	for view, texts := range map[string][]string{
		"#/trees":                     {"x1", "x2", hostile},
		"#/tree/x1?view=outline":      {"echo: " + hostile},
		"#/tree/x1/r":                 {"echo: " + hostile},
		"#/tree/x2":                   {hostile},
		"#/tree/x3/r":                 {hostile, "who pays?"},
		"#/tree/x4":                   {"report.html"},
		"#/held":                      {hostile},
		"#/dead":                      {l.Reason},
		"#/agents":                    {hostile},
		"#/workers":                   {"w1"},
		"#/diff/x1/x2":                {hostile},
		"#/trees?agent=" + hostile:    {"agent"},
		"#/tree/" + hostile:           {"unknown tree"},
		"#/submit/x?again=" + hostile: {hostile},
	} {
		b.open(view)
		b.sees(texts...)
		b.until("!document.querySelector('[onerror]') && document.title !== 'taken'")
	}
}

// TestPageOfThousandRuns: the page of a tree of 1,000 runs draws the rows in
// view alone. The keys reach the last of them.
func TestPageOfThousandRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	h := newHarness(t)
	h.serve(httpguard.Tokens{})
	h.submit("wide", "x", "big1")
	h.outcome("big1")
	b := h.browse("#/tree/big1")
	if drawn := b.rows(1000); drawn > 200 {
		t.Errorf("%d rows are drawn, want at most 200", drawn)
	}
	b.keys(kb.End)
	b.until("document.querySelector('.row[aria-selected=true]')?.getAttribute('aria-posinset') === '1000'")
	if drawn := b.drawn(); drawn > 200 {
		t.Errorf("%d rows are drawn at the end, want at most 200", drawn)
	}
	b.open("#/tree/big1?view=outline")
	b.click("Agent, text or status")
	b.keys("part-777")
	b.rows(2)
	b.sees("part-777")
}

// TestPageAnswers: each of the twelve questions that the commands answer has its
// answer on the page, at most three clicks from the list of trees. See
// cmd/testdata/script/observe.txt for the commands.
func TestPageAnswers(t *testing.T) {
	h := newHarness(t)
	h.serve(httpguard.Tokens{})
	h.submit("echo", "good morning", "first")
	h.submit("echo", "good evening", "second")
	h.submit("bad", "x", "bad1")
	h.submit("gate", "y", "slow1")
	next(t, h.gate.asked)
	h.gate.open <- struct{}{}
	for _, id := range []string{"first", "second", "bad1", "slow1"} {
		h.outcome(id)
	}
	h.submit("guarded", "pay ann", "held1")
	h.held("held1")
	h.submit("lead", "be patient", "hangs")
	next(t, h.gate.asked)
	most := func(sort string) string { // the first agent in an order
		var c statisticsAnswer
		h.get("/v1/statistics?sort="+sort, &c)
		return c.Agents[0].Agent
	}
	b := h.browse("")
	firstRow := func(text string) string {
		return fill("document.querySelector('tbody tr')?.innerText.includes(%s)", []any{text})
	}
	for _, q := range []struct {
		question string
		clicks   []string
		sees     []string
		holds    string
	}{
		{"Which trees are there?", nil, []string{"6 trees", "hangs", "held1", "slow1", "bad1", "second", "first"}, ""},
		{"What does this one do now?", []string{"hangs"}, []string{"gate r-1-1", "asks the model (worker w1"}, ""},
		{
			"Why does it hang?",
			[]string{"hangs"},
			[]string{"waits for r-1-1 (gate), which asks the model (worker w1, since"},
			"",
		},
		{"What did that agent say?", []string{"first", "echo r "}, []string{"Assistant", "echo: good morning"}, ""},
		{"What did it cost?", []string{"first"}, []string{"script/echo", "tokens 3 in, 5 out", "cost 0.0080 USD"}, ""},
		{
			"Where do two trees part?",
			[]string{"first", "Compare", "second"},
			[]string{"They part in 1 place", "good morning", "good evening"},
			"",
		},
		{"Which agent is the slowest?", []string{"Agents", "slowest first"}, nil, firstRow(most("p95"))},
		{"Which one failed most today?", []string{"Agents", "most failures first"}, nil, firstRow(most("failed"))},
		{"What is held?", []string{"Held 1"}, []string{"guarded held1 r", "who pays?", "pay ann"}, ""},
		{"Who has this run in hand?", []string{"hangs", "gate r-1-1"}, []string{"worker w1"}, ""},
		{
			"What would be lost if I stop this worker?",
			[]string{"Workers"},
			[]string{"No other worker serves", "other workers go on with these runs", "hangs r-1-1"},
			"",
		},
		{"What has no worker taken yet?", []string{"Queued"}, []string{"2 trees", "new1", "new2"}, ""},
	} {
		if strings.Contains(q.question, "taken") {
			h.stopWorker()
			h.submit("echo", "wait", "new1")
			h.submit("echo", "wait", "new2")
		}
		b.open("#/trees")
		b.sees("hangs")
		b.clicks = 0
		for _, text := range q.clicks {
			b.click(text)
		}
		b.sees(q.sees...)
		if q.holds != "" {
			b.until(q.holds)
		}
		if b.clicks > 3 {
			t.Errorf("%s: %d clicks, want at most 3", q.question, b.clicks)
		}
	}
}

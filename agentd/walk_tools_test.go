package agentd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// shopTools are the tools of the toolset of a walk. The result of list is large
// and tells the calls with its key apart.
var shopTools = map[string]configs.ToolConfig{
	"get":  {Effect: configs.ToolReads},
	"list": {Effect: configs.ToolReads},
	"put":  {Effect: configs.ToolIdempotent},
	"act":  {Effect: configs.ToolOnce},
	"pay":  {Effect: configs.ToolOnce, OnUnknown: configs.UnknownAsk},
}

// shopOf is the toolset of a walk as a worker serves it. The worker's name in
// the subjects tells the service which worker calls.
func shopOf(worker string) configs.Toolset {
	tools := map[string]configs.ToolsetTool{}
	for name, c := range shopTools {
		tools[name] = configs.ToolsetTool{
			ToolConfig: c, Subject: "shop." + worker + "." + name,
			Parameters: []byte(`{"type":"object","required":["arg"],"properties":{"arg":{"type":"string"}}}`),
		}
	}
	return configs.Toolset{Name: "shop", Kind: configs.ToolsetNATS, Digest: "d", Tools: tools}
}

// shopService is the service behind the tools of a walk. It counts what happens
// outside of the workers. A call takes effect when it arrives.
type shopService struct {
	mu    sync.Mutex
	calls map[string][]shopCall // by key
	// watched counts down the calls of a worker, and then does something.
	watched map[string]*countdown
}

type countdown struct {
	left int // calls
	do   func()
}

// atCall lets the service do something when the n-th call of a worker arrives.
func (s *shopService) atCall(worker string, n int, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched[worker] = &countdown{n, do}
}

// shopCall is a call that has arrived.
type shopCall struct {
	worker, arg string
	at          time.Time
}

// openShop serves the tools of the walk until its end.
func (w *walk) openShop() {
	w.shop.calls, w.shop.watched = map[string][]shopCall{}, map[string]*countdown{}
	nc, err := nats.Connect("", nats.InProcessServer(bus.Dial{Server: w.server}))
	if err != nil {
		w.tb.Fatal(err)
	}
	context.AfterFunc(w.ctx, nc.Close)
	_, err = nc.Subscribe("shop.*.*", func(m *nats.Msg) {
		token := strings.Split(m.Subject, ".")
		arg := argOf(m.Data)
		key := m.Header.Get("Nats-Msg-Id")
		w.shop.mu.Lock()
		w.shop.calls[key] = append(w.shop.calls[key], shopCall{token[1], arg, time.Now()})
		n := len(w.shop.calls[key])
		if c := w.shop.watched[token[1]]; c != nil {
			if c.left--; c.left == 0 {
				c.do()
			}
		}
		w.shop.mu.Unlock()
		text := "did " + arg
		if token[2] == "list" {
			line := fmt.Sprintf("list %d of %s\n", n, arg)
			text = strings.Repeat(line, configs.DefaultMaxResult/len(line)+1)
		}
		latency := w.hashed(uint64(1000*(w.MaxLatency+2)), "latency", arg, n)
		time.AfterFunc(time.Duration(latency)*time.Millisecond, func() { _ = m.Respond([]byte(text)) })
	})
	if err != nil {
		w.tb.Fatal(err)
	}
}

// argOf is the argument of a call of the service; "" if there is none.
func argOf(arguments []byte) string {
	var args struct{ Arg string }
	_ = json.Unmarshal(arguments, &args)
	return args.Arg
}

// attend lets two people look for held turns and calls every few seconds until
// stop is called. Each of them decides about each, after a random time.
func (w *walk) attend() (stop func()) {
	done := make(chan struct{})
	conn := w.open(bus.Config{}) // the walk's own one measures no clock
	var people sync.WaitGroup
	people.Go(func() {
		defer conn.Close()
		c, asked := client.New(conn), map[string]bool{}
		for {
			select {
			case <-done:
				return
			case <-time.After(3 * time.Second):
			}
			turns, err := c.HeldTurns(w.ctx, subjects.Tree{})
			calls, failed := c.HeldCalls(w.ctx, subjects.Tree{})
			if err != nil || failed != nil {
				w.tb.Errorf("list what is held: %v, %v", err, failed)
				return
			}
			for _, h := range turns {
				w.askPeople(asked, h.Run, fmt.Sprint("turn", h.Turn), h.Run.Approve, func(by string) any {
					return w.approval(h, by)
				})
			}
			for _, h := range calls {
				w.askPeople(asked, h.Run, h.ID, h.Run.Settle, func(by string) any { return w.settlement(h, by) })
			}
		}
	})
	return func() { close(done); people.Wait() }
}

// askPeople lets each of two people decide about something of a run that is
// held, once.
func (w *walk) askPeople(
	asked map[string]bool, r subjects.Run, what string, at func(subjects.Key) string, decide func(by string) any,
) {
	id := r.String() + " " + what
	if asked[id] {
		return
	}
	asked[id] = true
	for _, by := range []string{"ann", "bob"} {
		body, err := json.Marshal(decide(by))
		if err != nil {
			w.tb.Errorf("a decision: %v", err)
		}
		w.writeLater(int(w.hashed(30, by, r.Path, what)), at(w.key(by+"-"+what)), string(body))
	}
}

// approval is the decision of a person about a held turn: in one of four cases
// a denial, and in another one an approval with other arguments. It may leave
// out the turn that it is about.
func (w *walk) approval(h client.HeldTurn, by string) run.Approval {
	a := run.Approval{Approve: true, By: by, Turn: h.Turn}
	if w.hashed(2, "names the turn", by, h.Run.Path, h.Turn) == 0 {
		a.Turn = 0
	}
	switch w.hashed(4, "approves", by, h.Run.Path, h.Turn) {
	case 0:
		a.Approve, a.Reason = false, "not today"
	case 1:
		a.Arguments = map[int]json.RawMessage{}
		for _, c := range h.Calls {
			if _, ok := shopTools[c.Tool]; ok {
				a.Arguments[c.Call] = json.RawMessage(`{"arg":"another thing"}`)
			}
		}
	}
	return a
}

// settlement is the decision of a person about a held call.
func (w *walk) settlement(h client.HeldCall, by string) run.Settlement {
	s := run.Settlement{By: by, Text: settledText}
	s.As = []run.SettleAs{run.SettleDone, run.SettleAgain, run.SettleFail}[w.hashed(3, "settles", by, h.Run.Path)]
	if w.hashed(2, "names the attempt", by, h.Run.Path) == 0 {
		s.Attempt = h.ID
	}
	return s
}

// toolHistory is what the stream has of a tool run.
type toolHistory struct {
	run   subjects.Run
	label string // of the run that made the call
	in    *run.ToolInput
	// begun has the workers of the attempts.
	begun []string
	// settled counts the settlements, by their kind.
	settled map[run.SettleAs]int
	outcome *run.Outcome
}

// checkTools compares the tool runs of a tree with the calls that the service
// has counted.
func (w *walk) checkTools(tree subjects.Tree, root run.Outcome) {
	if !w.Tools {
		return
	}
	known := map[string]bool{}
	for _, t := range w.toolRuns(tree) {
		key := run.ToolKey(t.run)
		known[key] = true
		w.shop.mu.Lock()
		calls := w.shop.calls[key]
		w.shop.mu.Unlock()
		if _, ok := shopTools[t.in.Name]; ok {
			w.checkCalls(t, calls)
		}
	}
	w.shop.mu.Lock()
	defer w.shop.mu.Unlock()
	for key := range w.shop.calls {
		if strings.HasPrefix(key, tree.String()+".") && !known[key] {
			w.tb.Errorf("the service was called with the key %s, which no tool run has", key)
		}
	}
	w.checkArtifacts(tree, root)
}

// checkCalls compares a tool run with the calls that the service has counted.
//
//   - Each call has the arguments of the tool run.
//   - A tool with the effect once is called at most once for each attempt on the
//     log. There is one attempt, and another one for each settlement again.
//   - The outcome is unknown only after an attempt of a worker that had a fault.
//     The result of a tool that was called is its own, unless the outcome is
//     unknown, settled by a person, or that of a run that was stopped.
//   - Workers without a fault call no tool again unless a person wants it, and
//     no worker calls one after it knows of a cancel message.
func (w *walk) checkCalls(t toolHistory, calls []shopCall) {
	fail := func(format string, args ...any) {
		w.tb.Errorf("the call %s of %s by %s, begun by %v, settled as %v, with the calls %+v and the outcome %+v: %s",
			run.ToolKey(t.run), t.in.Name, t.label, t.begun, t.settled, calls, t.outcome, fmt.Sprintf(format, args...))
	}
	arg := argOf(t.in.Arguments)
	faultless := 0
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range calls {
		if c.arg != arg {
			fail("called with %q, want %q", c.arg, arg)
		}
		for label, cancelled := range w.cancelledAt {
			if late := c.at.Sub(cancelled); isBelow(t.label, label) && late > time.Second {
				fail("called %v after the cancellation of %s", late, label)
			}
		}
		if !w.faulty[c.worker] {
			faultless++
		}
	}
	again := t.settled[run.SettleAgain]
	if faultless > 1+again {
		fail("called %d times by workers without a fault", faultless)
	}
	once := shopTools[t.in.Name].Effect == configs.ToolOnce
	if once && (len(calls) > len(t.begun) || len(t.begun) > 1+again) {
		fail("it may have taken effect more often than a person wanted")
	}
	if t.outcome == nil {
		return // checkTree reports it
	}
	settled := t.settled[run.SettleDone] > 0 && t.outcome.Result == settledText
	switch kind := t.outcome.Kind; {
	case kind == run.KindUnknown && !slices.ContainsFunc(t.begun, func(name string) bool { return w.faulty[name] }):
		fail("unknown, though no worker that began it had a fault")
	case kind == run.KindUnknown && !once:
		fail("unknown, though it may be called again")
	case kind == run.KindError:
		fail("the service never fails")
	case kind == "" && !settled && len(calls) == 0:
		fail("it has a result, and was not called")
	case kind == "" && !settled && t.in.Name != "list" && t.outcome.Result != "did "+arg:
		fail("the result is not that of its call")
	}
}

// isBelow reports whether a label is that of a run, or of a run below it.
func isBelow(label, above string) bool {
	return label == above || strings.HasPrefix(label, above+".") || strings.HasPrefix(label, above+"~")
}

// decidedTurn is the last turn of a run, with the decisions of people about it.
type decidedTurn struct {
	entry     run.Entry
	decisions []run.Approval
}

// toolRuns reads the tool runs of a tree. It checks on the way that a person
// has approved of each call of a turn that a person approves, with the
// arguments that the call has.
func (w *walk) toolRuns(tree subjects.Tree) map[subjects.Path]toolHistory {
	labels := map[subjects.Path]string{}
	tools := map[subjects.Path]toolHistory{}
	held := map[subjects.Path]*decidedTurn{} // the last turn of each run
	for _, m := range w.readTree(tree) {
		at, err := w.conn.Space().Parse(m.Subject)
		if err != nil {
			w.tb.Fatal(err)
		}
		path := at.Run.Path
		t, isTool := tools[path]
		switch at.Kind { //nolint:exhaustive // other messages have nothing to check
		case subjects.Call:
			labels[path] = labelOfTask(decoded[run.Input](w, m).Task)
		case subjects.Tool:
			in := decoded[run.Input](w, m).Tool
			caller, turn, index, _ := path.Parent()
			tools[path] = toolHistory{run: at.Run, label: labels[caller], in: in, settled: map[run.SettleAs]int{}}
			if d := held[caller]; d != nil && d.entry.Index == turn && d.entry.Approve != "" {
				w.checkApproved(at.Run, d, index, in)
			}
		case subjects.Log:
			e := decoded[run.Entry](w, m)
			held[path] = &decidedTurn{entry: e}
			if e.Kind == run.EntryStarted {
				t.begun = append(t.begun, e.Worker)
			}
		case subjects.Approve:
			a := decoded[run.Approval](w, m)
			if d := held[path]; d != nil && (a.Turn == 0 || a.Turn == d.entry.Index) {
				d.decisions = append(d.decisions, a)
			}
		case subjects.Settle:
			t.settled[decoded[run.Settlement](w, m).As]++
		case subjects.Reply:
			path = path.Child(at.Turn, at.Index)
			if t, isTool = tools[path]; isTool && t.outcome == nil {
				t.outcome = new(decoded[run.Outcome](w, m))
			}
		}
		if isTool {
			tools[path] = t
		}
	}
	return tools
}

// decoded decodes the body of a message.
func decoded[T any](w *walk, m bus.Stored) (v T) {
	body, err := w.conn.Load(w.ctx, m)
	if err == nil {
		err = json.Unmarshal(body, &v)
	}
	if err != nil {
		w.tb.Fatal(err)
	}
	return v
}

// checkApproved checks that the first decision about a turn approves of it, and
// that a call of the turn has the arguments that were approved. A turn that a
// supervisor reviews is held later than its entry is stored, so that a later
// decision may be the first one that counts.
func (w *walk) checkApproved(r subjects.Run, d *decidedTurn, index int, in *run.ToolInput) {
	counts := d.decisions[:min(1, len(d.decisions))]
	if w.Supervision != "" {
		counts = d.decisions
	}
	own, got := d.entry.Answer.ToolCalls[index].Arguments["arg"], argOf(in.Arguments)
	if !slices.ContainsFunc(counts, func(a run.Approval) bool {
		want := own
		if given, ok := a.Arguments[index]; ok {
			want = argOf(given)
		}
		return a.Approve && got == want
	}) {
		w.tb.Errorf("%s was called with %q, and the model wanted %q, though people have decided %+v",
			r, got, own, d.decisions)
	}
}

// checkArtifacts checks that the outcome of a tree names each artifact that its
// models were told of, with the bytes of the attempt that they were told of.
func (w *walk) checkArtifacts(tree subjects.Tree, root run.Outcome) {
	for _, word := range artifactWord.FindAllStringSubmatch(root.Result, -1) {
		name, number, named := word[1], word[2], names(root.Artifacts)
		if !slices.Contains(named, name) {
			w.tb.Errorf("the outcome of %s names the artifacts %v, want %s among them", tree, named, name)
		}
		text, found := w.artifact(tree, name)
		if !found || !strings.HasPrefix(text, "list "+number+" of ") {
			w.tb.Errorf("the artifact %s (found %t) begins with %.20q, want list %s", name, found, text, number)
		}
	}
}

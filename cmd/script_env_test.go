package cmd_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// waitTimeout bounds the wait of a script for an event.
const waitTimeout = 20 * time.Second

// buffer collects the output of a process.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns the output so far.
func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// testBus is a connection to the script's server, which runs in the test's own
// process.
type testBus struct {
	conn *bus.Conn
}

func startBus(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 0, "bus [streams]")
	server, err := bus.Serve(bus.ServerConfig{Listen: "127.0.0.1:0", StoreDir: ts.MkAbs("js")})
	ts.Check(err)
	ts.Defer(server.Close)
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	conn, err := bus.Open(ctx, bus.Config{Dial: bus.Dial{Server: server}})
	ts.Check(err)
	ts.Defer(conn.Close)
	if len(args) > 0 {
		ts.Check(conn.Provision(ctx, bus.Provision{}))
	}
	envOf(ts).bus = &testBus{conn}
	ts.Setenv("NATS_URL", server.URL())
}

// publish stores a message with the given headers.
func publish(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 2, "publish SUBJECT QUOTED [NAME:VALUE]…")
	text, err := strconv.Unquote(`"` + args[1] + `"`)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	m := bus.Message{Subject: args[0], Body: []byte(text)}
	for _, h := range args[2:] {
		name, value, _ := strings.Cut(h, ":")
		m.Header = append(m.Header, [2]string{name, value})
	}
	_, err = envOf(ts).bus.conn.Write(ctx, m)
	ts.Check(err)
}

// deleteStored deletes a message as nats stream rmm does. No worker deletes
// messages.
func deleteStored(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 2, "delete SUBJECT N")
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	s := stream(ctx, ts, "AXE_RUNS")
	var seq uint64
	for range number(ts, args[1]) {
		m, err := s.GetMsg(ctx, seq+1, jetstream.WithGetMsgSubject(args[0]))
		ts.Check(err)
		seq = m.Sequence
	}
	ts.Check(s.DeleteMsg(ctx, seq))
}

// purge removes all messages of a stream as nats stream purge does.
func purge(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 1, "purge STREAM")
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	ts.Check(stream(ctx, ts, args[0]).Purge(ctx))
}

// stream opens a stream with a plain NATS client.
func stream(ctx context.Context, ts *testscript.TestScript, name string) jetstream.Stream {
	nc, err := nats.Connect(ts.Getenv("NATS_URL"))
	ts.Check(err)
	ts.Defer(nc.Close)
	js, err := jetstream.New(nc)
	ts.Check(err)
	s, err := js.Stream(ctx, name)
	ts.Check(err)
	return s
}

func called(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 1 {
		args = append(args, "r")
	}
	checkUsage(ts, neg, args, 2, "called TREE [PATH]")
	tree, err := subjects.ParseTree(args[0])
	ts.Check(err)
	path, err := subjects.ParsePath(args[1])
	ts.Check(err)
	stored(ts, func(space subjects.Space) string { return space.CallOf(tree, path) }, "")
}

func ended(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 2, "ended TREE PATH")
	tree, err := subjects.ParseTree(args[0])
	ts.Check(err)
	path, err := subjects.ParsePath(args[1])
	ts.Check(err)
	parent, turn, index, _ := path.Parent()
	slot := fmt.Sprintf(".run.*.%s.%s.in.%d.%d", tree, parent, turn, index)
	stored(ts, func(space subjects.Space) string { return space.Prefix() + slot }, "")
}

// held waits for the timer of a held turn or tool run. Its body says why the
// run is held.
func held(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 1 {
		args = append(args, "r")
	}
	checkUsage(ts, neg, args, 2, "held TREE [PATH]")
	timers := ".timer.*." + args[0] + "." + args[1] + ".*"
	stored(ts, func(space subjects.Space) string { return space.Prefix() + timers }, `"why"`)
}

// stored waits for a message with a text under a subject.
func stored(ts *testscript.TestScript, subject func(subjects.Space) string, text string) {
	conn := envOf(ts).bus.conn
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	for {
		ms, err := conn.LastPerSubject(ctx, subject(conn.Space()))
		ts.Check(err)
		for _, m := range ms {
			if strings.Contains(string(m.Body), text) {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func word(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 1, "word NAME")
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

func freePort(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 1, "freeport NAME")
	ts.Setenv(args[0], unused(ts))
}

// unused returns a port on which no server listens.
func unused(ts *testscript.TestScript) string {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	ts.Check(err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	ts.Check(err)
	return port
}

// testModel is a faulty Ollama.
type testModel struct {
	// asked receives a value for each request.
	asked chan struct{}
}

// startModel starts a faulty model server:
//
//	nonsense    status 200 with a body that is no JSON
//	html        status 200 with a proxy's page
//	empty       status 200 without a body
//	denied      status 401
//	broken      status 500
//	busy        status 429
//	silent      no answer
//	cut         half an answer, cut at the limit of output tokens
//	mute        an answer without text
//	drops       the connection ends without an answer
//	refuses     no server listens
func startModel(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 1, "model HOW")
	if args[0] == "refuses" {
		ts.Setenv("AXE_OLLAMA_BASE_URL", "http://127.0.0.1:"+unused(ts))
		return
	}
	m := &testModel{make(chan struct{}, 100)}
	released := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.asked <- struct{}{}
		switch args[0] {
		case "nonsense":
			fmt.Fprint(w, `{"message": [1, 2`)
		case "html":
			fmt.Fprint(w, "<html><body>Login</body></html>")
		case "empty":
		case "denied":
			http.Error(w, `{"error":"who are you"}`, http.StatusUnauthorized)
		case "broken":
			http.Error(w, `{"error":"out of memory"}`, http.StatusInternalServerError)
		case "busy":
			http.Error(w, `{"error":"slow down"}`, http.StatusTooManyRequests)
		case "silent":
			select {
			case <-r.Context().Done():
			case <-released:
			}
		case "drops":
			panic(http.ErrAbortHandler)
		case "cut":
			fmt.Fprint(w, `{"model":"m","message":{"role":"assistant","content":"half of"},`+
				`"done":true,"done_reason":"length","prompt_eval_count":1,"eval_count":2}`)
		case "mute":
			fmt.Fprint(w, `{"model":"m","message":{"role":"assistant","content":""},`+
				`"done":true,"done_reason":"stop","prompt_eval_count":1,"eval_count":0}`)
		default:
			http.Error(w, "the script asks for "+args[0], http.StatusTeapot)
		}
	}))
	ts.Defer(func() {
		close(released)
		server.Close()
	})
	envOf(ts).model = m
	ts.Setenv("AXE_OLLAMA_BASE_URL", server.URL)
}

func asked(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 0, "asked")
	select {
	case <-envOf(ts).model.asked:
	case <-time.After(waitTimeout):
		ts.Fatalf("the model was not asked within %s", waitTimeout)
	}
}

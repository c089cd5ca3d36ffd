package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/bus/busbench"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/openai"
	"github.com/axebus/axe/subjects"
)

// order tells a part what to be: the first line of its standard input. After
// that each empty line asks what it has used, the line "rest" what it holds,
// and the end of the input is its own.
type order struct {
	Role     role   `json:"role"`
	StoreDir string `json:"store_dir,omitzero"` // of a server
	Sync     bool   `json:"sync,omitzero"`
	Dial     dial   `json:"dial,omitzero"` // of a worker
	Prefix   string `json:"prefix,omitzero"`
	Name     string `json:"name,omitzero"`
	Slots    int    `json:"slots,omitzero"`
	// agents that it serves beside those of the workloads
	Others int     `json:"others,omitzero"`
	Raw    []group `json:"raw,omitempty"`
	// "": the model is in the worker's process
	ModelURL string        `json:"model_url,omitzero"`
	Latency  time.Duration `json:"latency_ns,omitzero"`
	// how the names of its profiles begin; "": none
	Profile string `json:"profile,omitzero"`
}

// dial is a bus.Dial as one process tells it another.
type dial struct{ URL, Context, Creds, NKey, User, Token, Password, TLSCA, TLSCert, TLSKey string }

func dialOf(d bus.Dial) dial {
	return dial{d.URL, d.Context, d.Creds, d.NKey, d.User, d.Token, d.Password, d.TLSCA, d.TLSCert, d.TLSKey}
}

func (d dial) bus() bus.Dial {
	return bus.Dial{
		URL: d.URL, Context: d.Context, Creds: d.Creds, NKey: d.NKey, User: d.User, Token: d.Token, Password: d.Password,
		TLSCA: d.TLSCA, TLSCert: d.TLSCert, TLSKey: d.TLSKey,
	}
}

type role string

const (
	server role = "server"
	model  role = "model"
	worker role = "worker"
)

// group is a group of raw servers in a worker's process.
type group struct {
	Name   string `json:"name"`
	AtOnce int    `json:"at_once"`
	Ahead  bool   `json:"ahead,omitzero"`
	// each asks the model over HTTP before it answers
	HTTP bool `json:"http,omitzero"`
}

// report is a line of a part's standard output: that it is ready, or what it
// has used so far.
type report struct {
	URL   string `json:"url,omitzero"`
	Error string `json:"error,omitzero"`
	Usage usage  `json:"usage,omitzero"`
}

// usage is what a process has used since it began.
type usage struct {
	CPU  time.Duration `json:"cpu_ns"`
	Peak int64         `json:"peak_bytes"` // memory
	// messages of the stream of runs, but for deliveries
	Read uint64 `json:"read"`

	// of a part at rest, without garbage
	Heap       int64 `json:"heap_bytes,omitzero"`
	Goroutines int   `json:"goroutines,omitzero"` // the same
}

// Part is a part of a benchmark, for as long as its standard input is open.
func Part(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	var o order
	if !lines.Scan() {
		return errors.New("no order on standard input")
	}
	if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
		return fmt.Errorf("order: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	answer := json.NewEncoder(out)
	profiled, err := profile(o.Profile)
	if err != nil {
		return answer.Encode(report{Error: err.Error()})
	}
	p, err := o.begin(ctx)
	if err != nil {
		return answer.Encode(report{Error: err.Error()})
	}
	if err := answer.Encode(report{URL: p.url}); err != nil {
		return err
	}
	for lines.Scan() {
		u := p.used()
		if lines.Text() == rest {
			u = resting()
		}
		if err := answer.Encode(report{Usage: u}); err != nil {
			break
		}
	}
	err = profiled()
	stop()
	return errors.Join(err, p.wait())
}

// rest is the line that asks a part what it holds.
const rest = "rest"

// part is what has begun. Wait returns when it has ended, after its context
// has.
type part struct {
	url  string
	read func() uint64 // nil: nothing
	wait func() error
}

// used is what the process has used, in whatever it is.
func (p part) used() usage {
	u := used()
	if p.read != nil {
		u.Read = p.read()
	}
	return u
}

// begin makes the part what it is to be.
func (o order) begin(ctx context.Context) (part, error) {
	switch o.Role {
	case server:
		return o.serve()
	case model:
		return o.answer(ctx)
	case worker:
		return o.work(ctx)
	}
	return part{}, fmt.Errorf("there is no part %q", o.Role)
}

func (o order) serve() (part, error) {
	s, err := bus.Serve(bus.ServerConfig{Listen: "127.0.0.1:0", StoreDir: o.StoreDir, SyncAlways: o.Sync})
	if err != nil {
		return part{}, err
	}
	// its store is removed: it ends with its process
	return part{url: s.URL(), wait: func() error { return nil }}, nil
}

// answer serves the model over HTTP.
func (o order) answer(ctx context.Context) (part, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return part{}, err
	}
	s := &http.Server{Handler: overHTTP{o.Latency}, ReadHeaderTimeout: time.Minute}
	var serving errgroup.Group
	serving.Go(func() error { return s.Serve(l) })
	return part{url: "http://" + l.Addr().String(), wait: func() error {
		_ = s.Close()
		if err := serving.Wait(); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}}, nil
}

// work runs a worker, and raw servers beside it.
func (o order) work(ctx context.Context) (part, error) {
	space, err := subjects.NewSpace(o.Prefix)
	if err != nil {
		return part{}, err
	}
	conn, err := bus.Open(ctx, bus.Config{Dial: o.Dial.bus(), Space: space})
	if err != nil {
		return part{}, err
	}
	asks := o.provider()
	w, err := agentd.New(conn, agentd.Config{
		Name: o.Name, Slots: o.Slots, Timeout: time.Hour, Grace: time.Second,
		Open: func(string) (provider.Provider, string, error) { return asks, "bench", nil },
	})
	if err == nil {
		err = w.Serve(agents("in/bench", o.Others))
	}
	if err != nil {
		conn.Close()
		return part{}, err
	}
	raw, err := busbench.NewExchange(ctx, conn, 0)
	if err != nil {
		conn.Close()
		return part{}, err
	}
	var all errgroup.Group
	all.Go(func() error { return w.Run(ctx) })
	for _, g := range o.Raw {
		reply := func(_ context.Context, body []byte) ([]byte, error) { return body, nil }
		if g.HTTP {
			reply = func(ctx context.Context, body []byte) ([]byte, error) { return body, ping(ctx, asks) }
		}
		serve := raw.Serve
		if g.Ahead {
			serve = raw.ServeAhead
		}
		all.Go(func() error { return serve(ctx, g.Name, g.AtOnce, reply) })
	}
	return part{
		read: func() uint64 { return conn.Stats().Messages },
		wait: func() error { defer conn.Close(); return all.Wait() },
	}, nil
}

// provider is the model as a worker asks it.
func (o order) provider() provider.Provider {
	if o.ModelURL == "" {
		return inProcess{o.Latency}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.MaxConnsPerHost = o.Slots, o.Slots
	return openai.New(openai.Config{Key: "none", BaseURL: o.ModelURL, HTTP: &http.Client{Transport: transport}})
}

// ping asks the model once, as a leaf does.
func ping(ctx context.Context, p provider.Provider) error {
	_, err := p.Send(
		ctx,
		&provider.Request{
			Model:    "bench",
			System:   "echo",
			Messages: []provider.Message{{Role: provider.User, Content: "hello"}},
		},
	)
	return err
}

// child is a part in its process, as the process that has begun it sees it.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
	url string
	mu  sync.Mutex
}

// spawn begins a part: this program again.
func spawn(ctx context.Context, command []string, o order, stderr io.Writer) (*child, error) {
	// ended by its input
	c := &child{cmd: exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...)}
	c.cmd.Stderr = stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Role, err)
	}
	c.in, c.out = in, json.NewDecoder(out)
	var ready report
	err = json.NewEncoder(in).Encode(o)
	if err == nil {
		err = c.out.Decode(&ready)
	}
	if err == nil && ready.Error != "" {
		err = errors.New(ready.Error)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", o.Role, err), c.end())
	}
	c.url = ready.URL
	return c, nil
}

// used is what the part has used so far.
func (c *child) used() (usage, error) { return c.asked("") }

// rests is what the part holds, without garbage.
func (c *child) rests() (usage, error) { return c.asked(rest) }

func (c *child) asked(line string) (usage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var r report
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		return usage{}, err
	}
	err := c.out.Decode(&r)
	return r.Usage, err
}

// patience is how long a part has to end.
const patience = 10 * time.Second

// end ends the part and waits for it.
func (c *child) end() error {
	_ = c.in.Close()
	t := time.AfterFunc(patience, func() { _ = c.cmd.Process.Signal(os.Kill) })
	defer t.Stop()
	return c.cmd.Wait()
}

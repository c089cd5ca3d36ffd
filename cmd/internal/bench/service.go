package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/bus/busbench"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/web"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/ballast"
	"github.com/axebus/axe/internal/metrics"
	"github.com/axebus/axe/price"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/openai"
	"github.com/axebus/axe/subjects"
)

// RunProcess is the main function of one process of a benchmark. It runs for as
// long as its input is open.
func RunProcess(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	var o processConfig
	if !lines.Scan() {
		return errors.New("configuration missing on standard input")
	}
	if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	o.Dial = o.Secrets.complete(o.Dial)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	answer := json.NewEncoder(out)
	profiled, err := profile(o.Profile)
	if err != nil {
		return answer.Encode(status{Error: err.Error()})
	}
	p, err := o.begin(ctx)
	if err != nil {
		return answer.Encode(status{Error: err.Error()})
	}
	if err := answer.Encode(status{URL: p.url}); err != nil {
		return err
	}
	for lines.Scan() {
		u := p.used()
		if lines.Text() == restLine {
			u = idleUsage()
		}
		if err := answer.Encode(status{Usage: u}); err != nil {
			break
		}
	}
	err = profiled()
	stop()
	return errors.Join(err, p.wait())
}

// service is the server, model or worker of this process.
type service struct {
	url string
	// read returns the number of messages read; nil: none.
	read func() uint64
	// wait returns when the service has ended, after its context has.
	wait func() error
}

// used is the usage of this process so far.
func (p service) used() usage {
	u := used()
	if p.read != nil {
		u.Read = p.read()
	}
	return u
}

// begin starts the service of the configured role.
func (o processConfig) begin(ctx context.Context) (service, error) {
	switch o.Role {
	case server:
		return o.serve()
	case model:
		return serveHTTP(ctx, overHTTP{o.Latency})
	case worker:
		return o.work(ctx)
	case page:
		return o.show(ctx)
	}
	return service{}, fmt.Errorf("role must be %s, %s, %s or %s, got %q", server, model, worker, page, o.Role)
}

// keyFile is the file with the key of a server of the testbed. All of its
// processes connect with it.
func keyFile(store string) string { return filepath.Join(store, "server.nk") }

func (o processConfig) serve() (service, error) {
	s, err := bus.Serve(bus.ServerConfig{
		Listen: o.Listen, StoreDir: o.StoreDir, SyncAlways: o.Sync, Protected: true, KeyFile: keyFile(o.StoreDir),
	})
	if err != nil {
		return service{}, err
	}
	// The server ends with its process, without a shutdown.
	return service{url: s.URL(), wait: func() error { return nil }}, nil
}

// serveHTTP serves HTTP at a free port until it is waited for.
func serveHTTP(ctx context.Context, h http.Handler) (service, error) {
	l, err := listen(ctx)
	if err != nil {
		return service{}, err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	var serving errgroup.Group
	serving.Go(func() error { return s.Serve(l) })
	return service{url: "http://" + l.Addr().String(), wait: func() error {
		_ = s.Close()
		if err := serving.Wait(); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}}, nil
}

// listen listens at a free port of this machine.
func listen(ctx context.Context) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
}

// open opens a connection to the bus.
func (o processConfig) open(ctx context.Context, observe func(bus.Exchange)) (*bus.Conn, error) {
	space, err := subjects.NewSpace(o.Prefix)
	if err != nil {
		return nil, err
	}
	key, err := busbench.SignKey(o.SignSeed)
	if err != nil {
		return nil, err
	}
	return bus.Open(ctx, bus.Config{
		Dial: o.Dial, Space: space, Signers: o.Signers, SignKey: key, Observe: observe,
	})
}

// show serves the page and the HTTP API.
func (o processConfig) show(ctx context.Context) (service, error) {
	conn, err := o.open(ctx, nil)
	if err != nil {
		return service{}, err
	}
	l, err := listen(ctx)
	if err != nil {
		conn.Close()
		return service{}, err
	}
	var serving errgroup.Group
	serving.Go(func() error { return web.New(web.Config{Client: client.New(conn), Conn: conn}).Serve(ctx, l) })
	return service{
		url:  "http://" + l.Addr().String(),
		wait: func() error { defer conn.Close(); return serving.Wait() },
	}, nil
}

// work runs a worker, and raw servers beside it.
func (o processConfig) work(ctx context.Context) (service, error) {
	var counted *metrics.Worker
	var observe func(bus.Exchange)
	if o.Metrics {
		counted = metrics.NewWorker("bench", price.Table{})
		observe = counted.Exchanged
	}
	conn, err := o.open(ctx, observe)
	if err != nil {
		return service{}, err
	}
	model := o.provider()
	counts := service{wait: func() error { return nil }}
	if counted != nil {
		if counts, err = serveHTTP(ctx, counted.Handler(slog.New(slog.DiscardHandler))); err != nil {
			conn.Close()
			return service{}, err
		}
	}
	w, err := agentd.New(conn, agentd.Config{
		Name: o.Name, Slots: o.Slots, Timeout: time.Hour, Grace: time.Second,
		Metrics: counted,
		Open:    func(string) (provider.Provider, string, error) { return model, "bench", nil },
	})
	if err == nil {
		served := agents("in/bench", o.ExtraAgents)
		if len(o.Only) > 0 {
			served = slices.DeleteFunc(served, func(a configs.Agent) bool { return !slices.Contains(o.Only, a.Name) })
		}
		err = w.Serve(configs.Definitions{Agents: served})
	}
	var raw *busbench.Exchange
	if err == nil {
		raw, err = busbench.NewExchange(ctx, conn, 0)
	}
	if err != nil {
		conn.Close()
		return service{}, err
	}
	var all errgroup.Group
	release := ballast.Reserve() // as agentd has
	all.Go(func() error { defer release(); return w.Run(ctx) })
	for _, g := range o.Raw {
		reply := func(_ context.Context, body []byte) ([]byte, error) { return body, nil }
		if g.HTTP {
			reply = func(ctx context.Context, body []byte) ([]byte, error) { return body, ping(ctx, model) }
		}
		serve := raw.Serve
		if g.Ahead {
			serve = raw.ServeAhead
		}
		all.Go(func() error { return serve(ctx, g.Name, g.N, reply) })
	}
	return service{
		url:  counts.url,
		read: func() uint64 { return conn.Stats().Messages },
		wait: func() error { defer conn.Close(); return errors.Join(all.Wait(), counts.wait()) },
	}, nil
}

// provider is the model that a worker asks.
func (o processConfig) provider() provider.Provider {
	if o.ModelURL == "" {
		return inProcess{o.Latency}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.MaxConnsPerHost = o.Slots, o.Slots
	return openai.New(openai.Config{Key: "none", BaseURL: o.ModelURL, HTTP: &http.Client{Transport: transport}})
}

// ping asks the model once, as a leaf does.
func ping(ctx context.Context, p provider.Provider) error {
	_, err := p.Send(ctx, &provider.Request{
		Model: "bench", System: "echo", Messages: []provider.Message{{Role: provider.User, Content: "hello"}},
	})
	return err
}

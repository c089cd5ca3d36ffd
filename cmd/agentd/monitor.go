package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/httpguard"
	"github.com/axebus/axe/internal/metrics"
	"github.com/axebus/axe/price"
)

const (
	// worksTimeout is the time in which a process that works answers.
	worksTimeout = 2 * time.Second
	// readTimeout bounds the time of a request to come in, and writeTimeout
	// that of an answer.
	readTimeout  = 10 * time.Second
	writeTimeout = 20 * time.Second
)

// monitor serves the metrics of the worker, and the probes of an orchestrator:
// /metrics, /healthz and /readyz. It serves until the process ends, so that it
// can tell that the worker drains.
type monitor struct {
	address   string
	tokenFile string
	cmd       *cobra.Command
	tokens    httpguard.Tokens
	listener  net.Listener
	// metrics is nil if none are served.
	metrics *metrics.Worker
}

func (m *monitor) register(cmd *cobra.Command) {
	m.cmd = cmd
	cmd.Flags().StringVar(&m.address, "metrics", "",
		"address of /metrics for Prometheus, /healthz and /readyz, port 0 for a free port")
	cmd.Flags().StringVar(&m.tokenFile, "metrics-token", "",
		"file with the bearer token of requests for /metrics; "+
			"without it the address has to be one of this machine alone")
}

// serves reports whether the command line has an address.
func (m *monitor) serves() bool { return m.address != "" }

// check checks the flags and reads the tokens.
func (m *monitor) check() (err error) {
	given := m.cmd.Flags().Changed("metrics-token")
	switch {
	case !given:
		return nil
	case !m.serves():
		return cli.Usage("--metrics-token needs --metrics")
	}
	if m.tokens, err = httpguard.ReadTokens(m.tokenFile); err != nil {
		return cli.Fail(cli.CodeConfig, fmt.Errorf("--metrics-token: %w", err))
	}
	return nil
}

// listen opens the address, makes the metrics, and prints their URL on standard
// error. The metrics have the cost of models if there are prices.
func (m *monitor) listen(ctx context.Context, prices price.Table) (err error) {
	m.listener, err = httpguard.Listen(ctx, m.address, m.tokens)
	if errors.Is(err, httpguard.ErrNotLocal) {
		return cli.Usage("--metrics %s: %w (--metrics-token); or use an address like 127.0.0.1:9181", m.address, err)
	}
	if err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	m.metrics = metrics.NewWorker(cli.ReadBuild(name).Version, prices)
	fmt.Fprintf(os.Stderr, "%s: metrics at http://%s/metrics\n", name, m.listener.Addr())
	return nil
}

// serve serves until the returned function is called.
func (m *monitor) serve(state *lifecycle, works func(), log *slog.Logger) (end func()) {
	srv := &http.Server{
		Handler: m.handler(state, works, log), ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(m.listener) }()
	return func() {
		_ = srv.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			log.Warn("metrics not served", slog.Any(keyError, err))
		}
	}
}

// handler makes the handler of all requests. /metrics needs a token if there
// are any. /healthz and /readyz need none, since the probes of an orchestrator
// have none. Their answers have a few words, and nothing of the worker's work.
func (m *monitor) handler(state *lifecycle, works func(), log *slog.Logger) http.Handler {
	guard := httpguard.Guard{Realm: name, Tokens: m.tokens}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", guard.Require(httpguard.Read, m.metrics.Handler(log)))
	checking := make(chan struct{}, 1)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), worksTimeout)
		defer cancel()
		answer(w, locked(ctx, checking, works))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, state.unready()) })
	return guard.CheckHost(guard.CheckOrigin(mux))
}

// answer answers a probe. Problem is empty if all is well.
func answer(w http.ResponseWriter, problem string) {
	w.Header().Set("Cache-Control", "no-store")
	if problem != "" {
		http.Error(w, problem, http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok") // the client is gone
}

// locked returns a problem if works does not return before ctx ends. It makes
// one call of works at a time, for all probes: in a worker that has locked
// itself up, a call never returns.
func locked(ctx context.Context, checking chan struct{}, works func()) (problem string) {
	const lockedUp = "the worker has locked itself up"
	select {
	case checking <- struct{}{}:
	case <-ctx.Done():
		return lockedUp
	}
	returned := make(chan struct{})
	go func() {
		works()
		<-checking
		close(returned)
	}()
	select {
	case <-returned:
		return ""
	case <-ctx.Done():
		return lockedUp
	}
}

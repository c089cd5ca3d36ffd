package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/cmd/internal/cli"
)

const (
	probeLong = `Ask a probe over HTTP, and exit with 0 if the answer is 200. A container without
a shell and without curl checks its own health with it. A worker with --metrics
has /healthz and /readyz. The page of axe ui answers at /, and a NATS server
with a monitoring port at /healthz.

The command follows no redirect. Stderr says why a probe failed.

Exit codes: 0 the answer is 200, 1 another answer or none, 2 usage.`

	probeExamples = `  axe probe http://127.0.0.1:9181/readyz
  axe probe http://127.0.0.1:9180/ --timeout 2s`

	// probeTimeout is the default time for an answer.
	probeTimeout = 3 * time.Second
	// probeWords is the most bytes of an answer that an error has.
	probeWords = 200
)

func probeCommand() *cobra.Command {
	timeout := cli.Seconds(probeTimeout)
	cmd := &cobra.Command{
		Use: "probe URL", Short: "Ask a worker or a page whether it is healthy",
		Long: probeLong, Example: probeExamples, Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return cli.Usage("--timeout must be positive, got %s", time.Duration(timeout))
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Duration(timeout))
			defer cancel()
			return probe(ctx, args[0])
		},
	}
	cmd.Flags().Var(&timeout, "timeout", "time for the answer")
	return cmd
}

// probe returns an error if the answer to a GET request is not 200.
func probe(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err == nil && request.URL.Scheme != "http" && request.URL.Scheme != "https" {
		err = errors.New("want one like http://127.0.0.1:9181/readyz")
	}
	if err != nil {
		return cli.Usage("URL %q: %w", url, err)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	if err != nil {
		return cli.Fail(cli.CodeFailed, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(answer.Body, probeWords)) // the status says enough
	words := strings.TrimSpace(string(body))
	return cli.Fail(cli.CodeFailed, fmt.Errorf("%s answers %s: %s", url, answer.Status, words))
}

package builtin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/text"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/secret"
)

const (
	// webSearchTime bounds a call of web_search.
	webSearchTime = 30 * time.Second
	// webResults is the number of results that web_search asks for.
	webResults = 10
	// maxWebAnswer bounds the answer of the service, in bytes.
	maxWebAnswer = 4 << 20
	// maxWebError bounds the text of an error of the service, in bytes.
	maxWebError = 1000
)

func webSearch() Tool { return webSearcher{os.Getenv, webSearchTime}.tool() }

// webSearcher is the implementation of web_search. It asks the API of Tavily.
type webSearcher struct {
	getenv  func(string) string
	timeout time.Duration
}

func (s webSearcher) tool() Tool {
	return Tool{
		Definition: define("web_search",
			"Search the web and return the title, the URL and a snippet of up to 10 results.",
			map[string]provider.ToolParameter{
				"query": required("The search query."),
			}),
		Effect: run.ToolReads,
		Run: func(ctx context.Context, c Call) (string, error) {
			query := c.Arguments["query"]
			if strings.TrimSpace(query) == "" {
				return "", errors.New("query is required")
			}
			key := secret.Text(strings.TrimSpace(s.getenv("TAVILY_API_KEY")))
			if key == "" {
				return "", errors.New("web_search needs a key of Tavily: the worker has no TAVILY_API_KEY")
			}
			late := fmt.Errorf("no answer within %v", s.timeout)
			ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, late)
			defer cancel()
			found, err := s.ask(ctx, key, query)
			hidden := secret.NewRedactor(key)
			switch {
			case err != nil && ctx.Err() != nil:
				return "", context.Cause(ctx)
			case err != nil:
				return "", errors.New(hidden.Text(err.Error()))
			}
			return hidden.Text(found.String()), nil
		},
	}
}

// ask sends a query to the service. No error quotes the address of the service,
// which may have a password.
func (s webSearcher) ask(ctx context.Context, key secret.Text, query string) (webFound, error) {
	req, err := s.request(ctx, key, query)
	if err != nil {
		return webFound{}, err
	}
	client := http.Client{
		Transport: &http.Transport{Proxy: proxy, DisableKeepAlives: true, ForceAttemptHTTP2: true},
		// A redirect could lead the key to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return webFound{}, fmt.Errorf("the search service cannot be reached: %w", e.Err)
	}
	if err != nil {
		return webFound{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxWebAnswer))
	if err != nil {
		return webFound{}, err
	}
	if !succeeded(resp) {
		return webFound{}, fmt.Errorf("the search service answered HTTP %d: %s", resp.StatusCode, webError(b))
	}
	var found webFound
	if err := json.Unmarshal(b, &found); err != nil {
		return webFound{}, fmt.Errorf("the answer of the search service is malformed: %w", err)
	}
	return found, nil
}

// proxy returns the proxy of the environment. It hides the original error,
// which quotes a malformed proxy URL with its password.
func proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, errors.New("the proxy named in the environment is malformed")
	}
	return u, nil
}

// request makes the request of a query.
func (s webSearcher) request(ctx context.Context, key secret.Text, query string) (*http.Request, error) {
	base, err := url.Parse(cmp.Or(s.getenv("AXE_WEB_SEARCH_BASE_URL"), "https://api.tavily.com"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New("AXE_WEB_SEARCH_BASE_URL of the worker must be an http or https URL")
	}
	body, err := json.Marshal(map[string]any{
		"query": query, "search_depth": "basic", "max_results": webResults,
	})
	if err != nil {
		return nil, err
	}
	at := base.JoinPath("search").String()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("AXE_WEB_SEARCH_BASE_URL of the worker must be an http or https URL")
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"axe"},
		"Authorization": {"Bearer " + key.Reveal()},
	}
	return req, nil
}

// webFound is the answer of the service.
type webFound struct {
	Results []struct {
		Title   string `json:"title"`
		URL     string `json:"url"`
		Content string `json:"content"`
	} `json:"results"`
}

func (f webFound) String() string {
	if len(f.Results) == 0 {
		return "No results found."
	}
	blocks := make([]string, min(len(f.Results), webResults))
	for i, r := range f.Results[:len(blocks)] {
		blocks[i] = fmt.Sprintf("Title: %s\nURL: %s\nSnippet: %s", r.Title, r.URL, r.Content)
	}
	return strings.Join(blocks, "\n\n")
}

// webError returns the message of an error of the service.
func webError(body []byte) string {
	var e struct {
		Detail struct {
			Error string `json:"error"`
		} `json:"detail"`
	}
	message := string(body)
	if json.Unmarshal(body, &e) == nil && e.Detail.Error != "" {
		message = e.Detail.Error
	}
	return text.Truncate(strings.ToValidUTF8(strings.TrimSpace(message), "\uFFFD"), maxWebError)
}

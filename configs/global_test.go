package configs_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/configs"
)

// TestGlobalRateLimits: each provider has its own rate limits and its own idle
// timeout. The limits are off by default, and the timeout is a minute.
func TestGlobalRateLimits(t *testing.T) {
	g, err := configs.LoadGlobal(write(t, t.TempDir(), "config.toml", `
[providers.openai]
max_concurrent = 8
requests_per_minute = 500
tokens_per_minute = 200000

[providers.ollama]
respect_retry_after = true
idle_timeout = 0
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]configs.Provider{
		"openai":    {MaxConcurrent: 8, RequestsPerMinute: 500, TokensPerMinute: 200000, IdleTimeout: 60},
		"ollama":    {RespectRetryAfter: true, IdleTimeout: 0},
		"anthropic": {IdleTimeout: 60},
	}
	if diff := cmp.Diff(want, g.Providers); diff != "" {
		t.Errorf("providers (-want +got):\n%s", diff)
	}
}

// TestGlobalRefusesRateLimits: the error of an invalid rate limit or timeout
// names the line, the key and the mistake.
func TestGlobalRefusesRateLimits(t *testing.T) {
	for text, want := range map[string]string{
		"max_concurrent = -1":         "config.toml:2: providers.openai.max_concurrent must be non-negative",
		"requests_per_minute = -1":    "config.toml:2: providers.openai.requests_per_minute must be non-negative",
		"tokens_per_minute = -1":      "config.toml:2: providers.openai.tokens_per_minute must be non-negative",
		"idle_timeout = -1":           "config.toml:2: providers.openai.idle_timeout must be non-negative",
		"idle_timeout = 86401":        "config.toml:2: providers.openai.idle_timeout cannot exceed 86400",
		"max_concurrent = 1.5":        "config.toml:2: providers.openai.max_concurrent: must be an integer",
		`respect_retry_after = "yes"`: "config.toml:2: providers.openai.respect_retry_after: must be true or false",
		"max_concurent = 3": "config.toml:2: providers.openai.max_concurent: unknown key; " +
			`did you mean "providers.openai.max_concurrent"?`,
	} {
		dir := t.TempDir()
		_, err := configs.LoadGlobal(write(t, dir, "config.toml", "[providers.openai]\n"+text+"\n"))
		if err == nil || strings.TrimPrefix(err.Error(), dir+string(filepath.Separator)) != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

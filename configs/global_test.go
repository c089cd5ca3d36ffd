package configs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/price"
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

// TestGlobalKeys: a key is in config.toml or in a file, or a command prints it.
// Files with keys that others may read are named. Nothing prints the key.
func TestGlobalKeys(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	file := write(t, dir, "config.toml", `
[providers.openai]
api_key = "sk-hidden"

[providers.anthropic]
api_key_file = "anthropic.key"

[providers.ollama]
api_key_file = "~/ollama.key"
`)
	for name, mode := range map[string]os.FileMode{"config.toml": 0o600, "anthropic.key": 0o640, "ollama.key": 0o600} {
		path := filepath.Join(dir, name)
		if name != "config.toml" {
			write(t, dir, name, "key")
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	g, err := configs.LoadGlobal(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Providers["ollama"].APIKeyFile; got != filepath.Join(dir, "ollama.key") {
		t.Errorf("the file of a key is %s", got)
	}
	if want := []string{filepath.Join(dir, "anthropic.key")}; !slices.Equal(g.Exposed, want) {
		t.Errorf("exposed files %v, want %v", g.Exposed, want)
	}
	shown := fmt.Sprintf("%+v %#v", g, g)
	if g.Providers["openai"].APIKey.Reveal() != "sk-hidden" || strings.Contains(shown, "sk-hidden") {
		t.Errorf("the settings print as %+v", g)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if g, err = configs.LoadGlobal(file); err != nil || len(g.Exposed) != 2 {
		t.Errorf("exposed files %v, error %v, want two files", g.Exposed, err)
	}
	for text, want := range map[string]string{
		"api_key = \"a\"\napi_key_file = \"b\"":           "a key from two places: set one of",
		"api_key_command = [\"a\"]\napi_key_file = \"b\"": "a key from two places: set one of",
		"api_key_command = [\"\"]":                        "must begin with a program",
		"api_key_command = \"pass\"":                      "api_key_command",
		"api_key_fiel = \"b\"":                            `did you mean "providers.openai.api_key_file"?`,
	} {
		_, err := configs.LoadGlobal(write(t, t.TempDir(), "config.toml", "[providers.openai]\n"+text+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// TestPrices: prices are for a million tokens. Cached input costs as much as
// other input where it has no price.
func TestPrices(t *testing.T) {
	g, err := configs.LoadGlobal(write(t, t.TempDir(), "config.toml", `
[prices]
currency = "EUR"

[prices.models."openai/gpt-5"]
input = 1.25
cached_input = 0.125
output = 10

[prices.models."ollama/llama3.1"]
input = 0
output = 0.000001
`))
	if err != nil {
		t.Fatal(err)
	}
	want := price.Table{Currency: "EUR", Models: map[string]price.Model{
		"openai/gpt-5":    {Input: 1_250_000_000, CachedInput: 125_000_000, Output: 10_000_000_000},
		"ollama/llama3.1": {Output: 1000},
	}}
	if diff := cmp.Diff(want, g.Prices); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
	if g, err = configs.LoadGlobal(write(t, t.TempDir(), "config.toml", "")); err != nil || !g.Prices.IsZero() {
		t.Errorf("prices %v without any, %v", g.Prices, err)
	}
}

// TestPricesAreChecked: the error of a wrong price names the line, the key and
// the mistake.
func TestPricesAreChecked(t *testing.T) {
	const (
		model = `prices.models."openai/gpt-5"`
		limit = ": must be 0 to 1000000 for a million tokens, got "
	)
	for text, want := range map[string]string{
		"input = -1\noutput = 1":  ":2: " + model + ".input" + limit + "-1",
		"input = nan\noutput = 1": ":2: " + model + ".input" + limit + "NaN",
		"input = 1\noutput = 1e7": ":3: " + model + ".output" + limit + "1e+07",
		"input = 1":               ":1: " + model + ": output is required: the price of a million tokens",
		"input = '1'\noutput = 1": ":2: " + model + ".input: must be a number",
		"imput = 1\noutput = 1": ":2: " + model + ".imput: unknown key; " +
			`did you mean "prices.models.\"openai/gpt-5\".input"?`,
	} {
		dir := t.TempDir()
		_, err := configs.LoadGlobal(write(t, dir, "config.toml", "[prices.models.\"openai/gpt-5\"]\n"+text+"\n"))
		if err == nil || strings.TrimPrefix(err.Error(), dir+string(filepath.Separator)+"config.toml") != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"[prices]\ncurrency = ' '":                     `:2: prices.currency: must be a name like USD, got " "`,
		"[prices.models.gpt-5]\ninput = 1\noutput = 1": ":1: prices.models.gpt-5: must be a model as agents name it",
	} {
		dir := t.TempDir()
		_, err := configs.LoadGlobal(write(t, dir, "config.toml", text))
		if err == nil || !strings.HasPrefix(err.Error(), filepath.Join(dir, "config.toml")+want) {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

// TestGlobalOutcomes: outcomes count without a signature by default. A setting
// under which none would count is an error.
func TestGlobalOutcomes(t *testing.T) {
	const key = "AC6WQBXG44YI2GGBPPW7QIDRR6RGN3V6HZGWHJ7KPAQXB3WWCNEVCP4C"
	load := func(text string) (configs.Global, error) {
		return configs.LoadGlobal(write(t, t.TempDir(), "config.toml", "[outcomes]\n"+text+"\n"))
	}
	g, err := load("require_signed = true\nsigners = [\"" + key + "\"]")
	want := configs.Outcomes{RequireSigned: true, Signers: []string{key}}
	if diff := cmp.Diff(want, g.Outcomes); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if g, err := load(""); err != nil || g.Outcomes.RequireSigned {
		t.Errorf("by default: %v, %v", g.Outcomes, err)
	}
	for text, want := range map[string]string{
		"require_signed = true":                        "config.toml:2: outcomes.require_signed: needs ",
		"signers = [\"me\"]":                           "must be public keys of accounts or operators",
		"signers = [\"" + "U" + key[1:] + "\"]":        "must be public keys of accounts or operators",
		"require_signed = true\nsigners = [] # nobody": "needs outcomes.signers",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

package configs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/axebus/axe/internal/files"
	"github.com/axebus/axe/price"
	"github.com/axebus/axe/secret"
)

// Global is the content of config.toml, the settings of a machine. Every key is
// optional, and so is the file.
//
//	[providers.openai]
//	api_key = "sk-…"                   # the environment takes precedence
//	api_key_file = "openai.key"        # in place of api_key
//	api_key_command = ["pass", "show", "openai"]
//	base_url = "https://example.com"
//	max_concurrent = 8                 # for all workers together; 0: no limit
//	requests_per_minute = 500
//	tokens_per_minute = 200000
//	respect_retry_after = true
//
//	[memory]
//	store = "bus"                      # "file" is the default
//
//	[outcomes]
//	require_signed = true
//	signers = ["A…"]
type Global struct {
	// Providers has an entry for each of ProviderNames, also for those that
	// the file does not name. It is empty if there is no file.
	Providers map[string]Provider
	Memory    MemoryStore
	// Prices are those of models.
	Prices price.Table
	// Outcomes says which outcomes count for this machine.
	Outcomes Outcomes

	// File is the path that the settings were read from.
	File string
	// Exposed names files with an API key that other users may read: this
	// one or an APIKeyFile.
	Exposed []string
}

// Provider has the settings of one provider. Empty values leave the choice to
// the environment and the defaults.
//
// The rate limits bound the requests of all workers on a bus together, with one
// API key. 0 stands for no limit.
type Provider struct {
	// APIKey is the key itself. At most one of APIKey, APIKeyFile and
	// APIKeyCommand is set.
	APIKey secret.Text
	// APIKeyFile is the absolute path of a file with the key.
	APIKeyFile string
	// APIKeyCommand is a program with its arguments that prints the key.
	APIKeyCommand []string

	BaseURL string

	// IdleTimeout is the time in seconds in which an answer that has begun
	// has to bring a kilobyte; 0: any time.
	IdleTimeout int

	// MaxConcurrent bounds the requests in flight.
	MaxConcurrent int
	// RequestsPerMinute bounds the requests in one minute of the clock.
	RequestsPerMinute int
	// TokensPerMinute bounds input and output tokens in one minute of the
	// clock.
	TokensPerMinute int
	// RespectRetryAfter makes all workers wait when the provider has asked
	// one of them to wait. A rate limit implies it.
	RespectRetryAfter bool
}

// Outcomes says which outcomes of runs count.
type Outcomes struct {
	// RequireSigned: only those that are signed by the key of a worker, to
	// which one of Signers has granted the agent.
	RequireSigned bool
	// Signers are public keys of accounts and operators of NATS. There is
	// at least one with RequireSigned.
	Signers []string
}

// MemoryStore is the place of the agents' memory.
type MemoryStore string

// The places.
const (
	// MemoryInFiles keeps one file for each agent below DataDir, on the
	// worker's machine.
	MemoryInFiles MemoryStore = "file"
	// MemoryOnBus keeps a key-value bucket that all workers share.
	MemoryOnBus MemoryStore = "bus"
)

// GlobalFile is the name of the settings file in ConfigDir.
const GlobalFile = "config.toml"

// ProviderNames returns the names of the providers that a file may configure.
func ProviderNames() []string { return []string{"anthropic", "openai", "ollama"} }

// DefaultIdleTimeout is the default of Provider.IdleTimeout.
const DefaultIdleTimeout = 60

// maxIdleTimeout is a day.
const maxIdleTimeout = 24 * 60 * 60

// fields maps every key of the format, but for prices, to the variable for its
// value. It makes the providers.
func (g *Global) fields(providers map[string]*Provider) map[string]any {
	into := map[string]any{
		"memory.store":            (*string)(&g.Memory),
		"outcomes.require_signed": &g.Outcomes.RequireSigned,
		"outcomes.signers":        &g.Outcomes.Signers,
	}
	for _, name := range ProviderNames() {
		p := &Provider{IdleTimeout: DefaultIdleTimeout}
		providers[name] = p
		table := "providers." + name
		into[table+".api_key"] = (*string)(&p.APIKey)
		into[table+".api_key_file"] = &p.APIKeyFile
		into[table+".api_key_command"] = &p.APIKeyCommand
		into[table+".base_url"] = &p.BaseURL
		into[table+".idle_timeout"] = &p.IdleTimeout
		into[table+".max_concurrent"] = &p.MaxConcurrent
		into[table+".requests_per_minute"] = &p.RequestsPerMinute
		into[table+".tokens_per_minute"] = &p.TokensPerMinute
		into[table+".respect_retry_after"] = &p.RespectRetryAfter
	}
	return into
}

// LoadGlobal reads a config.toml. A missing file is an empty one. Errors have
// the type *Error.
func LoadGlobal(file string) (Global, error) {
	g := Global{Providers: map[string]Provider{}, Memory: MemoryInFiles, File: file}
	b, _, err := files.Read(file, os.O_RDONLY, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return g, nil
	}
	if err != nil {
		return Global{}, &Error{File: file, Message: withoutPath(err), cause: err}
	}
	doc, err := newDocument(file, string(b))
	if err != nil {
		return Global{}, err
	}
	providers := map[string]*Provider{}
	var prices priceTable
	if err := doc.decode(g.fields(providers), prices.fields(doc)); err != nil {
		return Global{}, err
	}
	var wrong *Error
	if g.Prices, wrong = prices.prices(); wrong != nil {
		return Global{}, doc.locate(wrong)
	}
	if g.Memory != MemoryInFiles && g.Memory != MemoryOnBus {
		return Global{}, doc.locate(invalid("memory.store", fmt.Sprintf(`must be "file" or "bus", got %q`, g.Memory)))
	}
	if err := g.Outcomes.validate(); err != nil {
		return Global{}, doc.locate(err)
	}
	for _, name := range ProviderNames() {
		p := providers[name]
		table := "providers." + name
		if err := cmp.Or(
			p.placeKey(table, file),
			checkNumber(table+".idle_timeout", p.IdleTimeout, maxIdleTimeout),
			checkNumber(table+".max_concurrent", p.MaxConcurrent, math.MaxInt),
			checkNumber(table+".requests_per_minute", p.RequestsPerMinute, math.MaxInt),
			checkNumber(table+".tokens_per_minute", p.TokensPerMinute, math.MaxInt),
		); err != nil {
			return Global{}, doc.locate(err)
		}
		g.Providers[name] = *p
		if p.APIKey != "" && readableByOthers(file) && !slices.Contains(g.Exposed, file) {
			g.Exposed = append(g.Exposed, file)
		}
		if p.APIKeyFile != "" && readableByOthers(p.APIKeyFile) && !slices.Contains(g.Exposed, p.APIKeyFile) {
			g.Exposed = append(g.Exposed, p.APIKeyFile)
		}
	}
	return g, nil
}

// publicKey matches the public key of an account or an operator.
var publicKey = regexp.MustCompile(`^[AO][A-Z2-7]{55}$`)

func (o Outcomes) validate() *Error {
	for _, s := range o.Signers {
		if !publicKey.MatchString(s) {
			return invalid("outcomes.signers",
				fmt.Sprintf("must be public keys of accounts or operators, A… or O…, got %q", s))
		}
	}
	if o.RequireSigned && len(o.Signers) == 0 {
		return invalid("outcomes.require_signed", "needs outcomes.signers: without them no outcome counts")
	}
	return nil
}

// placeKey checks that a provider has its key from one place. It makes the path
// of the key's file absolute: relative paths begin at the directory of
// config.toml, and ~/ at the home directory.
func (p *Provider) placeKey(table, config string) *Error {
	places := 0
	for _, set := range []bool{p.APIKey != "", p.APIKeyFile != "", len(p.APIKeyCommand) > 0} {
		if set {
			places++
		}
	}
	if places > 1 {
		return invalid(table+".api_key", "a key from two places: set one of api_key, api_key_file and api_key_command")
	}
	if len(p.APIKeyCommand) > 0 && p.APIKeyCommand[0] == "" {
		return invalid(table+".api_key_command", "must begin with a program")
	}
	var err error
	if p.APIKeyFile, err = resolvePath(p.APIKeyFile, filepath.Dir(config)); err != nil {
		return invalid(table+".api_key_file", err.Error())
	}
	return nil
}

// DefaultGlobal reads the config.toml of ConfigDir. Without a home directory,
// as many services run, there is no such file.
func DefaultGlobal() (Global, error) {
	dir, err := ConfigDir()
	if err != nil {
		return Global{Memory: MemoryInFiles}, nil //nolint:nilerr // see above
	}
	return LoadGlobal(filepath.Join(dir, GlobalFile))
}

func readableByOthers(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().Perm()&0o077 != 0
}

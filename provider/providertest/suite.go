// Package providertest is the one suite that every provider over HTTP passes.
// It plays the server, checks each request that it receives, and answers as the
// real one would, in every way that the real one may fail. It keeps a provider
// honest in both directions: what is sent is compared as a whole, and what
// comes back is one provider.Response or one error of a known category.
//
// A provider brings only its wire format, as files:
//
//	func TestConformance(t *testing.T) {
//		providertest.Run(t, providertest.Subject{Name: "ollama", New: open, Data: os.DirFS("testdata"), …})
//	}
//
// One file for each name in requests.go holds the JSON that must be sent, the
// answer to it, and the response wanted; refusal.json an error as the provider
// writes it, wrong.json answers that lack something.
package providertest

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/provider"
)

// Subject is a provider under test.
type Subject struct {
	Name string // as models are named: "openai"
	New  func(key, base string, hc *http.Client) provider.Provider
	// what is asked without a base URL; its path is that below any other
	URL string
	Key string // what New is given
	// Header is what every request carries besides its content type.
	Header map[string]string
	// Arguments is the path, as for an Exchange, of a call's arguments in a
	// request that begins with it.
	Arguments string
	NoKey     bool  // no key is needed
	Data      fs.FS // the provider's testdata

	prefix string // the base URL's path
}

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	t.Helper()
	t.Run("Exchanges", s.exchanges)
	t.Run("EdgeCases", s.edgeCases)
	t.Run("Arguments", s.arguments)
	t.Run("Echo", s.echo)
	t.Run("OwnClient", s.ownClient)
	t.Run("SameBytes", s.sameBytes)
	t.Run("Large", s.large)
	t.Run("Concurrent", s.concurrent)
	t.Run("Connections", s.connections)

	t.Run("Statuses", s.statuses)
	t.Run("Messages", s.messages)
	t.Run("RetryAfter", s.retryAfter)
	t.Run("Malformed", s.malformed)
	t.Run("Unencodable", s.unencodable)
	t.Run("Truncated", s.truncated)

	t.Run("Key", s.key)
	t.Run("DefaultURL", s.defaultURL)
	t.Run("Unreachable", s.unreachable)
	t.Run("BaseURL", s.baseURL)
	t.Run("Redirect", s.redirect)

	t.Run("Patience", s.patience)
	t.Run("Deadline", s.deadline)
	t.Run("Cancel", s.cancel)
	t.Run("Queue", s.queue)
	t.Run("ClientTimeout", s.clientTimeout)
}

// fixture is one file of a provider's testdata.
type fixture struct {
	Sent   json.RawMessage   `json:"sent"`
	Answer json.RawMessage   `json:"answer"`
	Want   provider.Response `json:"want"`
}

func (s Subject) fixture(tb testing.TB, name string) fixture {
	tb.Helper()
	var f fixture
	s.load(tb, name, &f)
	return f
}

// wants compares a response as a whole.
func (f fixture) wants(t *testing.T, resp *provider.Response) {
	t.Helper()
	if diff := cmp.Diff(&f.Want, resp); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}

func (s Subject) load(tb testing.TB, name string, into any) {
	tb.Helper()
	b, err := fs.ReadFile(s.Data, name+".json")
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
}

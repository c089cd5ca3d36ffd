// Package providertest is the one suite that every provider over HTTP passes.
// The suite plays the server. It checks each request as a whole, and sends the
// answers and the failures of the real server. A provider must turn each of
// them into one provider.Response, or into one error of the right category.
//
// A provider adds only its wire format, as files:
//
//	func TestConformance(t *testing.T) {
//		providertest.Run(t, providertest.Subject{
//			Name: "ollama", New: open, Data: os.DirFS("testdata"), …
//		})
//	}
//
// Each name in requests.go has a file with the JSON of the request, the answer
// to it, and the wanted response. The file large.json has the same, with LARGE
// in place of a long text. The file refusal.json is an error as the provider
// writes it. The file wrong.json lists incomplete answers. The file window.json
// lists refusals of conversations that have outgrown the window.
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
	// Name is the provider's name as in a model's full name: "openai".
	Name string
	// New opens the provider. It makes its own client for a nil hc.
	New func(key, base string, hc *http.Client) provider.Provider
	// URL is the address without a base URL. Its path is also the path
	// below any other base URL.
	URL string
	// Key is the API key of the tests.
	Key string
	// Header has the headers of every request besides the content type.
	Header map[string]string
	// Arguments is the path, as in an Exchange, of the arguments of the
	// first call in a request that begins with that call.
	Arguments string
	// KeyOptional reports that the provider works without a key.
	KeyOptional bool
	// Data is the provider's testdata.
	Data fs.FS

	// basePath is the path of the base URL.
	basePath string
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

	t.Run("TooLong", s.tooLong)
	t.Run("Window", s.outgrown)

	t.Run("SlowModel", s.slowModel)
	t.Run("Stalled", s.stalled)
	t.Run("Deadline", s.deadline)
	t.Run("Cancel", s.cancel)
	t.Run("Queue", s.queue)
	t.Run("ClientTimeout", s.clientTimeout)
}

// fixture is one file in a provider's testdata.
type fixture struct {
	Sent   json.RawMessage   `json:"sent"`
	Answer json.RawMessage   `json:"answer"`
	Want   provider.Response `json:"want"`
}

func (s Subject) fixture(tb testing.TB, name string) fixture {
	tb.Helper()
	return load[fixture](tb, s, name)
}

// check compares the whole response.
func (f fixture) check(t *testing.T, resp *provider.Response) {
	t.Helper()
	if diff := cmp.Diff(&f.Want, resp); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}

// load reads a file in a provider's testdata.
func load[T any](tb testing.TB, s Subject, name string) (v T) {
	tb.Helper()
	b, err := fs.ReadFile(s.Data, name+".json")
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	return v
}

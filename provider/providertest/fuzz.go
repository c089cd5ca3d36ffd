package providertest

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"github.com/axebus/axe/provider"
)

// Fuzz sends answers to the provider, first those of the fixtures. Each must
// become a response, or a *provider.Error. A later request must be able to
// repeat the calls of a response.
func Fuzz(f *testing.F, s Subject) {
	names, err := fs.Glob(s.Data, "*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		b, err := fs.ReadFile(s.Data, name)
		if err != nil {
			f.Fatal(err)
		}
		var one fixture
		if json.Unmarshal(b, &one) == nil && one.Answer != nil {
			b = one.Answer
		}
		f.Add(http.StatusOK, b)
		f.Add(http.StatusBadRequest, b)
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		p := s.open("http://model", &http.Client{Transport: &Recorder{Status: status, Answer: string(body)}})
		resp, err := p.Send(t.Context(), hello())
		if err != nil {
			if _, ok := errors.AsType[*provider.Error](err); !ok || strings.ContainsRune(err.Error(), '\n') {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		for _, c := range resp.ToolCalls {
			if c.ID == "" || !json.Valid(c.RawArguments()) {
				t.Fatalf("%+v cannot be repeated", c)
			}
		}
	})
}

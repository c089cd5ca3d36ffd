package ollama_test

import (
	"errors"
	"net/http"
	"os"
	"syscall"
	"testing"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/ollama"
	"github.com/axebus/axe/provider/providertest"
	"github.com/axebus/axe/secret"
)

// subject describes the provider to the conformance suite.
func subject() providertest.Subject {
	return providertest.Subject{
		Name: "ollama",
		New: func(key, base string, hc *http.Client) provider.Provider {
			return ollama.New(ollama.Config{Key: secret.Text(key), BaseURL: base, HTTP: hc})
		},
		URL:         "http://localhost:11434/api/chat",
		KeyOptional: true,
		Header:      map[string]string{"Authorization": "", "X-Api-Key": ""},
		Arguments:   "messages.0.tool_calls.0.function.arguments",
		Data:        os.DirFS("testdata"),
	}
}

// TestConformance: the provider passes the suite without a key and with one.
func TestConformance(t *testing.T) {
	t.Run("NoKey", func(t *testing.T) { providertest.Run(t, subject()) })
	t.Run("Key", func(t *testing.T) {
		s := subject()
		s.Key = "proxy-token-0123456789"
		s.Header["Authorization"] = "Bearer " + s.Key
		providertest.Run(t, s)
	})
}

// FuzzAnswer: each answer of a server becomes a response or a *provider.Error.
func FuzzAnswer(f *testing.F) { providertest.Fuzz(f, subject()) }

// TestNotRunning: no server listens at port 1. The error has the message of
// axe's specification, and shows the base URL without its user and password.
func TestNotRunning(t *testing.T) {
	for base, shown := range map[string]string{
		"http://127.0.0.1:1":                       "http://127.0.0.1:1",
		"http://user:hunter2@127.0.0.1:1/gpu/?k=v": "http://127.0.0.1:1/gpu/",
	} {
		want := "connection refused: is Ollama running? (expected at " + shown + ")"
		_, err := ollama.New(ollama.Config{BaseURL: base}).Send(t.Context(), &provider.Request{Model: "m"})
		e, ok := errors.AsType[*provider.Error](err)
		if !ok || e.Category != provider.Server || e.Message != want || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: got %v, want a server error, ECONNREFUSED: %s", base, err, want)
		}
	}
}

package ollama_test

import (
	"net/http"
	"os"
	"testing"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/ollama"
	"github.com/axebus/axe/provider/providertest"
)

func subject(key string, header map[string]string) providertest.Subject {
	return providertest.Subject{
		New: func(base string, hc *http.Client) provider.Provider {
			return ollama.New(ollama.Config{Key: key, BaseURL: base, HTTP: hc})
		},
		Path:   "/api/chat",
		Header: header,
		Key:    key,
		Data:   os.DirFS("testdata"),
	}
}

func TestConformance(t *testing.T) {
	t.Run("NoKey", func(t *testing.T) {
		providertest.Run(t, subject("", map[string]string{"Authorization": ""}))
	})
	t.Run("Key", func(t *testing.T) {
		const key = "proxy-token-0123456789"
		providertest.Run(t, subject(key, map[string]string{"Authorization": "Bearer " + key}))
	})
}

func FuzzAnswer(f *testing.F) { providertest.Fuzz(f, subject("", nil)) }

package openai_test

import (
	"net/http"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/openai"
	"github.com/axebus/axe/provider/providertest"
)

const key = "sk-test-0123456789"

func subject() providertest.Subject {
	return providertest.Subject{
		Name: "openai",
		New: func(key, base string, hc *http.Client) provider.Provider {
			return openai.New(openai.Config{Key: key, BaseURL: base, HTTP: hc})
		},
		URL:       "https://api.openai.com/v1/chat/completions",
		Key:       key,
		Header:    map[string]string{"Authorization": "Bearer " + key, "X-Api-Key": ""},
		Arguments: "messages.0.tool_calls.0.function.arguments",
		Data:      os.DirFS("testdata"),
	}
}

func TestConformance(t *testing.T) { providertest.Run(t, subject()) }

func FuzzAnswer(f *testing.F) { providertest.Fuzz(f, subject()) }

// OpenAI itself is asked with the limit that its newer models insist on; and calls without an id, which
// imitations send, get one.
func TestOriginalAndImitation(t *testing.T) {
	const answer = `{"choices":[{"message":{"tool_calls":[{"function":{"name":"a"}},{"function":{"name":"b"}}]}}]}`
	const want = `{"model":"m","messages":[],"max_completion_tokens":7}` + "\n"
	calls := []provider.ToolCall{provider.NewToolCall("openai_0", "a", nil), provider.NewToolCall("openai_1", "b", nil)}
	for _, base := range []string{"", "https://api.openai.com", "https://api.openai.com/"} {
		tape := &providertest.Tape{Status: http.StatusOK, Answer: answer}
		c := openai.New(openai.Config{Key: key, BaseURL: base, HTTP: &http.Client{Transport: tape}})
		resp, err := c.Send(t.Context(), &provider.Request{Model: "m", MaxTokens: 7})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, tape.Sent); diff != "" {
			t.Errorf("sent to %q (-want +got):\n%s", base, diff)
		}
		if diff := cmp.Diff(calls, resp.ToolCalls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	}
}

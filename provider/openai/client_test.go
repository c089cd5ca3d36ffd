package openai_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/openai"
	"github.com/axebus/axe/provider/providertest"
)

const key = "sk-test-0123456789"

func subject() providertest.Subject {
	return providertest.Subject{
		New: func(base string, hc *http.Client) provider.Provider {
			return openai.New(openai.Config{Key: key + "\n", BaseURL: base, HTTP: hc})
		},
		Path:   "/v1/chat/completions",
		Header: map[string]string{"Authorization": "Bearer " + key},
		Key:    key,
		Data:   os.DirFS("testdata"),
	}
}

func TestConformance(t *testing.T) { providertest.Run(t, subject()) }

func FuzzAnswer(f *testing.F) { providertest.Fuzz(f, subject()) }

func TestKey(t *testing.T) {
	for _, key := range []string{"", " \n", "sk\nx"} {
		_, err := openai.New(openai.Config{Key: key}).Send(t.Context(), &provider.Request{})
		e, ok := errors.AsType[*provider.Error](err)
		if !ok || e.Category != provider.Auth || !strings.Contains(e.Message, "OPENAI_API_KEY") {
			t.Errorf("key %q: got %v", key, err)
		}
	}
}

// OpenAI itself is asked with the limit that its newer models insist on; and calls without an id, which
// imitations send, get one.
func TestOriginalAndImitation(t *testing.T) {
	const answer = `{"choices":[{"message":{"tool_calls":[{"function":{"name":"a"}},{"function":{"name":"b"}}]}}]}`
	const want = "https://api.openai.com/v1/chat/completions\n" +
		`{"model":"m","messages":[],"max_completion_tokens":7}` + "\n"
	var got string
	c := openai.New(openai.Config{Key: key, HTTP: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		b, err := io.ReadAll(r.Body)
		got = r.URL.String() + "\n" + string(b)
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(answer))}, err
	})}})
	resp, err := c.Send(t.Context(), &provider.Request{Model: "m", MaxTokens: 7})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	calls := []provider.ToolCall{provider.NewToolCall("openai_0", "a", nil), provider.NewToolCall("openai_1", "b", nil)}
	if diff := cmp.Diff(calls, resp.ToolCalls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

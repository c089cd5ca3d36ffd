package openai_test

import (
	"net/http"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/openai"
	"github.com/axebus/axe/provider/providertest"
	"github.com/axebus/axe/secret"
)

const key = "sk-test-0123456789"

// subject describes the provider to the conformance suite.
func subject() providertest.Subject {
	return providertest.Subject{
		Name: "openai",
		New: func(key, base string, hc *http.Client) provider.Provider {
			return openai.New(openai.Config{Key: secret.Text(key), BaseURL: base, HTTP: hc})
		},
		URL:       "https://api.openai.com/v1/chat/completions",
		Key:       key,
		Header:    map[string]string{"Authorization": "Bearer " + key, "X-Api-Key": ""},
		Arguments: "messages.0.tool_calls.0.function.arguments",
		Data:      os.DirFS("testdata"),
	}
}

func TestConformance(t *testing.T) { providertest.Run(t, subject()) }

// FuzzAnswer: each answer of a server becomes a response or a *provider.Error.
func FuzzAnswer(f *testing.F) { providertest.Fuzz(f, subject()) }

// TestOriginalServerAndCallsWithoutIDs: OpenAI's own server gets
// max_completion_tokens, which its newer models require. Calls without an id,
// which some compatible servers send, get an id.
func TestOriginalServerAndCallsWithoutIDs(t *testing.T) {
	const answer = `{"choices":[{"message":{"tool_calls":[{"function":{"name":"a"}},{"function":{"name":"b"}}]}}]}`
	const want = `{"model":"m","messages":[],"max_completion_tokens":7}` + "\n"
	calls := []provider.ToolCall{
		provider.NewToolCall("openai_0", "a", nil),
		provider.NewToolCall("openai_1", "b", nil),
	}
	for _, base := range []string{
		"", "https://api.openai.com", "https://api.openai.com/",
		"https://api.openai.com/v1", "https://api.openai.com/v1/",
	} {
		recorder := &providertest.Recorder{Status: http.StatusOK, Answer: answer}
		c := openai.New(openai.Config{Key: secret.Text(key), BaseURL: base, HTTP: &http.Client{Transport: recorder}})
		resp, err := c.Send(t.Context(), &provider.Request{Model: "m", MaxTokens: 7})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, recorder.Sent); diff != "" {
			t.Errorf("base URL %q: sent (-want +got):\n%s", base, diff)
		}
		if diff := cmp.Diff(calls, resp.ToolCalls); diff != "" {
			t.Errorf("base URL %q: calls (-want +got):\n%s", base, diff)
		}
	}
}

// TestArgumentsAsObject: some compatible servers send arguments as an object
// instead of a string. The provider accepts both.
func TestArgumentsAsObject(t *testing.T) {
	recorder := &providertest.Recorder{Status: http.StatusOK, Answer: `{"choices":[{"message":{"tool_calls":[
		{"id":"1","function":{"name":"a","arguments":{"n": 12345678901234567890}}},
		{"id":"2","function":{"name":"b","arguments":"{\"n\": 1}"}},
		{"id":"3","function":{"name":"c","arguments":null}}]}}]}`}
	c := openai.New(openai.Config{Key: key, HTTP: &http.Client{Transport: recorder}})
	resp, err := c.Send(t.Context(), &provider.Request{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	want := []provider.ToolCall{
		provider.NewToolCall("1", "a", []byte(`{"n": 12345678901234567890}`)),
		provider.NewToolCall("2", "b", []byte(`{"n": 1}`)),
		provider.NewToolCall("3", "c", nil),
	}
	if diff := cmp.Diff(want, resp.ToolCalls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestErrorTexts: the error of a 404 in an unknown format names the base URL.
// The error of an empty answer has no colon at its end. A key of one letter is
// not removed from a text, in which it is likely to be a part of words.
func TestErrorTexts(t *testing.T) {
	for _, tt := range []struct {
		status       int
		answer, want string
	}{
		{http.StatusNotFound, "", "bad_request (HTTP 404): Not Found; check the base URL http://localhost:1"},
		{
			http.StatusNotFound, "404 page not found\n",
			"bad_request (HTTP 404): 404 page not found; check the base URL http://localhost:1",
		},
		{
			http.StatusNotFound, `{"error":{"message":"no such model: key"}}`,
			"bad_request (HTTP 404): no such model: key",
		},
		{http.StatusOK, "", "server (HTTP 200): malformed answer: unexpected end of JSON input"},
	} {
		recorder := &providertest.Recorder{Status: tt.status, Answer: tt.answer}
		hc := &http.Client{Transport: recorder}
		c := openai.New(openai.Config{Key: "k", BaseURL: "http://localhost:1/v1", HTTP: hc})
		_, err := c.Send(t.Context(), &provider.Request{Model: "m"})
		if err == nil || err.Error() != tt.want {
			t.Errorf("status %d, answer %q:\n got %v\nwant %s", tt.status, tt.answer, err, tt.want)
		}
	}
}

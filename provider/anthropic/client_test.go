package anthropic_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/anthropic"
	"github.com/axebus/axe/provider/providertest"
)

const key = "sk-ant-test-0123456789"

func subject() providertest.Subject {
	return providertest.Subject{
		New: func(base string, hc *http.Client) provider.Provider {
			return anthropic.New(anthropic.Config{Key: key + "\n", BaseURL: base, HTTP: hc})
		},
		Path:   "/v1/messages",
		Header: map[string]string{"X-Api-Key": key, "Anthropic-Version": "2023-06-01"},
		Key:    key,
		Data:   os.DirFS("testdata"),
	}
}

func TestConformance(t *testing.T) { providertest.Run(t, subject()) }

func FuzzAnswer(f *testing.F) { providertest.Fuzz(f, subject()) }

func TestKey(t *testing.T) {
	for _, key := range []string{"", " \n", "sk-ant\nx"} {
		_, err := anthropic.New(anthropic.Config{Key: key}).Send(t.Context(), &provider.Request{})
		e, ok := errors.AsType[*provider.Error](err)
		if !ok || e.Category != provider.Auth || !strings.Contains(e.Message, "ANTHROPIC_API_KEY") {
			t.Errorf("key %q: got %v", key, err)
		}
	}
}

// The API refuses blocks of nothing but white space, which its models write before tool calls, and
// messages without any block.
func TestNothingSaidIsNotSent(t *testing.T) {
	const want = `{"model":"m","max_tokens":4096,"messages":[` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"now","input":{}}]},` +
		`{"role":"user","content":"Go on."}]}` + "\n"
	var got string
	c := anthropic.New(anthropic.Config{Key: key, HTTP: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		b, err := io.ReadAll(r.Body)
		got = r.URL.String() + "\n" + string(b)
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"content":[]}`))}, err
	})}})
	_, err := c.Send(t.Context(), &provider.Request{Model: "m", Messages: []provider.Message{
		{Role: provider.Assistant, Content: "\n\n", ToolCalls: []provider.ToolCall{{ID: "1", Name: "now"}}},
		{Role: provider.ToolRole, Content: "results are all that counts"},
		{Role: provider.Assistant, Content: ""},
		{Role: provider.User, Content: "Go on."},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("https://api.anthropic.com/v1/messages\n"+want, got); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

package anthropic_test

import (
	"net/http"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/anthropic"
	"github.com/axebus/axe/provider/providertest"
	"github.com/axebus/axe/secret"
)

const key = "sk-ant-test-0123456789"

// subject describes the provider to the conformance suite.
func subject() providertest.Subject {
	return providertest.Subject{
		Name: "anthropic",
		New: func(key, base string, hc *http.Client) provider.Provider {
			return anthropic.New(anthropic.Config{Key: secret.Text(key), BaseURL: base, HTTP: hc})
		},
		URL:       "https://api.anthropic.com/v1/messages",
		Key:       key,
		Header:    map[string]string{"X-Api-Key": key, "Anthropic-Version": "2023-06-01", "Authorization": ""},
		Arguments: "messages.0.content.0.input",
		Data:      os.DirFS("testdata"),
	}
}

func TestConformance(t *testing.T) { providertest.Run(t, subject()) }

// FuzzAnswer: each answer of a server becomes a response or a *provider.Error.
func FuzzAnswer(f *testing.F) { providertest.Fuzz(f, subject()) }

// TestBlankTextIsNotSent: the API refuses blocks of white space, which its
// models write before tool calls, and messages without a block. The provider
// sends neither.
func TestBlankTextIsNotSent(t *testing.T) {
	const want = `{"model":"m","max_tokens":4096,"messages":[` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"now","input":{}}]},` +
		`{"role":"user","content":"Go on."}]}` + "\n"
	recorder := &providertest.Recorder{Status: http.StatusOK, Answer: `{"content":[]}`}
	c := anthropic.New(anthropic.Config{Key: key, HTTP: &http.Client{Transport: recorder}})
	_, err := c.Send(t.Context(), &provider.Request{Model: "m", Messages: []provider.Message{
		{Role: provider.Assistant, Content: "\n\n", ToolCalls: []provider.ToolCall{{ID: "1", Name: "now"}}},
		{Role: provider.ToolRole, Content: "never sent"},
		{Role: provider.Assistant, Content: ""},
		{Role: provider.User, Content: "Go on."},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, recorder.Sent); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

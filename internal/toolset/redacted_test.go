package toolset_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/toolset"
	"github.com/axebus/axe/secret"
)

// TestRedacted: a service repeats the headers of a request in its answer and in
// its refusal. Neither the result nor the error has the secret. The service got
// it.
func TestRedacted(t *testing.T) {
	t.Parallel()
	const token = "tok-0123456789"
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			t.Errorf("the service got %q", r.Header.Get("Authorization"))
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, "you sent %s", r.Header.Get("Authorization"))
	}))
	t.Cleanup(s.Close)
	set := toolset.Redacted(toolset.HTTP(configs.Toolset{
		Kind: configs.ToolsetHTTP, Headers: map[string]string{"Authorization": "Bearer " + token},
		Tools: map[string]configs.ToolsetTool{"act": {Description: "Sends " + token, URL: s.URL}},
	}), []secret.Text{token})
	result, err := set.Call(t.Context(), callOf("{}"))
	if err != nil || result.Text != "you sent Bearer [redacted]" {
		t.Errorf("the result is %q, %v", result.Text, err)
	}
	status = http.StatusInternalServerError
	result, err = set.Call(t.Context(), callOf("{}"))
	if shown := fmt.Sprint(result.Text, err); err == nil || strings.Contains(shown, token) ||
		!strings.Contains(shown, "[redacted]") {
		t.Errorf("the refusal is %q", shown)
	}
	tools, err := set.Tools(t.Context())
	if err != nil || len(tools) != 1 || tools[0].Description != "Sends [redacted]" {
		t.Errorf("the tools are %+v, %v", tools, err)
	}
}

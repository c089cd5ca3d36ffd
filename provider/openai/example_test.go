package openai_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/openai"
)

// A refused request is a *provider.Error, with the time to wait.
func ExampleClient_Send() {
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "20")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"error": {"message": "Rate limit reached for gpt-4o."}}`)
	}))
	defer busy.Close()

	c := openai.New(openai.Config{Key: "sk-example", BaseURL: busy.URL})
	_, err := c.Send(context.Background(), &provider.Request{
		Model:    "gpt-4o",
		Messages: []provider.Message{{Role: provider.User, Content: "Hello?"}},
	})
	if e, ok := errors.AsType[*provider.Error](err); ok {
		fmt.Println(e.Category, e.RetryAfter)
		fmt.Println(e)
	}
	// Output:
	// rate_limit 20s
	// rate_limit (HTTP 429): Rate limit reached for gpt-4o.
}

package catalog_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/catalog"
)

// A catalog opens a model by its full name, and finds the address of its
// provider in the environment.
func Example() {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"message": {"role": "assistant", "content": "Hello from %s."}}`, r.URL.Path)
	}))
	defer model.Close()
	env := map[string]string{"AXE_OLLAMA_BASE_URL": model.URL}

	c := catalog.New(catalog.Config{Getenv: func(name string) string { return env[name] }})
	p, name, err := c.Open("ollama/library/llama3.1")
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := p.Send(context.Background(), &provider.Request{
		Model:    name,
		Messages: []provider.Message{{Role: provider.User, Content: "Hello?"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(name)
	fmt.Println(resp.Content)
	// Output:
	// library/llama3.1
	// Hello from /api/chat.
}

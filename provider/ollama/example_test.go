package ollama_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/ollama"
)

// The client sends a request to a local server, without a key.
func ExampleClient_Send() {
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			fmt.Println(err)
		}
		fmt.Print(string(sent))
		fmt.Fprint(w, `{"message": {"content": "Hello."}, "prompt_eval_count": 11, "eval_count": 2}`)
	}))
	defer local.Close()

	c := ollama.New(ollama.Config{BaseURL: local.URL})
	resp, err := c.Send(context.Background(), &provider.Request{
		Model:    "phi",
		Messages: []provider.Message{{Role: provider.User, Content: "?"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Content, resp.InputTokens, resp.OutputTokens)
	// Output:
	// {"model":"phi","messages":[{"role":"user","content":"?"}],"stream":false}
	// Hello. 11 2
}

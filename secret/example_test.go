package secret_test

import (
	"fmt"

	"github.com/axebus/axe/secret"
)

// Only Reveal shows a secret.
func Example() {
	key := secret.Text("sk-0123456789")
	fmt.Println(key, len(key.Reveal()))
	// Output: [redacted] 13
}

package verify_test

import (
	"fmt"
	"time"

	"github.com/axebus/axe/internal/verify"
)

// The stream has the outcome of a root, and no call of it. A refused submission
// has an outcome without a call too, but that is a failure.
func ExampleChecker() {
	c := verify.New(verify.Config{Slack: 5 * time.Second})
	c.Add(verify.Message{
		Subject: "axe.result.lead.T1", Seq: 7,
		Body: []byte(`{"status":"completed","agent":"lead","tree":"T1","path":"r"}`),
	})
	for _, f := range c.Report(time.Now()).Findings {
		fmt.Println(f)
	}
	// Output:
	// violation outcome tree T1 r lead message 7: completed, and was never called
}

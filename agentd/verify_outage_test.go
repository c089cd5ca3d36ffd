package agentd_test

import (
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/verify"
)

// TestVerifyAfterAnOutage: the model answers before the run's deadline. From
// then until after the deadline the server stores nothing of the worker. The
// answer is the first message that it stores again. Package verify notes the
// late outcome, and reports no violation.
func TestVerifyAfterAnOutage(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil)}
		h.models["lead"] = delayed(20*time.Second, says("done"))
		began := time.Now()
		outageBegins, outageEnds := began.Add(15*time.Second), began.Add(2*time.Minute)
		h.startWorker("w", workerOptions{atStep: func(s step) error {
			if s.Op != "write" || s.After || time.Now().Before(outageBegins) {
				return nil
			}
			// bus.Conn.Write waits like that while there is no room.
			time.Sleep(time.Until(outageEnds))
			if !strings.HasPrefix(s.Subject, "axe.result.") {
				time.Sleep(time.Until(outageEnds.Add(time.Second)))
			}
			return nil
		}})
		h.awaitReady()
		r := h.root("lead")
		h.submitTo(r, "go", due(time.Now().Add(30*time.Second)))
		h.expectCompleted(r, "done")
		if time.Now().Before(outageEnds) {
			t.Errorf("the outcome was stored after %v, during the outage", time.Since(began))
		}
		time.Sleep(time.Minute)
		report := h.checkVerified()
		if len(report.Findings) != 1 || report.Findings[0].Rule != verify.Deadline {
			t.Errorf("findings %+v, want one, about the late outcome", report.Findings)
		}
	})
}

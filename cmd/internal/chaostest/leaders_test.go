package chaostest

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// elections are the subjects of a cluster's notices about new leaders of
// streams and consumers.
const elections = "$JS.EVENT.ADVISORY.*.LEADER_ELECTED.>"

// watchLeaders records every move of a leader until the test ends. A consumer
// that moves delivers again the messages in hand, and those of which its new
// leader has seen no acknowledgement. That may be seconds after the fault that
// moved it. watchLeaders listens at every node, since any node may be down.
func (h *harness) watchLeaders(t *testing.T) {
	t.Helper()
	if len(h.servers.nodes) == 1 {
		return // it leads everything
	}
	for _, n := range h.servers.nodes {
		nc, err := nats.Connect(
			"nats://"+n.addr(),
			nats.IgnoreDiscoveredServers(),
			nats.RetryOnFailedConnect(true),
			nats.MaxReconnects(-1),
		)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		_, err = nc.Subscribe(elections, func(m *nats.Msg) {
			h.hits.moved(strings.TrimPrefix(m.Subject, "$JS.EVENT.ADVISORY."))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

package chaostest

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// elections are what a cluster says when a stream or a consumer has another
// leader.
const elections = "$JS.EVENT.ADVISORY.*.LEADER_ELECTED.>"

// watchLeaders notes every move of a leader until the test ends. A consumer
// that moves delivers again what was in hand, and what its new leader has not
// heard to be acknowledged: that may be seconds after the fault that made it
// move. It is heard from every node, since any of them may be the one that is
// gone.
func (st *stage) watchLeaders(t *testing.T) {
	t.Helper()
	for _, n := range st.servers.nodes {
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
			st.hits.moved(strings.TrimPrefix(m.Subject, "$JS.EVENT.ADVISORY."))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

package cli

import (
	"testing"

	"github.com/axebus/axe/bus"
)

// TestCardsOfWorkers: a card counts only under the name of its key, as for
// FindCard and for workers.
func TestCardsOfWorkers(t *testing.T) {
	server, err := bus.Serve(bus.ServerConfig{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	conn, err := bus.Open(t.Context(), bus.Config{Dial: bus.Dial{Server: server}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := conn.Provision(t.Context(), bus.Provision{}); err != nil {
		t.Fatal(err)
	}
	dir, err := conn.Directory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for key, card := range map[string]string{
		"reader": `{"name":"reader"}`, "lead": `{"name":"lead"}`, "other": `{"name":"leader"}`, "broken": `{`,
	} {
		if _, err := dir.Put(t.Context(), key, []byte(card)); err != nil {
			t.Fatal(err)
		}
	}
	cards, err := Cards(t.Context(), conn)
	if err != nil || len(cards) != 2 || cards[0].Name != "lead" || cards[1].Name != "reader" {
		t.Errorf("got cards %v, error %v, want those of lead and reader", cards, err)
	}
}

package cli

import (
	"testing"

	"github.com/axebus/axe/internal/testbus"
)

// TestCardsOfWorkers: a card counts only under the name of its key, as for
// FindCard and for workers.
func TestCardsOfWorkers(t *testing.T) {
	conn := testbus.Open(t)
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

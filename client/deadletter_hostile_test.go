package client_test

import (
	"testing"
	"time"

	"github.com/axebus/axe/bus"
)

// TestHostileLetter: whoever may submit, and does it under a name that is none
// and with a reference to a body of a terabyte, spoils his own letter at most,
// not the list of all of them.
func TestHostileLetter(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		s.hire()
		for subject, header := range map[string][][2]string{
			"axe.submit.NoBody.a": nil,
			"axe.submit.NoBody.b": {{"Axe-Object", "x"}, {"Axe-Size", "1099511627776"}},
		} {
			if _, err := s.conn.Write(t.Context(), bus.Message{Subject: subject, Header: header, Body: []byte("x")}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if letters, err := s.DeadLetters(t.Context()); err != nil || len(letters) != 2 {
			t.Errorf("%d letters, %v", len(letters), err)
		}
	})
}

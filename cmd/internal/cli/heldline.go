package cli

import (
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// Place is a run in a line of JSON.
type Place struct {
	Tree  string `json:"tree"`
	Path  string `json:"path"`
	Agent string `json:"agent"`
}

func placeOf(r subjects.Run) Place { return Place{r.Tree.String(), r.Path.String(), r.Agent.String()} }

// HeldTurnLine is a held turn as axe pending -o json prints it.
type HeldTurnLine struct {
	Place
	client.HeldTurn
}

// HeldTurnLineOf describes a held turn.
func HeldTurnLineOf(t client.HeldTurn) HeldTurnLine { return HeldTurnLine{placeOf(t.Run), t} }

// HeldCallLine is a held call of a tool as axe pending -o json prints it.
type HeldCallLine struct {
	Place
	client.HeldCall
}

// HeldCallLineOf describes a held call of a tool.
func HeldCallLineOf(c client.HeldCall) HeldCallLine { return HeldCallLine{placeOf(c.Run), c} }

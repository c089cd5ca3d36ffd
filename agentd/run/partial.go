package run

// Partial has the results of a failed run.
type Partial struct {
	// Text is the last text that the model wrote.
	Text string `json:"text,omitzero"`
	// Results has the completed calls, in call order.
	Results []PartialResult `json:"results,omitempty"`
	// Waiting has the calls without an outcome, in call order.
	Waiting []PartialCall `json:"waiting,omitempty"`
}

// PartialResult is the result of one call.
type PartialResult struct {
	// Turn is counted from 1.
	Turn int `json:"turn"`
	// Index is the place of the call in its turn, from 0.
	Index  int    `json:"index"`
	Agent  string `json:"agent"`
	Result string `json:"result"`
}

// PartialCall is a call without an outcome. Turn and Index are those of
// PartialResult.
type PartialCall struct {
	Turn  int    `json:"turn"`
	Index int    `json:"index"`
	Agent string `json:"agent"`
}

// Partial returns the results of the run so far, nil if there are none.
func (s State) Partial() *Partial {
	var p Partial
	for i, t := range s.Turns {
		if text := t.Entry.Answer.Content; text != "" {
			p.Text = text
		}
		for index, o := range t.Outcomes {
			switch {
			case t.Entry.Calls[index].Op != OpCall:
			case o == nil:
				p.Waiting = append(p.Waiting, PartialCall{i + 1, index, t.Entry.Calls[index].Agent})
			case o.Status == StatusCompleted:
				p.Results = append(p.Results, PartialResult{i + 1, index, o.Agent, o.Result})
			}
		}
	}
	if p.Text == "" && p.Results == nil && p.Waiting == nil {
		return nil
	}
	return &p
}

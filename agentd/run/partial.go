package run

// Partial is what a run that failed had by then.
type Partial struct {
	// what its model said last, beside its calls
	Text string `json:"text,omitzero"`
	// of the calls that were completed, in call order
	Results []PartialResult `json:"results,omitempty"`
	// the calls that had no outcome, in call order
	Waiting []PartialCall `json:"waiting,omitempty"`
}

// PartialResult is the result of one call.
type PartialResult struct {
	Turn   int    `json:"turn"`  // from 1
	Index  int    `json:"index"` // from 0
	Agent  string `json:"agent"`
	Result string `json:"result"`
}

// PartialCall is a call that was waited for.
type PartialCall struct {
	Turn  int    `json:"turn"`
	Index int    `json:"index"`
	Agent string `json:"agent"`
}

// Partial is what the run has so far, nil if that is nothing.
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

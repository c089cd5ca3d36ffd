package run

import (
	"encoding/json"
	"fmt"
)

// Form has the questions that a tool asks a person before it goes on with its
// call. The tool run is held until a person has filled it in.
type Form struct {
	// ID is unique to the form.
	ID        string     `json:"id"`
	Questions []Question `json:"questions"`
	// State is a text of the tool's server. The next request to the server
	// has it, unchanged.
	State string `json:"state,omitzero"`
}

// Question is one question of a form.
type Question struct {
	// Key is unique among the questions of the form.
	Key  string `json:"key"`
	Text string `json:"text"`
	// Schema is the JSON Schema of the answer, which is an object. Without
	// a schema every object fits: a question with a URL is answered by {}.
	Schema json.RawMessage `json:"schema,omitempty"`
	// URL is a page that the person visits before the answer, "" for none.
	URL string `json:"url,omitzero"`
}

// FilledForm is a form with the answers of a person.
type FilledForm struct {
	Form
	// Declined says that the person gives no answers.
	Declined bool
	// Answers are JSON objects, by the keys of the questions.
	Answers map[string]json.RawMessage
}

// String returns the first question, and the number of questions if there are
// more.
func (f Form) String() string {
	switch len(f.Questions) {
	case 0:
		return "the tool asks for input"
	case 1:
		return "the tool asks: " + f.Questions[0].Text
	}
	return fmt.Sprintf("the tool asks %d questions: %s …", len(f.Questions), f.Questions[0].Text)
}

package web

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// decodeAt decodes a body into a value of which path is a field, and parses the
// path. Without one it is the root.
func decodeAt(r *http.Request, into any, path *string) (subjects.Path, error) {
	if err := decode(r, into); err != nil {
		return subjects.Path{}, err
	}
	return subjects.ParsePath(cmp.Or(*path, subjects.Root.String()))
}

// done answers a request that has stored its message.
func done(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// cancelBody is the body of a request to cancel.
type cancelBody struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

func (s *Server) cancel(w http.ResponseWriter, r *http.Request) error {
	var body cancelBody
	path, err := decodeAt(r, &body, &body.Path)
	if err != nil {
		return err
	}
	return done(w, s.Cancel(r.Context(), treeOf(r), path, body.Reason))
}

// approveBody is the body of an approval.
type approveBody struct {
	Path string `json:"path"`
	// Turn is the turn that the person has seen. 0 is the one that is held.
	Turn int    `json:"turn"`
	By   string `json:"by"`
	// Arguments replace those of calls of tools, by the number of the call.
	Arguments map[int]json.RawMessage `json:"arguments"`
}

func (s *Server) approve(w http.ResponseWriter, r *http.Request) error {
	var body approveBody
	path, err := decodeAt(r, &body, &body.Path)
	if err != nil {
		return err
	}
	for call, text := range body.Arguments {
		var object map[string]any
		if err := json.Unmarshal(text, &object); err != nil || object == nil {
			return invalid("the arguments of call %d must be a JSON object", call)
		}
	}
	return done(w, s.Decide(r.Context(), treeOf(r), path, run.Approval{
		Approve: true, Turn: body.Turn, By: body.By, Arguments: body.Arguments,
	}))
}

// denyBody is the body of a denial.
type denyBody struct {
	Path   string `json:"path"`
	Turn   int    `json:"turn"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

func (s *Server) deny(w http.ResponseWriter, r *http.Request) error {
	var body denyBody
	path, err := decodeAt(r, &body, &body.Path)
	if err != nil {
		return err
	}
	return done(w, s.Decide(r.Context(), treeOf(r), path, run.Approval{
		Turn: body.Turn, By: body.By, Reason: body.Reason,
	}))
}

// settleBody is the body of a settlement.
type settleBody struct {
	Path string `json:"path"`
	run.Settlement
}

func (s *Server) settle(w http.ResponseWriter, r *http.Request) error {
	var body settleBody
	path, err := decodeAt(r, &body, &body.Path)
	if err != nil {
		return err
	}
	text, err := json.Marshal(body.Settlement)
	if err == nil {
		_, err = run.DecodeSettlement(text)
	}
	if err != nil {
		return invalid("%w", err)
	}
	if body.As.FillsForm() {
		h, err := s.HeldForm(r.Context(), treeOf(r), path)
		if err != nil {
			return err
		}
		if body.As == run.SettleAnswer {
			if err := checkAnswers(h.Form, body.Answers); err != nil {
				return err
			}
		}
		path, body.Attempt = h.Run.Path, cmp.Or(body.Attempt, h.Form.ID)
	}
	return done(w, s.Settle(r.Context(), treeOf(r), path, body.Settlement))
}

// mailBody is the body of a message to a run.
type mailBody struct {
	Path string `json:"path"`
	From string `json:"from"`
	Text string `json:"text"`
}

func (s *Server) mail(w http.ResponseWriter, r *http.Request) error {
	var body mailBody
	path, err := decodeAt(r, &body, &body.Path)
	if err != nil {
		return err
	}
	return done(w, s.Send(r.Context(), treeOf(r), path, body.From, body.Text))
}

// interruptBody is the body of an interrupt.
type interruptBody struct {
	Path string `json:"path"`
}

func (s *Server) interrupt(w http.ResponseWriter, r *http.Request) error {
	var body interruptBody
	path, err := decodeAt(r, &body, &body.Path)
	if err != nil {
		return err
	}
	return done(w, s.Interrupt(r.Context(), treeOf(r), path))
}

package mcpclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/toolset"
)

// inputRequest is one question of a server, in a result that asks for input.
// The format is that of multi round-trip requests in the protocol 2026-07-28.
type inputRequest struct {
	Method string `json:"method"`
	Params struct {
		// Mode is form or url, form if it is empty.
		Mode    string          `json:"mode"`
		Message string          `json:"message"`
		Schema  json.RawMessage `json:"requestedSchema"`
		URL     string          `json:"url"`
	} `json:"params"`
}

const methodElicit = "elicitation/create"

// inputError returns the error of a result that asks for input. It is a
// toolset.InputError with the form if axe can ask a person.
func inputError(requests map[string]inputRequest, state string) error {
	form := run.Form{State: state}
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		r := requests[key]
		q := run.Question{Key: key, Text: cmp.Or(r.Params.Message, key)}
		switch mode := cmp.Or(r.Params.Mode, "form"); {
		case r.Method != methodElicit:
			return fmt.Errorf("the tool asks for input by %q, which axe cannot give it", r.Method)
		case mode == "form":
			q.Schema = r.Params.Schema
		case mode == "url" && r.Params.URL != "":
			q.URL = r.Params.URL
		default:
			return fmt.Errorf("the tool asks for input in the mode %q, which axe cannot give it", mode)
		}
		form.Questions = append(form.Questions, q)
	}
	if len(form.Questions) == 0 {
		// The protocol uses such a result to shed load.
		return errors.New("the server is busy, and asks to be called again later")
	}
	return &toolset.InputError{Form: form}
}

// responses returns the answers of a filled form in the format of the protocol.
func responses(f *run.FilledForm) (mcp.InputResponseMap, error) {
	all := mcp.InputResponseMap{}
	for _, q := range f.Questions {
		if f.Declined {
			all[q.Key] = &mcp.ElicitResult{Action: "decline"}
			continue
		}
		r := &mcp.ElicitResult{Action: "accept"}
		if q.URL == "" {
			d := json.NewDecoder(bytes.NewReader(f.Answers[q.Key]))
			d.UseNumber()
			if err := d.Decode(&r.Content); err != nil {
				return nil, fmt.Errorf("the answer to %q is no JSON object: %w", q.Key, err)
			}
		}
		all[q.Key] = r
	}
	return all, nil
}

// withoutInput is a middleware that tells servers of the protocols before
// 2026-07-28 that axe answers no questions, and knows no extension for tasks.
// They ask by a request within the call, and such a call cannot be held.
func withoutInput(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if p, ok := req.GetParams().(*mcp.InitializeParams); ok {
			p.Capabilities.Elicitation, p.Capabilities.Extensions = nil, nil
		}
		return next(ctx, method, req)
	}
}

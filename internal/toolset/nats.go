package toolset

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/traceparent"
)

// Headers of a request to a service. Nats-Msg-Id and Axe-Key have the key of
// the call.
const (
	headerMsgID = "Nats-Msg-Id"
	headerKey   = "Axe-Key"
)

// Headers of the answer of a micro service that failed, as the micro framework
// of NATS sets them (ADR-32).
const (
	headerError     = "Nats-Service-Error"
	headerErrorCode = "Nats-Service-Error-Code"
)

// NATS returns the toolset of a file of the kind nats. Each call of a tool is a
// request with the arguments as its JSON body. Arguments that the subject names
// become tokens of it. The tools are those of the file, or the endpoints of a
// micro service. Metadata of an endpoint describe its tool: "description",
// "schema" and "effect".
func NATS(def configs.Toolset, conn *bus.Conn) Set {
	return &natsSet{static: static{defined(def)}, def: def, conn: conn}
}

type natsSet struct {
	static

	def  configs.Toolset
	conn *bus.Conn

	mu sync.Mutex
	// known are the endpoints that the service named last.
	known []endpoint
}

// Tools returns the tools of the file, or asks the service for its endpoints.
func (s *natsSet) Tools(ctx context.Context) ([]Tool, error) {
	if s.def.Service == "" {
		return s.tools, nil
	}
	endpoints, err := s.endpoints(ctx)
	if err != nil {
		return nil, err
	}
	tools := make([]Tool, len(endpoints))
	for i, e := range endpoints {
		tools[i] = e.tool()
	}
	return tools, nil
}

// endpoint is an endpoint of a micro service, as it answers to $SRV.INFO.
type endpoint struct {
	Name     string            `json:"name"`
	Subject  string            `json:"subject"`
	Metadata map[string]string `json:"metadata"`
}

// endpoints asks one instance of the service for its endpoints.
func (s *natsSet) endpoints(ctx context.Context) ([]endpoint, error) {
	reply, err := bus.Request(ctx, s.conn, "$SRV.INFO."+s.def.Service, nil, nil)
	if errors.Is(err, bus.ErrNoResponder) {
		return nil, fmt.Errorf("no instance of the service %s is there", s.def.Service)
	}
	if err != nil {
		return nil, err
	}
	var info struct {
		Endpoints []endpoint `json:"endpoints"`
	}
	if err := json.Unmarshal(reply.Body, &info); err != nil {
		return nil, fmt.Errorf("the service %s describes itself wrongly: %w", s.def.Service, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = info.Endpoints
	return info.Endpoints, nil
}

func (e endpoint) tool() Tool {
	t := Tool{
		Name: e.Name, Description: e.Metadata["description"], Schema: json.RawMessage(e.Metadata["schema"]),
		Effect: run.ToolEffect(e.Metadata["effect"]),
	}
	if !json.Valid(t.Schema) {
		t.Schema = schemaOf("")
	}
	switch t.Effect {
	case run.ToolReads, run.ToolIdempotent, run.ToolOnce:
	default:
		t.Effect = ""
	}
	return t
}

// Call sends the request of a tool.
func (s *natsSet) Call(ctx context.Context, c Call) (Result, error) {
	subject, err := s.subjectOf(ctx, c.Tool)
	if err != nil {
		return Result{}, err
	}
	args, err := c.arguments()
	if err != nil {
		return Result{}, err
	}
	if subject, err = fill(subject, args, token); err != nil {
		return Result{}, err
	}
	body, err := json.Marshal(args)
	if err != nil {
		return Result{}, err
	}
	headers := map[string]string{headerMsgID: c.Key, headerKey: c.Key}
	if value := traceparent.Of(ctx); value != "" {
		headers[traceparent.Name] = value
	}
	reply, err := bus.Request(ctx, s.conn, subject, headers, body)
	switch {
	case errors.Is(err, bus.ErrNoResponder), ctx.Err() != nil:
		return Result{}, err
	case err != nil:
		return Result{}, fmt.Errorf("%w: %w", ErrLost, err)
	}
	if code, why := reply.Header.Get(headerErrorCode), reply.Header.Get(headerError); code != "" || why != "" {
		return Result{}, fmt.Errorf("the service failed (%s): %s", cmp.Or(code, "no code"),
			strings.Join(nonEmpty(why, text(string(reply.Body))), ": "))
	}
	return content(c.Tool, reply.Header.Get("Content-Type"), reply.Body), nil
}

// subjectOf returns the subject of a tool, with placeholders.
func (s *natsSet) subjectOf(ctx context.Context, tool string) (string, error) {
	if t, ok := s.def.Tools[tool]; ok && t.Subject != "" {
		return t.Subject, nil
	}
	if s.def.Service == "" {
		return "", noTool(tool)
	}
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	named := func(e endpoint) bool { return e.Name == tool }
	i := slices.IndexFunc(known, named)
	if i < 0 {
		var err error
		if known, err = s.endpoints(ctx); err != nil {
			return "", err
		}
		if i = slices.IndexFunc(known, named); i < 0 {
			return "", noTool(tool)
		}
	}
	return known[i].Subject, nil
}

// token returns an argument as one token of a subject.
func token(name, value string) (string, error) {
	if value == "" || strings.ContainsAny(value, ".*> \t\r\n\x00") {
		return "", fmt.Errorf(
			"%s must be one token of a subject, without dots, blanks and wildcards, got %q",
			name,
			value,
		)
	}
	return value, nil
}

package web

import (
	_ "embed"
	"net/http"

	"github.com/axebus/axe/internal/httpguard"
)

// openAPI is the description of the API.
//
//go:embed openapi.json
var openAPI []byte

// catchAll is the pattern of the requests that no route takes.
const catchAll = "/v1/"

// route is an operation of the API.
type route struct {
	pattern string
	role    httpguard.Role
	do      func(w http.ResponseWriter, r *http.Request) error
	// lasting says that the operation takes longer than requestTimeout.
	lasting bool
	// takesTask says that the body may have the size of a task.
	takesTask bool
}

// routes are the operations of the API. Openapi.json describes each of them.
func (s *Server) routes() []route {
	return []route{
		{pattern: "GET /v1/openapi.json", role: httpguard.Read, do: s.describe},
		{
			pattern: "POST /v1/agents/{agent}/tasks", role: httpguard.Submit, do: s.submit,
			lasting: true, takesTask: true,
		},
		{pattern: "GET /v1/agents", role: httpguard.Read, do: s.listAgents},
		{pattern: "GET /v1/statistics", role: httpguard.Read, do: s.statistics},
		{pattern: "GET /v1/workers", role: httpguard.Read, do: s.listWorkers},
		{pattern: "GET /v1/trees", role: httpguard.Read, do: s.listTrees},
		{pattern: "GET /v1/trees/{tree}", role: httpguard.Read, do: s.showTree},
		{pattern: "GET /v1/trees/{tree}/events", role: httpguard.Read, do: s.events, lasting: true},
		{pattern: "GET /v1/trees/{tree}/runs/{path}", role: httpguard.Read, do: s.showRun},
		{pattern: "GET /v1/trees/{tree}/diff/{other}", role: httpguard.Read, do: s.diff},
		{pattern: "GET /v1/trees/{tree}/artifacts", role: httpguard.Read, do: s.listArtifacts},
		{pattern: "GET /v1/trees/{tree}/artifacts/{name}", role: httpguard.Read, do: s.artifact, lasting: true},
		{pattern: "POST /v1/trees/{tree}/cancel", role: httpguard.Operate, do: s.cancel},
		{pattern: "POST /v1/trees/{tree}/approve", role: httpguard.Operate, do: s.approve},
		{pattern: "POST /v1/trees/{tree}/deny", role: httpguard.Operate, do: s.deny},
		{pattern: "POST /v1/trees/{tree}/settle", role: httpguard.Operate, do: s.settle},
		{pattern: "POST /v1/trees/{tree}/mail", role: httpguard.Operate, do: s.mail},
		{pattern: "POST /v1/trees/{tree}/interrupt", role: httpguard.Operate, do: s.interrupt},
		{pattern: "GET /v1/held", role: httpguard.Read, do: s.listHeld},
		{pattern: "GET /v1/dead-letters", role: httpguard.Read, do: s.listDeadLetters},
		{pattern: "GET /v1/dead-letters/{letter}", role: httpguard.Read, do: s.showDeadLetter},
		{pattern: "POST /v1/dead-letters/{letter}/retry", role: httpguard.Operate, do: s.retryDeadLetter},
	}
}

// describe answers with the description of the API.
func (s *Server) describe(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI)
	return nil
}

package mcpclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/toolset"
)

// poll asks a set for the task with an id.
func poll(t *testing.T, s *Set, id string, filled *run.FilledForm, answered ...string) (string, error) {
	t.Helper()
	res, err := s.Call(t.Context(), toolset.Call{Tool: "a", Filled: filled, Task: &run.AwaitedTask{
		ServerTask: run.ServerTask{ID: id, Poll: time.Hour}, Answered: answered,
	}})
	return res.Text, err
}

// TestTaskMade: a result that is a task, in the words of either protocol, has
// the times of its server.
func TestTaskMade(t *testing.T) {
	rawServers(t, func(t *testing.T, s *Set) {
		t.Helper()
		for result, want := range map[string]run.ServerTask{
			`{"resultType":"task","taskId":"7","status":"working","ttlMs":60000,"pollIntervalMs":50}`: {
				ID: "7", Poll: 50 * time.Millisecond, TTL: time.Minute,
			},
			`{"resultType":"task","taskId":"7","status":"working","ttlMs":null}`: {ID: "7"},
			`{"task":{"taskId":"7","status":"working","ttl":1e99,"pollInterval":-5}}`: {
				ID: "7", TTL: maxTaskTime,
			},
		} {
			made, ok := errors.AsType[*toolset.TaskError](callError(t, s, "a", `{"result":`+result+`}`))
			if !ok || made.Task != want || made.Why != nil {
				t.Errorf("%s: %+v, want the task %+v", result, made, want)
			}
		}
	})
}

// TestTaskPolled: a task that goes on has its newest times. One that has ended
// gives the result of its call, or an error that says how it ended. An unknown
// status and a result that is no end are errors, and never an empty result.
func TestTaskPolled(t *testing.T) {
	rawServers(t, func(t *testing.T, s *Set) {
		t.Helper()
		for _, id := range []string{
			`{"status":"working","pollIntervalMs":70}`,
			`{"status":"input_required","pollIntervalMs":70,"inputRequests":{"old":{"method":"roots/list"}}}`,
		} {
			_, err := poll(t, s, id, nil, "old")
			want := run.ServerTask{ID: id, Poll: 70 * time.Millisecond}
			if on, ok := errors.AsType[*toolset.TaskError](err); !ok || on.Task != want || on.Why != nil {
				t.Errorf("%s: %v, want that it goes on as %+v", id, err, want)
			}
		}
		for id, want := range map[string]string{
			`{"status":"failed","error":{"code":-32603,"message":"out of luck"}}`:  "the task failed: out of luck",
			`{"status":"failed","statusMessage":"no luck"}`:                        "the task failed: no luck",
			`{"status":"cancelled","statusMessage":"too old"}`:                     "has cancelled the task: too old",
			`{"status":"completed"}`:                                               "the task gave no result",
			`{"status":"completed","result":{"isError":true,"content":[]}}`:        "the tool failed",
			`{"status":"completed","result":{"resultType":"task","taskId":"8"}}`:   "a result that is no end",
			`{"status":"completed","result":{"resultType":"parcel","content":[]}}`: `type "parcel"`,
			`{"status":"paused"}`: `the status "paused"`,
			`{"status":"input_required","inputRequests":{"k":{"method":"sampling/createMessage"}}}`: "input by",
			`no task`: toolset.ErrForgotten.Error(),
		} {
			_, err := poll(t, s, id, nil)
			_, goesOn := errors.AsType[*toolset.TaskError](err)
			if !strings.Contains(fmt.Sprint(err), want) || goesOn || errors.Is(err, toolset.ErrLost) {
				t.Errorf("%s: error %v, want %q", id, err, want)
			}
		}
		const done = `{"status":"completed","result":{"content":[{"type":"text","text":"done"}]}}`
		if text, err := poll(t, s, done, nil); err != nil || text != "done" {
			t.Errorf("a task that has ended: %q, %v, want its result", text, err)
		}
		if err := s.CancelTask(t.Context(), done); err != nil {
			t.Errorf("cancel: %v", err)
		}
		if err := s.CancelTask(t.Context(), "no task"); err == nil {
			t.Error("cancel of an unknown task: no error, want the server's")
		}
	})
}

// TestTaskUnreached: a server that does not answer a poll may be asked again.
// The task keeps its times.
func TestTaskUnreached(t *testing.T) {
	def := service(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Mcp-Method"), "tasks/") {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		rawHandler(false)(w, r)
	}))
	_, err := poll(t, open(t, def), "7", nil)
	want := run.ServerTask{ID: "7", Poll: time.Hour}
	if on, ok := errors.AsType[*toolset.TaskError](err); !ok || on.Task != want || on.Why == nil {
		t.Errorf("error %v, want one that lets the task %+v go on, and a reason", err, want)
	}
}

// TestTaskRequests: a call names the extension, and a request about a task has
// the task's id in its header too. The answers of a person reach the server
// before the poll. A server that refuses them ends the task.
func TestTaskRequests(t *testing.T) {
	var got []string
	refuse := false
	def := service(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var req struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Meta struct {
					Capabilities struct {
						Extensions map[string]struct{}
					} `json:"io.modelcontextprotocol/clientCapabilities"`
				} `json:"_meta"`
				Responses json.RawMessage `json:"inputResponses"`
			}
		}
		_ = json.Unmarshal(body, &req)
		_, named := req.Params.Meta.Capabilities.Extensions[tasksExtension]
		if r.Header.Get("Mcp-Method") != "" && strings.HasPrefix(req.Method, "t") && req.Method != "tools/list" {
			got = append(got, fmt.Sprint(req.Method, " ", r.Header.Get("Mcp-Name"), " ", named, " ",
				string(req.Params.Responses)))
		}
		w.Header().Set("Content-Type", "application/json")
		if refuse && req.Method == methodUpdate {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"not so"}}`, req.ID)
			return
		}
		_, _ = w.Write(rawAnswer(body))
	}))
	s := open(t, def)
	_ = callError(t, s, "a", `{"result":{"resultType":"task","taskId":"7"}}`)
	form := run.Form{Questions: []run.Question{{Key: "q"}}}
	filled := &run.FilledForm{Form: form, Answers: map[string]json.RawMessage{"q": json.RawMessage(`{"n":1}`)}}
	const id = `{"status":"working"}`
	if _, err := poll(t, s, id, filled); err == nil {
		t.Error("a task that goes on gave no error")
	}
	refuse = true
	_, err := poll(t, s, id+"é", filled) // unknown to the server
	if !errors.Is(err, toolset.ErrForgotten) {
		t.Errorf("error %v, want %v", err, toolset.ErrForgotten)
	}
	_, err = poll(t, s, id, filled)
	if want := "the server refused the answers to its task: not so"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	const answers = `{"q":{"action":"accept","content":{"n":1}}}`
	want := []string{
		"tools/call a true ",
		"tasks/update " + id + " true " + answers, "tasks/get " + id + " true ",
		"tasks/update =?base64?eyJzdGF0dXMiOiJ3b3JraW5nIn3DqQ==?= true " + answers,
		"tasks/get =?base64?eyJzdGF0dXMiOiJ3b3JraW5nIn3DqQ==?= true ",
		"tasks/update " + id + " true " + answers, "tasks/get " + id + " true ", "tasks/cancel " + id + " true ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	_, err = poll(t, s, id, &run.FilledForm{Form: form})
	if want := `the answer to "q" is no JSON object`; !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("without an answer: %v, want %q", err, want)
	}
}

// legacyServer returns the definition of a toolset. Its server speaks the
// protocol 2025-11-25. It answers a request with answerOf, of which an empty
// text stands for an empty result.
func legacyServer(t *testing.T, answerOf func(legacyRequest) string) configs.Toolset {
	t.Helper()
	return service(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req legacyRequest
		_ = json.NewDecoder(r.Body).Decode(&req)
		answer := `"result":{}`
		switch req.Method {
		case "server/discover":
			answer = `"error":{"code":-32601,"message":"no such method"}`
		case "initialize":
			if len(req.Params.Capabilities.Extensions) > 0 {
				t.Errorf("the handshake has the extensions %v, want none", req.Params.Capabilities.Extensions)
			}
			answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},` +
				`"serverInfo":{"name":"old","version":"1"}}`
		default:
			if said := answerOf(req); said != "" {
				answer = said
			}
		}
		if req.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, req.ID, answer)
	}))
}

// legacyRequest is a request that legacyServer gets.
type legacyRequest struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name, TaskID, Cursor string
		Task                 json.RawMessage
		Capabilities         struct{ Extensions map[string]any }
	}
}

// TestTaskByNewestList: whether a call makes a task is a matter of the newest
// whole list, whichever cursors the server names. A list of which a page failed
// is no whole one: the tools are listed again before the next call. Of two
// tools of one name the first one counts.
func TestTaskByNewestList(t *testing.T) {
	const (
		broken = `"error":{"code":-32603,"message":"not now"}`
		entry  = `{"name":"a","inputSchema":{"type":"object"},"execution":{"taskSupport":"%s"}}`
	)
	lists, second := 0, ""
	var calls []string
	s := open(t, legacyServer(t, func(req legacyRequest) string {
		switch {
		case req.Method == "tools/list" && req.Params.Cursor == "":
			lists++
			return fmt.Sprintf(`"result":{"tools":[],"nextCursor":"list %d"}`, lists)
		case req.Method == "tools/list":
			if want := fmt.Sprint("list ", lists); req.Params.Cursor != want {
				t.Errorf("the cursor is %q, want %q", req.Params.Cursor, want)
			}
			return second
		case req.Method == "tools/call":
			calls = append(calls, req.Params.Name+string(req.Params.Task))
			return `"result":{"content":[]}`
		}
		return ""
	}))
	listed := func(support ...string) string {
		var tools []string
		for _, of := range support {
			tools = append(tools, fmt.Sprintf(entry, of))
		}
		return `"result":{"tools":[` + strings.Join(tools, ",") + `]}`
	}
	second = broken
	if _, err := s.Tools(t.Context()); err == nil {
		t.Error("a list with a page that failed: no error")
	}
	second = listed("required", "optional")
	callText(t, s, "a", `{}`)
	for _, second = range []string{listed("optional"), broken, listed("optional", "required")} {
		_, _ = s.Tools(t.Context())
		callText(t, s, "a", `{}`)
	}
	if want := []string{"a{}", "a", "a", "a"}; !cmp.Equal(calls, want) || lists != 5 {
		t.Errorf("calls %q after %d lists, want %q after 5", calls, lists, want)
	}
}

// TestTaskLegacy: a server of the protocol 2025-11-25 makes a task of a call if
// the client asks for that. Axe does so for a tool that is called in no other
// way. Its result, also a failed one, is asked for by a request of its own.
func TestTaskLegacy(t *testing.T) {
	status := "working"
	result := `"result":{"content":[{"type":"text","text":"done"}]}`
	var calls []string
	s := open(t, legacyServer(t, func(req legacyRequest) string {
		switch req.Method {
		case "tools/list":
			const schema = `"inputSchema":{"type":"object"}`
			return `"result":{"tools":[{"name":"a",` + schema + `,"execution":{"taskSupport":"required"}},` +
				`{"name":"b",` + schema + `,"execution":{"taskSupport":"optional"}}]}`
		case "tools/call":
			calls = append(calls, req.Params.Name+string(req.Params.Task))
			if req.Params.Task != nil {
				return `"result":{"task":{"taskId":"7","status":"working"}}`
			}
			return `"result":{"content":[]}`
		case methodGet:
			return `"result":{"taskId":"7","status":"` + status + `"}`
		case methodResult:
			return result
		}
		return ""
	}))
	made, ok := errors.AsType[*toolset.TaskError](callError(t, s, "a", `{}`))
	if !ok || made.Task.ID != "7" {
		t.Errorf("the call of a made %+v, want the task 7", made)
	}
	callText(t, s, "b", `{}`)
	if want := []string{"a{}", "b"}; !cmp.Equal(calls, want) {
		t.Errorf("calls with tasks %q, want %q", calls, want)
	}
	if _, err := poll(t, s, "7", nil); !strings.Contains(fmt.Sprint(err), "goes on") {
		t.Errorf("a task at work: %v, want that it goes on", err)
	}
	status = "completed"
	if text, err := poll(t, s, "7", nil); err != nil || text != "done" {
		t.Errorf("a completed task: %q, %v, want its result", text, err)
	}
	for in, want := range map[string]string{
		`"result":{"isError":true,"content":[{"type":"text","text":"no luck"}]}`: "no luck",
		`"error":{"code":-32000,"message":"out of luck"}`:                        "the task failed: out of luck",
	} {
		status, result = "failed", in
		if _, err := poll(t, s, "7", nil); err == nil || err.Error() != want {
			t.Errorf("a failed task: %v, want %q", err, want)
		}
	}
	status = "input_required"
	if _, err := poll(t, s, "7", nil); !strings.Contains(fmt.Sprint(err), "input within a request") {
		t.Errorf("a task that asks: %v, want that axe cannot answer", err)
	}
}

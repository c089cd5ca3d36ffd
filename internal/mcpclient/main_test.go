package mcpclient

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/toolset"
)

// serveArgument makes the test program an MCP server. The name of the server is
// the next argument.
const serveArgument = "serve-mcp"

// TestMain runs the tests, or a server of serve.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == serveArgument {
		serve(os.Args[2])
		syscall.Exit(0) // os.Exit takes a second with the race detector
	}
	os.Exit(m.Run())
}

// serve runs a server over standard input and output.
func serve(name string) {
	switch name {
	case "tools":
		if err := testServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	case "legacy":
		old := &mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-11-25"}}
		if err := serverWith(old).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	case "greeting":
		fmt.Println("Welcome to the server")
		_ = testServer().Run(context.Background(), &mcp.StdioTransport{})
	case "broken":
		fmt.Fprintln(os.Stderr, "no token is set")
		syscall.Exit(3)
	case "raw":
		serveRaw(false)
	case "hanging":
		signal.Ignore(syscall.SIGTERM)
		serveRaw(true)
	case "work":
		work()
	case "stubborn":
		serveStubborn()
	}
}

// work is a worker with a stubborn server. It prints the process ids of the
// server and of its child, and goes on until it is killed.
func work() {
	exe, _ := os.Executable()
	s, err := Open(configs.Toolset{Command: []string{exe, serveArgument, "stubborn"}}, slog.New(slog.DiscardHandler))
	if err != nil {
		panic(err)
	}
	r, err := s.Call(context.Background(), toolset.Call{Tool: "pids"})
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Text)
	select {}
}

// serveStubborn runs a server that starts a child. Both ignore the end of their
// input and SIGTERM. The tool pids returns their process ids.
func serveStubborn() {
	signal.Ignore(syscall.SIGTERM)
	child := exec.CommandContext(context.Background(), "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		os.Exit(1)
	}
	s := testServer()
	s.AddTool(tool("pids"), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return textResult(fmt.Sprintf("%d %d", os.Getpid(), child.Process.Pid)), nil
	})
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
	select {}
}

// serveRaw runs a server that answers with rawAnswer. If it hangs, it reads
// nothing after the first call.
func serveRaw(hangs bool) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if answer := rawAnswer(lines.Bytes()); answer != nil {
			_, _ = os.Stdout.Write(append(answer, '\n'))
		}
		for hangs && strings.Contains(lines.Text(), `"tools/call"`) {
			time.Sleep(time.Hour)
		}
	}
}

// rawTools are the tools of the raw servers, as they send them.
const rawTools = `[{"name":"b",` +
	`"inputSchema":{ "type":"object","properties":{"z":{"type":"number"},"a":{"const":1.50}}}},` +
	`{"description":"first <by> name","inputSchema":{"type":"object"},"name":"a"}]`

// rawAnswer returns the answer to a message, nil for a notification. The result
// of a call is the call's argument "result", byte for byte, or a text of "size"
// bytes. A task is its own id, and unknown if that is no JSON.
func rawAnswer(msg []byte) []byte {
	var req struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			TaskID    string `json:"taskId"`
			Arguments struct {
				Result json.RawMessage `json:"result"`
				Size   int             `json:"size"`
			} `json:"arguments"`
		} `json:"params"`
	}
	if err := json.Unmarshal(msg, &req); err != nil || req.ID == nil {
		return nil
	}
	result := `{}`
	switch req.Method {
	case "server/discover":
		result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`
	case "tools/list":
		result = `{"resultType":"complete","tools":` + rawTools + `}`
	case "tools/call":
		result = string(req.Params.Arguments.Result)
		if n := req.Params.Arguments.Size; n > 0 {
			result = `{"content":[{"type":"text","text":"` + strings.Repeat("x", n) + `"}]}`
		}
	}
	if strings.HasPrefix(req.Method, "tasks/") && req.Method != methodUpdate {
		result = req.Params.TaskID
		if !json.Valid([]byte(result)) {
			const unknown = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such task"}}`
			return fmt.Appendf(nil, unknown, req.ID)
		}
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, req.ID, result)
}

// rawHandler is the raw server over HTTP. With events it answers with a stream
// of events, in which the answer follows a notification.
func rawHandler(events bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		msg, err := io.ReadAll(r.Body)
		answer := rawAnswer(msg)
		switch {
		case err != nil:
			w.WriteHeader(http.StatusBadRequest)
		case answer == nil:
			w.WriteHeader(http.StatusAccepted)
		case events:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: message\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\","+
				"\"params\":{\"progressToken\":1,\"progress\":1}}\r\n\r\ndata: %s\n\n", answer)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(answer)
		}
	}
}

// testServer is serverWith without options.
func testServer() *mcp.Server { return serverWith(nil) }

// serverWith returns a server of the SDK with the tools of the tests. Echo
// returns its arguments and the key of the call.
func serverWith(o *mcp.ServerOptions) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, o)
	s.AddTool(tool("echo"), func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text := fmt.Sprintf("%s %v", req.Params.Arguments, req.Params.Meta[KeyMeta])
		if given, ok := req.Params.Meta["traceparent"]; ok {
			text += fmt.Sprintf(" in %v", given)
		}
		return textResult(text), nil
	})
	s.AddTool(tool("env"), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		dir, err := os.Getwd()
		return textResult(strings.Join(append(os.Environ(), "dir="+dir), "\n")), err
	})
	s.AddTool(tool("fail"), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r := textResult("no such city")
		r.IsError = true
		return r, nil
	})
	s.AddTool(tool("refuse"), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.New("refused by the server")
	})
	s.AddTool(tool("die"), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "out of luck")
		syscall.Exit(7)
		return nil, nil
	})
	s.AddTool(tool("wait"), func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		// The tool reports its begin and its end to the test, which
		// listens at this address.
		report, err := new(net.Dialer).DialContext(ctx, "tcp", os.Getenv("MCP_TEST_REPORT"))
		if err != nil {
			return nil, err
		}
		_, _ = report.Write([]byte("b"))
		<-ctx.Done()
		_, _ = report.Write([]byte("e"))
		return textResult("cancelled"), report.Close()
	})
	s.AddTool(tool("ask"), func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if req.Params.RequestState != "" {
			b, err := json.Marshal(req.Params.InputResponses)
			return textResult(fmt.Sprintf("%s %s %s %v", req.Params.RequestState, b, req.Params.Arguments,
				req.Params.Meta[KeyMeta])), err
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{
			"q": &mcp.ElicitParams{Message: "which city?", RequestedSchema: map[string]any{"type": "object"}},
			"p": &mcp.ElicitParams{Mode: "url", Message: "log in", URL: "https://example.com/login"},
		}, RequestState: "s"}, nil
	})
	s.AddTool(tool("grow"), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.AddTool(tool("grown"), nil)
		return textResult("there is one more"), nil
	})
	return s
}

// tool returns the definition of a tool that takes any object.
func tool(name string) *mcp.Tool {
	return &mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}
}

// textResult returns the result of a call with one text.
func textResult(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// program returns the definition of a toolset with a server of serve.
func program(t *testing.T, server string) configs.Toolset {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return configs.Toolset{Name: "test", Kind: configs.ToolsetMCP, Command: []string{exe, serveArgument, server}}
}

// service returns the definition of a toolset that an HTTP handler serves.
func service(t *testing.T, h http.Handler) configs.Toolset {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return configs.Toolset{Name: "test", Kind: configs.ToolsetMCP, URL: s.URL}
}

// streamable serves a server of the SDK over HTTP: without sessions for the
// newest version of the protocol, with sessions for the version before.
func streamable(s *mcp.Server, sessions bool) http.Handler {
	o := &mcp.StreamableHTTPOptions{Stateless: !sessions, PropagateRequestCancellation: !sessions}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, o)
}

// open opens a toolset until the test ends.
func open(t *testing.T, def configs.Toolset) *Set {
	t.Helper()
	s, err := Open(def, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// transports runs a test over each transport and with each of two versions of
// the protocol.
func transports(t *testing.T, test func(t *testing.T, def configs.Toolset)) {
	t.Helper()
	old := &mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-11-25"}}
	t.Run("stdio", func(t *testing.T) { test(t, program(t, "tools")) })
	t.Run("stdio 2025-11-25", func(t *testing.T) { test(t, program(t, "legacy")) })
	t.Run("http", func(t *testing.T) { test(t, service(t, streamable(testServer(), false))) })
	t.Run("http 2025-11-25", func(t *testing.T) { test(t, service(t, streamable(serverWith(old), true))) })
}

// callText calls a tool and returns its text.
func callText(t *testing.T, s *Set, tool, arguments string) string {
	t.Helper()
	res, err := s.Call(t.Context(), toolset.Call{Tool: tool, Arguments: json.RawMessage(arguments), Key: "tree.r-1-0"})
	if err != nil {
		t.Fatalf("call of %s: %v", tool, err)
	}
	return res.Text
}

// callError calls a tool and returns its error.
func callError(t *testing.T, s *Set, tool, arguments string) error {
	t.Helper()
	res, err := s.Call(t.Context(), toolset.Call{Tool: tool, Arguments: json.RawMessage(arguments), Key: "tree.r-1-0"})
	if err == nil {
		t.Fatalf("call of %s: %+v, want an error", tool, res)
	}
	return err
}

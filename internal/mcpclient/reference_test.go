package mcpclient

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/peertest"
	"github.com/axebus/axe/internal/toolset"
)

// npmServer returns the command of a server's npm package, with arguments.
func npmServer(t *testing.T, name string, arguments ...string) []string {
	t.Helper()
	return append([]string{"node", peertest.File(t, "@modelcontextprotocol/"+name+"/dist/index.js")}, arguments...)
}

// TestReferenceFilesystem: the reference server for files lists its tools, and
// reads and writes files. Its refusal of a file outside its directory is an
// answer.
func TestReferenceFilesystem(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, configs.Toolset{
		Name:    "files",
		Command: npmServer(t, "server-filesystem", dir),
		Workdir: dir,
		Trust:   true,
	})
	tools, err := s.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		t.Logf("%s: effect %q, schema %s", tool.Name, tool.Effect, tool.Schema)
	}
	if got := callText(t, s, "read_text_file", `{"path":"a.txt"}`); got != "hello" {
		t.Errorf("a.txt has the text %q, want hello", got)
	}
	callText(t, s, "write_file", `{"path":"b.txt","content":"<new>"}`)
	if got, err := os.ReadFile(filepath.Join(dir, "b.txt")); string(got) != "<new>" {
		t.Errorf("b.txt has %q, error %v; want <new>", got, err)
	}
	if err := callError(t, s, "read_text_file", `{"path":"/etc/passwd"}`); errors.Is(err, toolset.ErrLost) {
		t.Errorf("a file outside: error %v, want one that is not %v", err, toolset.ErrLost)
	}
}

// TestReferenceEverything: the tools of the reference server for all features
// work over both transports.
func TestReferenceEverything(t *testing.T) {
	t.Run("stdio", func(t *testing.T) {
		everything(t, configs.Toolset{Name: "all", Command: npmServer(t, "server-everything", "stdio")})
	})
	t.Run("http", func(t *testing.T) {
		address := freeAddress(t)
		_, port, _ := net.SplitHostPort(address)
		argv := npmServer(t, "server-everything", "streamableHttp")
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "PORT="+port)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		awaitListener(t, address)
		everything(t, configs.Toolset{Name: "all", URL: "http://" + address + "/mcp"})
	})
}

// freeAddress returns an address of this host without a listener.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// awaitListener waits up to a minute until a server listens at an address.
func awaitListener(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// everything calls tools of the reference server for all features.
func everything(t *testing.T, def configs.Toolset) {
	t.Helper()
	def.Trust = true
	s := open(t, def)
	tools, err := s.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, tool := range tools {
		have[tool.Name] = true
		t.Logf("%s: effect %q, schema %s", tool.Name, tool.Effect, tool.Schema)
	}
	t.Logf("protocol %s", s.current.client.InitializeResult().ProtocolVersion)
	if got := callText(t, s, "echo", `{"message":"a <b>"}`); !strings.Contains(got, "a <b>") {
		t.Errorf("echo: %q, want a <b> in it", got)
	}
	if got := callText(t, s, "get-sum", `{"a":2,"b":40}`); !strings.Contains(got, "42") {
		t.Errorf("get-sum: %q, want 42 in it", got)
	}
	if err := callError(t, s, "get-sum", `{"a":"x"}`); errors.Is(err, toolset.ErrLost) {
		t.Errorf("malformed arguments: error %v, want one that is not %v", err, toolset.ErrLost)
	}
	everythingFiles(t, s)
}

// everythingFiles calls the tools that return more than text.
func everythingFiles(t *testing.T, s *Set) {
	t.Helper()
	for _, tt := range []struct {
		tool, arguments, text string
		types                 []string
	}{
		{"get-tiny-image", `{}`, "get-tiny-image-1.png: image/png", []string{"image/png"}},
		{"get-resource-links", `{"count":2}`, "[link to demo://", nil},
		{
			"get-resource-reference", `{"resourceType":"Blob","resourceId":1}`, "[file get-resource-reference-1",
			[]string{"text/plain"},
		},
		{"get-resource-reference", `{"resourceType":"Text","resourceId":1}`, "[resource demo://", nil},
		{"get-structured-content", `{"location":"Chicago"}`, "temperature", nil},
		{"trigger-long-running-operation", `{"duration":1,"steps":2}`, "completed", nil},
	} {
		res, err := s.Call(t.Context(), toolset.Call{Tool: tt.tool, Arguments: []byte(tt.arguments), Key: "k"})
		var types []string
		for _, f := range res.Files {
			types = append(types, f.MediaType)
			if len(f.Bytes) == 0 {
				t.Errorf("%s: %s is empty", tt.tool, f.Name)
			}
		}
		t.Logf("%s: %s", tt.tool, res.Text)
		if err != nil || !strings.Contains(res.Text, tt.text) || !slices.Equal(types, tt.types) {
			t.Errorf("%s: error %v, files of the types %v, text %s; want the types %v, and %q in the text",
				tt.tool, err, types, res.Text, tt.types, tt.text)
		}
	}
}

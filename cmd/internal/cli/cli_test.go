package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/testbus"
	"github.com/axebus/axe/subjects"
)

// TestDifferenceOfNumbers: a difference shows all digits of a large number.
func TestDifferenceOfNumbers(t *testing.T) {
	var lines []string
	for _, arguments := range []string{`{"order":9007199254740993}`, `{"order":9007199254740992}`} {
		m := &client.Message{Calls: []client.MessageCall{{Tool: "pay", Arguments: []byte(arguments)}}}
		lines = append(lines, linesOf(m)...)
	}
	want := []string{`→ pay {"order":9007199254740993}`, `→ pay {"order":9007199254740992}`}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q, want %q", lines, want)
	}
}

// TestSavedFilesArePrivate: other users of the machine cannot read a file that a
// command saves.
func TestSavedFilesArePrivate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.txt")
	for range 2 { // a new file, and one that is there
		err := WriteFile(file, func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err })
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the mode is %v, %v, want 600", info.Mode(), err)
		}
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCode: each error has its exit code, also if it is wrapped. The code of
// Fail comes before that of the error in it.
func TestCode(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{bus.ErrNoStream, 1},
		{Usage("x"), 2},
		{&configs.Error{File: "a.toml"}, 2},
		{fmt.Errorf("x: %w", subjects.ErrToken), 2},
		{fmt.Errorf("x: %w", client.ErrUnknownTree), 2},
		{fmt.Errorf("x: %w", client.ErrRemoved), 1},
		{fmt.Errorf("x: %w", client.ErrOverdue), 3},
		{fmt.Errorf("x: %w", bus.ErrTooLarge), 2},
		{SignalError{syscall.SIGINT}, 130},
		{fmt.Errorf("connect: %w", SignalError{syscall.SIGTERM}), 143},
		{Fail(130, fmt.Errorf("detached: %w", subjects.ErrToken)), 130},
	} {
		if got := Code(test.err); got != test.want {
			t.Errorf("%v: got exit code %d, want %d", test.err, got, test.want)
		}
	}
}

// TestFailed: each failed outcome is an error with its exit code and one line
// of text.
func TestFailed(t *testing.T) {
	for _, test := range []struct {
		outcome run.Outcome
		want    int
		line    string
	}{
		{run.Outcome{Status: run.StatusCompleted}, 0, ""},
		{run.Failure(run.KindError, ""), 1, "failed without a reason"},
		{run.Failure(run.KindTurns, "x"), 1, "x"},
		{run.Failure(run.KindPoisoned, "x"), 1, "x"},
		{run.Failure("kind of a newer version", "x"), 1, "x"},
		{run.Failure(run.KindUnknownAgent, "x"), 2, "x"},
		{run.Outcome{Kind: run.KindError, Category: "config", Error: "x"}, 2, "x"},
		{run.Outcome{Kind: run.KindError, Category: "bad_request", Error: "x"}, 1, "x"},
		{run.Outcome{Kind: run.KindError, Category: "auth", Error: "x"}, 3, "x"},
		{run.Failure(run.KindTimeout, "timeout after 3s"), 3, "timeout after 3s"},
		{run.Failure(run.KindBudget, "x"), 4, "x"},
		{run.Failure(run.KindDepth, "x"), 4, "x"},
		{run.Failure(run.KindCancelled, "x"), 5, "cancelled: x"},
		{run.Failure(run.KindCancelled, "cancelled"), 5, "cancelled"},
	} {
		err := Failed(test.outcome)
		if got := Code(err); got != test.want || err != nil && err.Error() != test.line {
			t.Errorf("%+v: got exit code %d, error %v, want %d, %s", test.outcome, got, err, test.want, test.line)
		}
	}
}

// TestSize: Set reads a number of bytes, with or without a binary unit, and
// reads the text that String returns.
func TestSize(t *testing.T) {
	sizes := map[string]int64{
		"1": 1, "1000": 1000, "1024": 1 << 10, "1KiB": 1 << 10, "64MiB": 64 << 20, "2GiB": 2 << 30,
	}
	for text, want := range sizes {
		var s Size
		if err := s.Set(text); err != nil || int64(s) != want {
			t.Errorf("%s: got %d, %v, want %d", text, s, err, want)
		}
		again := Size(0)
		if err := again.Set(s.String()); err != nil || again != s {
			t.Errorf("%s: got %d, %v after Set of String, want %d", text, again, err, s)
		}
	}
	for _, text := range []string{"", "0", "-1", "1MB", "1 MiB", "MiB", "9999999999GiB", "1e3"} {
		var s Size
		if err := s.Set(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, s)
		}
	}
}

// TestDefinitions: the files of agents change from step to step. The agent of a
// file that becomes invalid is kept, and that of a removed file is not. All
// agents are kept while the directory cannot be read. A file that was never
// valid is reported with its problem. Each error is logged once, and so is that
// there are no agents.
func TestDefinitions(t *testing.T) {
	var log bytes.Buffer
	d := definitions{dir: "agents", log: slog.New(slog.NewTextHandler(&log, nil)), level: slog.LevelError}
	agent := func(name, digest string) configs.Agent {
		return configs.Agent{Name: name, File: "agents/" + name + ".toml", Digest: digest}
	}
	bad := func(file string) error {
		return &configs.Error{File: file, Line: 3, Key: "model", Message: "is required"}
	}
	for _, step := range []struct {
		name   string
		agents []configs.Agent
		err    error
		want   string
		lines  int
	}{
		{"two", []configs.Agent{agent("a", "1"), agent("b", "1")}, nil, "a1 b1", 0},
		{"one becomes invalid", []configs.Agent{agent("b", "2")}, errors.Join(bad("agents/a.toml")), "a1 b2", 1},
		{"it stays invalid", []configs.Agent{agent("b", "3")}, errors.Join(bad("agents/a.toml")), "a1 b3", 0},
		{
			"never valid",
			[]configs.Agent{agent("b", "3")},
			errors.Join(bad("agents/a.toml"), bad("agents/c.toml")),
			"a1 b3 c!c.toml:3: model: is required", 1,
		},
		{"the directory cannot be read", nil, &configs.Error{File: "agents", Message: "no such directory"}, "a1 b3", 1},
		{"the file is valid again", []configs.Agent{agent("a", "4"), agent("b", "3")}, nil, "a4 b3", 0},
		{"the file is removed", []configs.Agent{agent("b", "3")}, nil, "b3", 0},
		{"all files are removed", nil, nil, "", 1},
	} {
		log.Reset()
		var got []string
		good, broken := d.merge(t.Context(), configs.Definitions{Agents: step.agents}, step.err)
		for _, a := range good.Agents {
			got = append(got, a.Name+a.Digest)
		}
		for _, b := range broken {
			got = append(got, b.Name.String()+"!"+b.Problem)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != step.want {
			t.Errorf("%s: got %v, want %s", step.name, got, step.want)
		}
		if n := strings.Count(log.String(), "\n"); n != step.lines {
			t.Errorf("%s: got %d log lines, want %d:\n%s", step.name, n, step.lines, &log)
		}
	}
}

// TestDefinitionsOfToolsets: the toolset of a file that becomes invalid is
// kept, unless an agent has taken its name.
func TestDefinitionsOfToolsets(t *testing.T) {
	d := definitions{dir: "agents", log: slog.New(slog.DiscardHandler)}
	web := configs.Toolset{Name: "web", File: "tools/web.toml"}
	invalid := &configs.Error{File: web.File, Message: "wrong"}
	for _, step := range []struct {
		name string
		defs configs.Definitions
		err  error
		want int
	}{
		{"valid", configs.Definitions{Toolsets: []configs.Toolset{web}}, nil, 1},
		{"invalid", configs.Definitions{}, invalid, 1},
		{
			"its name is taken",
			configs.Definitions{Agents: []configs.Agent{{Name: "web", File: "agents/web.toml"}}},
			invalid,
			0,
		},
	} {
		good, _ := d.merge(t.Context(), step.defs, step.err)
		if len(good.Toolsets) != step.want {
			t.Errorf("%s: %d toolsets are served, want %d", step.name, len(good.Toolsets), step.want)
		}
	}
}

// TestFindAgentNotFound: a missing file and a missing directory have the exit
// code of an error of the configuration.
func TestFindAgentNotFound(t *testing.T) {
	_, err := FindAgent(t.TempDir(), "a")
	if Code(err) != CodeConfig || !strings.HasPrefix(err.Error(), "agent config not found: a: ") {
		t.Errorf("got %v, want that there is no file of the agent", err)
	}
	if _, err := FindAgent("nowhere", "a"); !errors.Is(err, fs.ErrNotExist) || Code(err) != CodeConfig {
		t.Errorf("got %v, want that there is no directory", err)
	}
}

// TestDialFlags: a flag on the command line hides the environment variables of
// its group: address, credentials, TLS or prefix.
func TestDialFlags(t *testing.T) {
	for name, value := range map[string]string{
		"NATS_URL": "nats://env", "NATS_CONTEXT": "", "NATS_CREDS": "env.creds", "NATS_NKEY": "", "NATS_USER": "",
		"NATS_PASSWORD": "", "NATS_TOKEN": "", "NATS_CA": "env.pem", "NATS_CERT": "", "NATS_KEY": "",
		"AXE_PREFIX": "env",
	} {
		t.Setenv(name, value)
	}
	for _, test := range []struct {
		args   []string
		want   bus.Dial
		prefix string
	}{
		{nil, bus.Dial{URL: "nats://env", Creds: "env.creds", TLSCA: "env.pem"}, "env"},
		{
			[]string{"--server", "nats://flag"},
			bus.Dial{URL: "nats://flag", Creds: "env.creds", TLSCA: "env.pem"},
			"env",
		},
		{[]string{"--context", "flag"}, bus.Dial{Context: "flag", Creds: "env.creds", TLSCA: "env.pem"}, "env"},
		{
			[]string{"--token", "flag", "--prefix", "flag"},
			bus.Dial{URL: "nats://env", Token: "flag", TLSCA: "env.pem"},
			"flag",
		},
		{
			[]string{"--tls-cert", "c", "--tls-key", "k"},
			bus.Dial{URL: "nats://env", Creds: "env.creds", TLSCert: "c", TLSKey: "k"},
			"env",
		},
	} {
		var d DialFlags
		cmd := &cobra.Command{Use: "test"}
		d.Register(cmd)
		if err := cmd.ParseFlags(test.args); err != nil {
			t.Fatal(err)
		}
		got, err := d.Config(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		test.want.Name = "test"
		ignore := cmp.Options{cmpopts.IgnoreFields(bus.Dial{}, "Closed"), cmpopts.IgnoreUnexported(bus.Dial{})}
		if diff := cmp.Diff(test.want, got.Dial, ignore); diff != "" {
			t.Errorf("%v: connection (-want +got):\n%s", test.args, diff)
		}
		if p := got.Space.Prefix(); p != test.prefix {
			t.Errorf("%v: got prefix %s, want %s", test.args, p, test.prefix)
		}
	}
}

// TestDialFlagsGiven: the connection of the command line can be given again, in
// the words of a shell. It has no setting of the environment, which the shell
// keeps, and no password.
func TestDialFlagsGiven(t *testing.T) {
	t.Setenv("NATS_CREDS", "env.creds")
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, ""},
		{[]string{"--server", "nats://one:4222,tls://two"}, " --server nats://one:4222,tls://two"},
		{
			[]string{"--prefix=team", "--context", "the bus", "--tls-ca", "ca.pem"},
			" --context 'the bus' --tls-ca ca.pem --prefix team",
		},
		{[]string{"--creds", "it's $HOME/a.creds", "--prefix", ""}, ` --creds 'it'\''s $HOME/a.creds' --prefix ''`},
		{
			[]string{"--user", "ann", "--password", "secret", "--inbox-prefix", "_I"},
			" --user ann --password PASSWORD --inbox-prefix _I",
		},
		{[]string{"--token", "secret", "--max-body", "1MiB"}, " --token TOKEN"},
		{
			[]string{"--server", "nats://ann:secret@one, secret@two,three"},
			" --server 'nats://USER:PASSWORD@one, USER:PASSWORD@two,three'",
		},
	} {
		var d DialFlags
		above := &cobra.Command{Use: "test"}
		d.Register(above)
		cmd := &cobra.Command{Use: "below", Run: func(*cobra.Command, []string) {}}
		above.AddCommand(cmd)
		above.SetArgs(append([]string{"below"}, test.args...))
		if err := above.Execute(); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Config(nil, nil); err != nil && !errors.Is(err, subjects.ErrToken) {
			t.Fatal(err)
		}
		if got := d.given(); got != test.want {
			t.Errorf("%v: got %q, want %q", test.args, got, test.want)
		}
	}
}

// TestDialFlagsInside: for a server in this process only the prefix comes from
// the environment.
func TestDialFlagsInside(t *testing.T) {
	t.Setenv("NATS_URL", "nats://env")
	t.Setenv("NATS_CREDS", "env.creds")
	t.Setenv("AXE_PREFIX", "env")
	var d DialFlags
	d.Register(&cobra.Command{Use: "test"})
	server := new(bus.Server)
	got, err := d.Config(server, nil)
	if err != nil || got.Space.Prefix() != "env" || got.Dial.URL+got.Dial.Creds != "" || got.Dial.Server != server {
		t.Errorf("got %+v, %v, want the server, and from the environment only the prefix", got, err)
	}
}

// TestWithCause: an error after the end of its context has the cause of that
// end. No error stays no error.
func TestWithCause(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	err := errors.New("x")
	if got := withCause(ctx, err); !errors.Is(got, err) {
		t.Errorf("before the signal: got %v, want %v", got, err)
	}
	cancel(SignalError{syscall.SIGINT})
	if got := withCause(ctx, err); Code(got) != 130 {
		t.Errorf("after the signal: got %v with code %d, want 130", got, Code(got))
	}
	if got := withCause(ctx, nil); got != nil {
		t.Errorf("without an error: got %v, want nil", got)
	}
}

// TestWaitAnnouncedTellsWhyItEnded: when a worker ends the wait with an error,
// that error is returned, also while the bucket of the cards is being opened.
func TestWaitAnnouncedTellsWhyItEnded(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "echo.toml"), []byte(`model = "script/echo"`), 0o600); err != nil {
		t.Fatal(err)
	}
	conn := testbus.Open(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := errors.New("the worker has failed")
	cancel(failed)
	if err := WaitAnnounced(ctx, conn, dir); err != failed { //nolint:errorlint // no text around it
		t.Errorf("got %v, want %v", err, failed)
	}
}

// TestSeconds: seconds shortens a duration to a few columns.
func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.0s", 1540 * time.Millisecond: "1.5s", 61 * time.Second: "1m01s",
		3 * time.Hour: "3h00m", 100 * time.Hour: "100h00m",
	} {
		if got := ShortTime(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

// TestSecondsString: a duration of a flag is printed without zero units.
func TestSecondsString(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", -time.Second: "-1s", 10 * time.Second: "10s", 2 * time.Minute: "2m", 90 * time.Second: "1m30s",
		time.Hour: "1h", 70 * time.Minute: "1h10m", 100 * time.Millisecond: "100ms",
	} {
		s := Seconds(d)
		if got := s.String(); got != want {
			t.Errorf("%v: got %s, want %s", time.Duration(s), got, want)
		}
	}
}

// TestAdvice: an error that a person can act on has a next step.
func TestAdvice(t *testing.T) {
	for want, err := range map[string]error{
		"axe ps --all":   fmt.Errorf("x: %w", client.ErrUnknownTree),
		"another --id":   fmt.Errorf("x: %w", client.ErrRemoved),
		"axe show ID":    client.ErrUnknownRun,
		"axe pending":    client.ErrNotHeld,
		"the calls that": client.ErrNothingToSettle,
		"axe interrupt":  client.ErrNoMail,
		"axe dead list":  client.ErrUnknownDeadLetter,
		"--embedded":     fmt.Errorf("connect: %w: %w", &noServerError{time.Second}, errors.New("refused")),
		"--tls-ca":       &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		"the permission": fmt.Errorf("stream: %w", nats.ErrPermissionViolation),
	} {
		if got := advice(err); !strings.Contains(got, want) {
			t.Errorf("%v: got %q, want %s in it", err, got, want)
		}
	}
	if got := advice(errors.New("x")); got != "" {
		t.Errorf("got advice %q for an unknown error, want none", got)
	}
}

// TestSecondsSet: Set reads whole seconds or a duration of Go, and reads the
// text that String returns.
func TestSecondsSet(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"120": 120 * time.Second, "0": 0, "-1": -time.Second, "2m30s": 150 * time.Second,
		"1500ms": 1500 * time.Millisecond, "1h": time.Hour, "30d": 30 * 24 * time.Hour, "1d12h": 36 * time.Hour,
	} {
		var s, again Seconds
		if err := s.Set(text); err != nil || time.Duration(s) != want {
			t.Errorf("%q: got %v, %v, want %v", text, time.Duration(s), err, want)
		}
		if err := again.Set(s.String()); err != nil || again != s {
			t.Errorf("%q: got %s, %v after Set of String, want %s", text, &again, err, &s)
		}
	}
	for _, text := range []string{
		"", "soon", "1.5", "99999999999999999999", "5 s", "d", "-1d", "1d-1h", "99999d", "1h1d",
	} {
		var s Seconds
		if err := s.Set(text); err == nil {
			t.Errorf("%q: got %s, want an error", text, &s)
		}
	}
}

// TestPatienceCountsTheSubmission: the submission and the wait for the answer
// share one patience. Both end ten seconds after the submission began.
func TestPatienceCountsTheSubmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waitFlags{patience: Seconds(10 * time.Second)}
		submission, done := w.bound(t.Context())
		defer done()
		time.Sleep(7 * time.Second)
		wait, end := w.bound(t.Context())
		defer end()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		for _, ctx := range []context.Context{submission, wait} {
			if err := context.Cause(ctx); !errors.Is(err, errImpatient) {
				t.Errorf("after ten seconds: got the cause %v, want %v", err, errImpatient)
			}
		}
	})
}

// TestSuggestedCommand: the error of an unknown command names a near one, and
// none for an empty name.
func TestSuggestedCommand(t *testing.T) {
	cmd := &cobra.Command{Use: "axe"}
	cmd.AddCommand(&cobra.Command{Use: "agents", Run: func(*cobra.Command, []string) {}})
	for arg, want := range map[string]string{
		"agnets": `unknown command "agnets" for "axe"; did you mean "agents"?`,
		"":       `unknown command "" for "axe"`,
	} {
		if err := Subcommands(cmd, []string{arg}); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %q", arg, err, want)
		}
	}
}

// TestConnectTimeoutIsChecked: a negative --connect-timeout is a usage error of
// all commands: those that need the streams, and those that do not.
func TestConnectTimeoutIsChecked(t *testing.T) {
	f := SessionFlags{Name: "axe"}
	cmd := &cobra.Command{Use: "axe"}
	f.Register(cmd)
	if err := cmd.ParseFlags([]string{"--server", "nats://127.0.0.1:1", "--connect-timeout", "-5"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	useConn := f.UseConn(ctx, slog.New(slog.DiscardHandler), func(*bus.Conn) error { return nil })
	use := f.Use(ctx, func(*Session) error { return nil })
	for name, err := range map[string]error{"UseConn": useConn, "Use": use} {
		const want = "--connect-timeout must not be negative, got -5s"
		if _, usage := errors.AsType[*usageError](err); !usage || err.Error() != want {
			t.Errorf("%s: got %v, want the usage error %q", name, err, want)
		}
	}
}

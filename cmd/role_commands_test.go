package cmd_test

import (
	"cmp"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/axebus/axe/internal/roles"
)

// workerAndSubmitter is a user with the permissions of two roles.
const workerAndSubmitter = "worker+submitter"

// roleCommand is a line of testdata/commands.txtar: a command line, and the
// users with which it works.
type roleCommand struct {
	// name is the command for the table in docs/security.md. It begins with
	// the command, and may have more words.
	name  string
	args  []string
	users []string
	// either are the users with which it works if nothing is stored of
	// which they lack the permission.
	either []string
}

// readRoleCommands reads testdata/commands.txtar.
func readRoleCommands(t *testing.T) (all []roleCommand, files []txtar.File) {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/commands.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(archive.Comment)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		cells := strings.Split(line, " | ")
		if len(cells) < 2 {
			t.Fatalf("%q: want users, a command line and perhaps a name, with bars between them", line)
		}
		c := roleCommand{name: strings.Join(cells[2:], ""), args: strings.Fields(cells[1])}
		for user := range strings.FieldsSeq(cells[0]) {
			role, either := strings.CutSuffix(user, "?")
			_, err := roles.Parse(role)
			switch {
			case user == "none":
			case err != nil && user != workerAndSubmitter:
				t.Errorf("%q: %v", line, err)
			case either:
				c.either = append(c.either, role)
			default:
				c.users = append(c.users, user)
			}
		}
		all = append(all, c)
	}
	return all, archive.Files
}

// TestCommandsOfRoles: a command that connects to a bus works with the
// credentials of the roles that testdata/commands.txtar lists. With the
// credentials of any other role it ends with an error that names the subject
// and the roles that have it. The server and the users are those of axe auth
// init. Every command that connects to a bus has a line, and docs/security.md
// has the same table.
func TestCommandsOfRoles(t *testing.T) {
	t.Parallel()
	table, files := readRoleCommands(t)
	bin := binaries(t)
	known := connecting(t, bin)
	for i, c := range table {
		path := commandOf(c.args, known)
		if path == "" {
			t.Fatalf("%q is no command that connects to a bus", c.args)
		}
		if c.name == "" {
			table[i].name = path
		}
		known[path] = true
	}
	for path, has := range known {
		if !has {
			t.Errorf("%s connects to a bus, and has no line in testdata/commands.txtar", path)
		}
	}
	checkRolesPage(t, table)
	if testing.Short() {
		t.Skip("runs each command with each role")
	}
	s := newRoleSystem(t, bin, files)
	t.Run("pairs", func(t *testing.T) {
		for _, c := range table {
			users := slices.Clone(c.users)
			for _, r := range roles.All() {
				if !slices.Contains(users, string(r)) {
					users = append(users, string(r))
				}
			}
			for _, user := range users {
				t.Run(c.name+"/"+user, func(t *testing.T) {
					t.Parallel()
					s.check(t, c, user)
				})
			}
		}
	})
}

// connecting returns the commands that have the flags of a connection. A
// command that only has others below it is left out.
func connecting(t *testing.T, bin string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, program := range []string{"axe", "agentd", "axe-submit"} {
		visit(t, bin, []string{program}, func(command []string, flags map[string]string) {
			_, connects := flags["server"]
			help := output(t, bin, append(slices.Clone(command), "--help")...)
			_, usage, _ := strings.Cut(help, "Usage:\n  ")
			line, _, _ := strings.Cut(usage, "\n")
			group := strings.Contains(usage, " [command]\n") && !ownArgument.MatchString(line)
			if connects && !group {
				all[strings.Join(command, " ")] = false
			}
		})
	}
	return all
}

// commandOf returns the longest command with which args begin, "" without one.
func commandOf(args []string, known map[string]bool) string {
	for n := len(args); n > 0; n-- {
		path := strings.Join(args[:n], " ")
		if _, ok := known[path]; ok {
			return path
		}
	}
	return ""
}

// checkRolesPage compares the table with docs/security.md.
func checkRolesPage(t *testing.T, table []roleCommand) {
	t.Helper()
	want, got := map[string]string{}, map[string]string{}
	for _, c := range table {
		// The first line of a command has all its roles.
		if _, ok := want[c.name]; !ok {
			want[c.name] = cmp.Or(strings.Join(c.users, ", "), "none")
		}
	}
	for _, row := range readPage(t, "docs/security.md").rows("| commands | roles |") {
		for _, m := range quoted.FindAllStringSubmatch(row[0], -1) {
			if _, twice := got[m[1]]; twice {
				t.Errorf("docs/security.md has %s in two rows", m[1])
			}
			got[m[1]] = row[1]
		}
	}
	for name, users := range want {
		if got[name] != users {
			t.Errorf("docs/security.md: the roles of %s are %q, want %q", name, got[name], users)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("docs/security.md has %s, which testdata/commands.txtar does not have", name)
		}
	}
}

// refusal matches the error of a command that lacks a permission.
var refusal = regexp.MustCompile(
	`permissions violation: Permissions Violation for (?:Publish|Subscription) to "([^"]+)"` +
		`(?:.*; roles that have it: ([a-z, ]+))?`)

// service is a command that goes on until a signal comes.
type service struct {
	// input is sent to the command. It works when its output matches ready.
	input string
	ready *regexp.Regexp
	// problem returns the error of a service that is ready, "" without one.
	// It gets the match of ready.
	problem func(t *testing.T, ready []string) string
}

var services = map[string]service{
	"agentd": {ready: regexp.MustCompile(`serving agent`)},
	"axe ui": {ready: regexp.MustCompile(`HTTP API at (http://[0-9.:]+)/v1/`), problem: problemOfUI},
	"axe mcp": {
		input: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
			`"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
			`{"jsonrpc":"2.0","id":2,"method":"tools/call",` +
			`"params":{"name":"echo","arguments":{"task":"hello"}}}` + "\n",
		ready: regexp.MustCompile(`"id":2,.*\n`),
		problem: func(_ *testing.T, ready []string) string {
			if strings.Contains(ready[0], `"isError":true`) {
				return ready[0]
			}
			return ""
		},
	},
}

// problemOfUI lists the trees by the HTTP API.
func problemOfUI(t *testing.T, ready []string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, ready[1]+"/v1/trees", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode == http.StatusOK {
		return ""
	}
	return string(body)
}

// check runs a command with the credentials of a user.
func (s *roleSystem) check(t *testing.T, c roleCommand, user string) {
	t.Helper()
	works := slices.Contains(c.users, user)
	args := slices.Clone(c.args[1:])
	for i, arg := range args {
		args[i] = s.place(t, arg, user)
	}
	cmd := s.command(t, c.args[0], append(args, "--context", "axe-"+user)...)
	code, stdout, stderr := s.run(t, cmd, services[c.name])
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	said := refusal.FindStringSubmatch(strings.ReplaceAll(lines[len(lines)-1], `\"`, `"`))
	switch {
	case works && code != 0:
		t.Errorf("exit code %d, want 0: the role has this command:\n%s%s", code, stdout, stderr)
	case works && strings.Contains(stderr, "iolation"):
		t.Errorf("the command needs more than its role has:\n%s", stderr)
	case works, code == 0 && slices.Contains(c.either, user):
	case code != 1 || said == nil || said[2] == "" && len(c.users) > 0:
		t.Errorf("exit code %d, want 1 and an error with the subject and its roles:\n%s%s", code, stdout, stderr)
	default:
		named := strings.Split(said[2], ", ")
		for _, role := range c.users {
			// A submitter reads through the workers.
			if role != workerAndSubmitter && role != string(roles.Submitter) && !slices.Contains(named, role) {
				t.Errorf("the command works as %s, which the error does not name: %s", role, said[0])
			}
		}
		if slices.Contains(named, user) {
			t.Errorf("the user has the role, and was refused: %s", said[0])
		}
	}
}

// run runs a command until it ends. It sends a service SIGTERM when it works.
func (s *roleSystem) run(t *testing.T, cmd *exec.Cmd, of service) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if of.input == "" {
		_ = stdin.Close()
	} else if _, err := io.WriteString(stdin, of.input); err != nil {
		t.Logf("%s: %v", cmd, err) // it has ended
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	defer func() {
		_ = cmd.Process.Kill()
		<-ended
	}()
	for begin := time.Now(); time.Since(begin) < 3*waitTimeout; {
		if of.ready != nil {
			if m := of.ready.FindStringSubmatch(out.String() + errs.String()); m != nil {
				problem := ""
				if of.problem != nil {
					problem = of.problem(t, m)
				}
				_ = cmd.Process.Signal(syscall.SIGTERM)
				<-ended
				code = cmd.ProcessState.ExitCode()
				if problem != "" {
					code = 1
				} else if code == 128+int(syscall.SIGTERM) {
					code = 0 // the signal ends it as it should
				}
				return code, out.String(), errs.String() + problem
			}
		}
		select {
		case <-ended:
			return cmd.ProcessState.ExitCode(), out.String(), errs.String()
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatalf("%s did not end within %s:\n%s%s", cmd, 3*waitTimeout, out.String(), errs.String())
	return 0, "", ""
}

package cmd_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/axebus/axe/agentd/memory"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/archive"
	"github.com/axebus/axe/internal/roles"
	"github.com/axebus/axe/subjects"
)

// roleSystem is a server of axe auth init with a worker, for
// TestCommandsOfRoles.
type roleSystem struct {
	// bin has the programs, and dir is their working directory.
	bin, dir, url               string
	env                         []string
	operator, archivist, worker *bus.Conn
	// n makes the names of what commands work on.
	n atomic.Int64
}

// newRoleSystem starts the server and the worker.
func newRoleSystem(t *testing.T, bin string, files []txtar.File) *roleSystem {
	t.Helper()
	s := &roleSystem{bin: bin, dir: t.TempDir()}
	till := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/refund" {
			panic(http.ErrAbortHandler) // the refund may have been made
		}
	}))
	t.Cleanup(till.Close)
	for i := range files {
		files[i].Data = []byte(strings.ReplaceAll(string(files[i].Data), "http://till.test", till.URL))
	}
	if err := txtar.Write(&txtar.Archive{Files: files}, s.dir); err != nil {
		t.Fatal(err)
	}
	s.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + t.TempDir(), "GORACE=atexit_sleep_ms=0",
		"XDG_CONFIG_HOME=" + filepath.Join(s.dir, "config"), "XDG_STATE_HOME=" + filepath.Join(s.dir, "state"),
		"XDG_DATA_HOME=" + filepath.Join(s.dir, "data"), "OTEL_EXPORTER_OTLP_ENDPOINT=" + till.URL,
	}
	s.serve(t)
	s.exec(t, "axe", "provision", "--context", "axe-provisioner")
	s.startWorker(t)
	s.operator, s.archivist, s.worker = s.open(t, roles.Operator), s.open(t, roles.Archivist), s.open(t, roles.Worker)
	c := client.New(s.operator)
	for _, id := range []string{"done", "done2"} {
		if _, err := c.Wait(t.Context(), s.submit(t, "maker", id)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// serve runs axe auth init, and then the server.
func (s *roleSystem) serve(t *testing.T) {
	t.Helper()
	// The configuration wants a port that is free.
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	s.url = "tls://" + free.Addr().String()
	s.exec(t, "axe", "auth", "init", "auth", "--listen", free.Addr().String())
	opts, err := server.ProcessConfigFile(filepath.Join(s.dir, "auth", "nats-server.conf"))
	if err != nil {
		t.Fatal(err)
	}
	opts.NoLog, opts.NoSigs, opts.SyncAlways = true, true, false
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(waitTimeout) {
		t.Fatal("the server is not ready")
	}
	s.writeBoth(t)
}

// writeBoth makes the user with the permissions of a worker and a submitter,
// and its context.
func (s *roleSystem) writeBoth(t *testing.T) {
	t.Helper()
	seed, err := os.ReadFile(filepath.Join(s.dir, "auth", "keys", "account.nk"))
	if err != nil {
		t.Fatal(err)
	}
	account, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(seed))))
	if err != nil {
		t.Fatal(err)
	}
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.NewUserClaims(public)
	claims.Name = "both"
	for _, r := range []roles.Role{roles.Worker, roles.Submitter} {
		p := r.Permissions(roles.Scope{User: "both"})
		claims.Pub.Allow.Add(p.Publish...)
		claims.Pub.Deny.Add(p.DenyPublish...)
		claims.Sub.Allow.Add(p.Subscribe...)
	}
	claims.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: roles.ResponseTime}
	token, err := claims.Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	seed, err = user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	creds, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		t.Fatal(err)
	}
	contexts := filepath.Join(s.dir, "config", "nats", "context")
	of, err := os.ReadFile(filepath.Join(contexts, "axe-worker.json"))
	if err != nil {
		t.Fatal(err)
	}
	both := strings.NewReplacer("worker.creds", "both.creds", "_INBOX_worker", "_INBOX_both").Replace(string(of))
	if err := errors.Join(
		os.WriteFile(filepath.Join(s.dir, "auth", "both.creds"), creds, 0o600),
		os.WriteFile(filepath.Join(contexts, "axe-"+workerAndSubmitter+".json"), []byte(both), 0o600),
	); err != nil {
		t.Fatal(err)
	}
}

// command returns a program that runs until the test ends.
func (s *roleSystem) command(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(s.bin, program), args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	return cmd
}

// exec runs a program that has to succeed.
func (s *roleSystem) exec(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := s.command(t, program, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", program, args, err, out)
	}
}

// startWorker starts agentd, which serves all agents until the test ends.
func (s *roleSystem) startWorker(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(s.bin, "agentd"),
		"--agents", "agents", "--context", "axe-worker", "--name", "one")
	cmd.Dir, cmd.Env = s.dir, s.env
	var log buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if strings.Contains(log.String(), "iolation") {
			t.Errorf("the worker needs more than its role has:\n%s", log.String())
		}
	})
	for begin := time.Now(); strings.Count(log.String(), "serving agent") < 6; time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > waitTimeout {
			t.Fatalf("the worker does not serve its agents:\n%s", log.String())
		}
	}
}

// open connects as a role.
func (s *roleSystem) open(t *testing.T, r roles.Role) *bus.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	conn, err := bus.Open(ctx, bus.Config{Dial: bus.Dial{
		URL:   s.url,
		TLSCA: filepath.Join(s.dir, "auth", "tls", "ca.pem"),
		Creds: filepath.Join(s.dir, "auth", string(r)+".creds"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// submit submits a task to an agent.
func (s *roleSystem) submit(t *testing.T, agent, id string) subjects.Tree {
	t.Helper()
	a, err := subjects.ParseAgent(agent)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := client.New(s.operator).Submit(t.Context(), client.Task{Agent: a, ID: client.TreeID(id), Text: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// place returns what a word of a command line stands for. A word in capitals
// stands for something of the command's own:
//
//	ROLE       the user's role
//	ENDED      a tree that has ended
//	SOON       a tree that ends in a second
//	AGE        an age of messages that no other command sets
//	WORKING    a tree at work, which waits for mail
//	HELD       a tree with a turn that waits for an approval
//	ASKING     a tree with a tool that asks for input
//	UNSETTLED  a tree with a call that may have taken effect
//	LETTER     the number of a dead letter
//	KEEPER     an agent with more memory than it keeps
//	GRANTED    a key with a grant
//	FILE       an export of a tree that was forgotten, with an approval
func (s *roleSystem) place(t *testing.T, word, user string) string {
	t.Helper()
	id := strings.ToLower(word) + strconv.FormatInt(s.n.Add(1), 10)
	c := client.New(s.operator)
	switch word {
	case "ROLE":
		return user
	case "ENDED":
		s.ended(t, id)
	case "SOON":
		s.submit(t, "soon", id)
	case "WORKING":
		s.await(t, s.submit(t, "desk", id), func(tree subjects.Tree) error {
			state, err := c.RootState(t.Context(), tree)
			if err == nil && len(state.Turns) == 0 {
				err = errors.New("no turn")
			}
			return err
		})
	case "AGE":
		return strconv.FormatInt(1000+s.n.Load(), 10) + "h"
	case "HELD":
		s.held(t, id)
	case "ASKING":
		s.await(t, s.submit(t, "guide", id), func(tree subjects.Tree) error {
			_, err := c.HeldForm(t.Context(), tree, subjects.Root)
			return err
		})
	case "UNSETTLED":
		s.await(t, s.submit(t, "clerk", id), func(tree subjects.Tree) error {
			calls, err := c.HeldCalls(t.Context(), tree)
			if err == nil && len(calls) == 0 {
				err = errors.New("no call waits for a person")
			}
			return err
		})
	case "LETTER":
		return s.letter(t, id)
	case "KEEPER":
		return s.keeper(t, id)
	case "GRANTED":
		return s.granted(t)
	case "FILE":
		return s.file(t, id)
	default:
		return word
	}
	return id
}

// granted grants all agents to a new key.
func (s *roleSystem) granted(t *testing.T) string {
	t.Helper()
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	s.exec(t, "axe", "auth", "grant", public, "--sign", "auth/keys/account.nk", "--context", "axe-provisioner")
	return public
}

// await repeats look until it returns no error.
func (s *roleSystem) await(t *testing.T, tree subjects.Tree, look func(subjects.Tree) error) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := look(tree)
		if err == nil {
			return
		}
		if time.Since(begin) > waitTimeout {
			out, _ := s.command(t, "axe", "log", tree.String(), "--all", "--context", "axe-observer").CombinedOutput()
			t.Fatalf("tree %s: %v\n%s", tree, err, out)
		}
	}
}

// ended makes a tree that has ended.
func (s *roleSystem) ended(t *testing.T, id string) subjects.Tree {
	t.Helper()
	tree := s.submit(t, "echo", id)
	if o, err := client.New(s.operator).Wait(t.Context(), tree); err != nil || o.Status != run.StatusCompleted {
		t.Fatalf("got %+v, %v; want a completed tree", o, err)
	}
	return tree
}

// held makes a tree with a turn that waits for an approval.
func (s *roleSystem) held(t *testing.T, id string) subjects.Tree {
	t.Helper()
	tree := s.submit(t, "writer", id)
	s.await(t, tree, func(tree subjects.Tree) error {
		_, err := client.New(s.operator).HeldTurn(t.Context(), tree, subjects.Root)
		return err
	})
	return tree
}

// letter makes a dead letter, and returns its number. The archivist may write
// any message of a run.
func (s *roleSystem) letter(t *testing.T, id string) (number string) {
	t.Helper()
	call := bus.Message{Subject: "axe.run.echo." + id + ".r.call", Body: []byte(`{"task":"one","context":"two"}`)}
	if _, err := s.archivist.Write(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	s.await(t, client.TreeID(id), func(tree subjects.Tree) error {
		all, err := client.New(s.operator).DeadLetters(t.Context())
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(l client.DeadLetter) bool { return l.Run.Tree == tree })
		if i < 0 {
			return errors.New("no dead letter")
		}
		number = strconv.FormatUint(all[i].ID, 10)
		return nil
	})
	return number
}

// keeper makes an agent with two entries of memory, of which it keeps one.
func (s *roleSystem) keeper(t *testing.T, name string) string {
	t.Helper()
	text := "name = \"" + name + "\"\nmodel = \"script/echo\"\n[memory]\nenabled = true\nlast_n = 1\n"
	if err := os.WriteFile(filepath.Join(s.dir, "keepers", name+".toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	agent, err := subjects.ParseAgent(name)
	if err != nil {
		t.Fatal(err)
	}
	log := memory.Bucket{Values: s.worker.Memory()}.Open(agent, "")
	for range 2 {
		if err := log.Append(t.Context(), memory.Entry{Time: time.Now(), Task: "x", Result: "y"}); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// file makes an export of a tree, and forgets the tree.
func (s *roleSystem) file(t *testing.T, id string) string {
	t.Helper()
	tree, c := s.held(t, id), client.New(s.archivist)
	if err := client.New(s.operator).Decide(t.Context(), tree, subjects.Root, run.Approval{Approve: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(s.dir, id+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := client.Export(t.Context(), c, archive.NewWriter(f, time.Now()), tree); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Forget(t.Context(), c, tree); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

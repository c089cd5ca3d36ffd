package cmd_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the real binaries. Besides the usual commands a script has
//
//	exits CODE PROGRAM ARG…        run a program; expect this exit code
//	settles CODE PROGRAM ARG…      repeat a program until it exits so
//	start NAME PROGRAM ARG…        run a program in the background
//	says NAME TEXT                 wait for a text on the stderr of NAME
//	signal NAME SIGNAL             send TERM, INT or KILL to NAME
//	end NAME SIGNAL CODE           send NAME a signal (- for none) and
//	                               expect an exit code
//	bus [streams]                  start a NATS server, without or with
//	                               the streams, and set NATS_URL
//	guarded [tls|roles]            start a NATS server with the users op
//	                               and bound, and set NATS_URL
//	configured FILE                start a NATS server with a
//	                               configuration file
//	publish SUBJECT QUOTED [N:V]…  store a message, its text quoted as in
//	                               Go, with headers
//	addworker DIR NAME AGENT       make NAME.creds of a worker that is
//	                               bound to an agent, in a directory of
//	                               axe auth init
//	forge CREDS SUBJECT QUOTED     store a message as the worker with creds
//	                               stores an outcome
//	delete SUBJECT N               delete the N-th message of a subject on
//	                               the stream of runs
//	purge STREAM                   remove all messages of a stream
//	called TREE [PATH]             wait until a run, by default the root,
//	                               was called
//	ended TREE PATH                wait until a run below the root has an
//	                               outcome
//	held TREE [PATH]               wait until a run, by default the root,
//	                               waits for a person
//	word NAME                      put the last program's stdout into a
//	                               variable
//	keep NAME PATTERN              put the pattern's group in that stdout
//	                               into a variable
//	freeport NAME                  put a free port into a variable
//	model HOW                      start a faulty Ollama (see startModel)
//	                               and set AXE_OLLAMA_BASE_URL
//	asked                          wait until that model was asked
//
// and the variable EXAMPLES with the directory of the example agents. The
// condition tmux holds if tmux is installed. If it is not, and AXE_NEED_TMUX is
// set, a script with the condition fails.
func TestScripts(t *testing.T) { runScripts(t, "testdata/script") }

// TestLongScripts is TestScripts for the scripts that take the longest.
func TestLongScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	runScripts(t, "testdata/script/long")
}

func runScripts(t *testing.T, dir string) {
	t.Helper()
	bin := binaries(t)
	examples, err := filepath.Abs("../configs/examples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("EXAMPLES", examples)
			// agentd --embedded writes there.
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Values[scriptKey{}] = &scriptEnv{processes: map[string]*process{}}
			return nil
		},
		Condition: hasTmux,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "settles": settles, "start": start, "says": says, "signal": signal, "end": end,
			"bus": startBus, "guarded": startGuarded, "configured": startConfigured,
			"collector": startCollector,
			"publish":   publish, "delete": deleteStored, "purge": purge, "addworker": addWorker, "forge": forge,
			"called": called, "ended": ended, "held": held, "word": word,
			"freeport": freePort, "model": startModel, "asked": asked, "keep": keep,
		},
	})
}

// hasTmux is the condition of scripts that need tmux.
func hasTmux(condition string) (bool, error) {
	if condition != "tmux" {
		return false, fmt.Errorf("unknown condition %q", condition)
	}
	_, err := exec.LookPath("tmux")
	if err != nil && os.Getenv("AXE_NEED_TMUX") != "" {
		return false, err
	}
	return err == nil, nil
}

// scriptEnv holds the processes and servers of one script.
type scriptEnv struct {
	bus       *testBus
	model     *testModel
	processes map[string]*process
}

// scriptKey is the key of a script's scriptEnv.
type scriptKey struct{}

// envOf returns the processes and servers of a script.
func envOf(ts *testscript.TestScript) *scriptEnv {
	s, _ := ts.Value(scriptKey{}).(*scriptEnv)
	return s
}

// checkUsage fails the script if its command is negated or has too few
// arguments.
func checkUsage(ts *testscript.TestScript, neg bool, args []string, atLeast int, usage string) {
	if neg || len(args) < atLeast {
		ts.Fatalf("usage: %s", usage)
	}
}

// keep sets a variable to the match of a pattern's group in the last standard
// output.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 2, "keep NAME PATTERN")
	found := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) != 2 {
		ts.Fatalf("no match for %s", args[1])
	}
	ts.Setenv(args[0], found[1])
}

// number parses a number in a script.
func number(ts *testscript.TestScript, s string) int {
	n, err := strconv.Atoi(s)
	ts.Check(err)
	return n
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 2, "exits CODE PROGRAM ARG…")
	checkExit(ts, number(ts, args[0]), ts.Exec(args[1], args[2:]...))
}

func settles(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 2, "settles CODE PROGRAM ARG…")
	code := number(ts, args[0])
	for begin := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		exit, _ := errors.AsType[*exec.ExitError](err)
		if err == nil && code == 0 || exit != nil && exit.ExitCode() == code {
			return
		}
		if time.Since(begin) > waitTimeout {
			ts.Fatalf("no exit code %d within %s: %v", code, waitTimeout, err)
		}
	}
}

// checkExit compares a program's exit code, which its error has, with the
// expected code.
func checkExit(ts *testscript.TestScript, code int, err error) {
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != code {
		ts.Fatalf("exit code %d, want %d", got, code)
	}
}

// process is a program in the background.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr buffer
	// end waits for the end of the program. A later call returns the same
	// error.
	end func() error
}

func start(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 2, "start NAME PROGRAM ARG…")
	program, err := exec.LookPath(filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], args[1]))
	ts.Check(err)
	p := &process{cmd: exec.Command(program, args[2:]...)} //nolint:noctx // killed below
	p.cmd.Dir = ts.MkAbs(".")
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	for _, name := range []string{
		"PATH", "HOME", "TMPDIR", "NATS_URL", "AXE_OLLAMA_BASE_URL", "AXE_SCRIPT_DIR", "XDG_STATE_HOME",
		"XDG_CONFIG_HOME", "XDG_DATA_HOME", "GORACE", "NATS_USER", "NATS_PASSWORD", "NATS_CA",
	} {
		p.cmd.Env = append(p.cmd.Env, name+"="+ts.Getenv(name))
	}
	ts.Check(p.cmd.Start())
	p.end = sync.OnceValue(p.cmd.Wait)
	envOf(ts).processes[args[0]] = p
	ts.Defer(func() {
		_ = p.cmd.Process.Kill()
		_ = p.end()
		ts.Logf("%s: %s%s", args[0], p.stdout.String(), p.stderr.String())
	})
}

// running returns a started process by name.
func running(ts *testscript.TestScript, name string) *process {
	p := envOf(ts).processes[name]
	if p == nil {
		ts.Fatalf("%s was not started", name)
	}
	return p
}

func says(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 2, "says NAME TEXT")
	p := running(ts, args[0])
	for begin := time.Now(); !strings.Contains(p.stderr.String(), args[1]); time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > waitTimeout {
			ts.Fatalf("%s has not said %s within %s", args[0], args[1], waitTimeout)
		}
	}
}

func signal(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 2, "signal NAME SIGNAL")
	sig, ok := map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "INT": syscall.SIGINT,
		"KILL": syscall.SIGKILL,
	}[args[1]]
	if !ok {
		ts.Fatalf("unknown signal %s: want TERM, INT or KILL", args[1])
	}
	ts.Check(running(ts, args[0]).cmd.Process.Signal(sig))
}

// end also makes the output of the program that of the script's last command.
func end(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 3, "end NAME SIGNAL CODE")
	p := running(ts, args[0])
	if args[1] != "-" {
		signal(ts, false, args[:2])
	}
	checkExit(ts, number(ts, args[2]), p.end())
	_, err := ts.Stdout().Write([]byte(p.stdout.String()))
	ts.Check(err)
	_, err = ts.Stderr().Write([]byte(p.stderr.String()))
	ts.Check(err)
}

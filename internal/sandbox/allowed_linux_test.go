package sandbox

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAllowed: ordinary scripts work in the sandbox.
func TestAllowed(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"write, rename, link":     `echo x >a && mkdir -p d/e && mv a d/e/b && ln d/e/b c && ln -s c s && rm -r d`,
		"modes and times":         `echo x >a && chmod 755 a && touch -d @0 a && ./a; test -x a`,
		"TMPDIR":                  `f=$(mktemp) && echo x >"$f" && cp "$f" "$TMPDIR/y" && mkfifo "$TMPDIR/p"`,
		"devices":                 `head -c 9 /dev/urandom >/dev/null && : >/dev/null && head -c 1 /dev/zero | wc -c`,
		"process substitution":    `bash -c 'diff <(echo a) <(echo a)'`,
		"here documents":          "bash -c 'cat <<x\ny\nx'",
		"writing to /dev/stderr":  `bash -c 'echo x >/dev/stderr'`,
		"own processes":           `sleep 60 & kill $! && wait $!; test $? -eq 143`,
		"jobs and pipes":          `yes | head -n 2 | sort | uniq -c`,
		"users":                   `id && ls -l / 2>/dev/null; ls -l /usr >/dev/null`,
		"information of the CPUs": `nproc && grep -c . /proc/cpuinfo && cat /proc/sys/kernel/osrelease`,
		"nice":                    `nice -n 1 true`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothSandboxes(t, func(t *testing.T, c Config) {
				t.Helper()
				if r := shell(t, c, script); r.Code != 0 {
					t.Errorf("code %d, want 0: %s", r.Code, r.Output)
				}
			})
		})
	}
}

// TestAllowedPrograms: git, perl, gcc and go work in the sandbox, if they are
// installed and their directory may be read.
func TestAllowedPrograms(t *testing.T) {
	t.Parallel()
	for program, script := range map[string]string{
		"git": `export HOME=$TMPDIR; git init -q . && git config user.name a && git config user.email a@b &&
			git commit -q --allow-empty -m x && git log`,
		"perl": `perl -MSocket -e 'socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or die; print "x"'`,
		"gcc":  `echo 'int main(void){return 0;}' >a.c && gcc a.c -o a && ./a`,
		"go": `export HOME=$TMPDIR GOFLAGS=-mod=mod GOPROXY=off; printf 'module m\ngo 1.21\n' >go.mod
			printf 'package main\nfunc main() {}\n' >m.go; gofmt -l -w . && go list -deps ./...`,
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(program)
			if err != nil {
				t.Skip(err)
			}
			if path, err = filepath.EvalSymlinks(path); err != nil {
				t.Fatal(err)
			}
			bothSandboxes(t, func(t *testing.T, c Config) {
				t.Helper()
				c.Read = []string{filepath.Dir(filepath.Dir(path))}
				if r := shell(t, c, script); r.Code != 0 {
					t.Errorf("code %d, want 0: %s", r.Code, r.Output)
				}
			})
		})
	}
}

// TestNetwork: a program may use TCP, UDP and netlink if Network is set.
func TestNetwork(t *testing.T) {
	t.Parallel()
	bothSandboxes(t, func(t *testing.T, c Config) {
		t.Helper()
		c.Env = append(c.Env, outside(t, c)...)
		c.Network = true
		c.Read = []string{os.Args[0]}
		for _, try := range [][]string{
			{"dial", "tcp", variable(c, "TCP")},
			{"dial", "tcp", variable(c, "TCP6")},
			{"send", variable(c, "UDP")},
			{"dns", variable(c, "UDP")},
			{"listen"},
			{"socket", "16", "3", "0"}, // netlink, which lists addresses
		} {
			r, err := Run(t.Context(), c, append([]string{os.Args[0], attemptArg}, try...), nil)
			if err != nil || r.Code != 0 {
				t.Errorf("%v: code %d, error %v, want code 0: %s", try, r.Code, err, r.Output)
			}
		}
	})
}

// TestLinkInPlaceOfWritable: an earlier program has put a link in the place of
// a directory that the Config names. Run refuses a link that leads out of the
// working directory. A link to a directory inside gives access to that one.
func TestLinkInPlaceOfWritable(t *testing.T) {
	t.Parallel()
	bothSandboxes(t, func(t *testing.T, c Config) {
		t.Helper()
		c.Env = append(c.Env, outside(t, c)...)
		if r := shell(t, c, `ln -s "$OUT" build && ln -s inner kept && mkdir inner`); r.Code != 0 {
			t.Fatalf("the program that makes the links ended with %+v", r)
		}
		for _, name := range []string{"build", filepath.Join(c.Dir, "build"), "./x/../build"} {
			changed := c
			changed.Write = []string{name}
			if r, err := Run(t.Context(), changed, []string{"true"}, nil); err == nil {
				t.Errorf("%s may be written: %+v, want an error", name, r)
			}
			changed.Write, changed.Read = nil, []string{name}
			if r, err := Run(t.Context(), changed, []string{"true"}, nil); err == nil {
				t.Errorf("%s may be read: %+v, want an error", name, r)
			}
		}
		c.Write = []string{"kept"}
		if r := shell(t, c, `echo x >inner/f && ! echo x >f`); r.Code != 0 {
			t.Errorf("with a link below the working directory: %+v, want that only its target may be written", r)
		}
	})
}

// TestProbeReportsEscapes makes the tries of Probe without a sandbox. Probe
// reports each try that a sandbox must refuse, and no other.
func TestProbeReportsEscapes(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	if os.Geteuid() != 0 {
		t.Skip("some tries need root, even without a sandbox")
	}
	base := t.TempDir()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	port := listener.Addr().(*net.TCPAddr).Port
	k := &check{Secret: filepath.Join(base, "outside", "secret"), Worker: os.Getpid(), Port: port}
	c, err := Config{Dir: filepath.Join(base, "work"), Off: true, TempBase: base}.prepare(k)
	if err != nil {
		t.Fatal(err)
	}
	s := spec{Config: c, Tmp: base, Check: k}
	r, err := run(t.Context(), spec{Config: c, Argv: []string{"/"}, Check: k}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, try := range k.tries(s) {
		if reported := strings.Contains(r.Output.String(), try.name); reported == try.allowed {
			t.Errorf("%q is reported: %t, want %t: %s", try.name, reported, !try.allowed, r.Output)
		}
	}
}

// TestOldLandlock: Landlock 2 cannot refuse truncation, so the filter does.
// With Landlock 3 the filter lets it pass.
func TestOldLandlock(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	out := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(out, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"truncate", "truncate-open"} {
		for _, abi := range []string{"2", "3"} {
			cmd := exec.CommandContext(t.Context(), os.Args[0], attemptArg, "filtered", abi, name, out)
			text, err := cmd.CombinedOutput()
			if (err == nil) != (abi == "3") {
				t.Errorf("%s with the filter for Landlock %s: error %v, %s; want it to work: %t",
					name, abi, err, text, abi == "3")
			}
		}
	}
}

package cmd_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/axebus/axe/subjects"
)

// shown is a command that a page shows.
type shown struct {
	page string
	line int
	key  bool // needs a provider's key
	args []string
}

// anything stands for the output of a command in $( ).
const anything = "ANYTHING"

// inline returns the commands in backquotes in the text of a page, each once.
// Words in backquotes that have a space count as a command.
func (p page) inline() []shown {
	var all []shown
	seen := map[string]bool{}
	_, prose := p.blocks()
	for i, line := range prose {
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			if seen[m[1]] || !strings.Contains(m[1], " ") {
				continue
			}
			seen[m[1]] = true
			for _, args := range simple(strings.ReplaceAll(m[1], ` \| `, " ")) {
				all = append(all, shown{page: p.name, line: i + 1, args: args})
			}
		}
	}
	return all
}

// commands returns the commands in the shell blocks of a page.
func (p page) commands() []shown {
	var all []shown
	fenced, _ := p.blocks()
	for _, b := range fenced {
		if b.info != "sh" && b.info != "sh key" {
			continue
		}
		for i, line := range strings.Split(strings.ReplaceAll(b.body, "\\\n", "  "), "\n") {
			for _, args := range simple(line) {
				all = append(all, shown{p.name, b.line + 1 + i, b.info == "sh key", args})
			}
		}
	}
	return all
}

var (
	substitution = regexp.MustCompile(`\$\(([^()]*)\)`)
	assignment   = regexp.MustCompile(`^\w+=`)
	keywords     = []string{"until", "do", "done", "export"}
)

// simple splits a line of a shell into its simple commands, including those in
// substitutions. It knows only the syntax that the pages use.
func simple(line string) [][]string {
	var all [][]string
	line = substitution.ReplaceAllStringFunc(line, func(s string) string {
		all = append(all, simple(s[2:len(s)-1])...)
		return anything
	})
	var (
		args   []string
		word   strings.Builder
		inWord bool
		quote  rune
	)
	endWord := func() {
		text := word.String()
		if inWord && (len(args) > 0 || !assignment.MatchString(text) && !slices.Contains(keywords, text)) {
			args = append(args, text)
		}
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		endWord()
		if len(args) > 0 {
			all = append(all, args)
		}
		args = nil
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == '#' && !inWord:
			endCommand()
			return all
		case r == ' ':
			endWord()
		case strings.ContainsRune("|;&", r):
			endCommand()
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	endCommand()
	return all
}

// program returns the program of this module that a command runs, "" for
// another program.
func (s shown) program() string {
	name := strings.TrimPrefix(s.args[0], "bin/")
	if name == "axe" || name == "agentd" || name == "axe-submit" {
		return name
	}
	return ""
}

// TestPagesCommands: every command that a page shows exists. For a program of
// this module the subcommand and each flag exist, and the flag takes the value.
// The targets of make, the paths of go install and the subjects of nats pub
// exist too.
func TestPagesCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	t.Parallel()
	bin := binaries(t)
	makefile := readPage(t, "Makefile").text
	seen := 0
	for _, p := range pages(t) {
		for _, c := range slices.Concat(p.commands(), p.inline()) {
			seen++
			switch name := c.program(); {
			case name != "":
				checkCommand(t, filepath.Join(bin, name), c)
			case c.args[0] == "make" && !strings.Contains(makefile, "\n"+c.args[1]+":"):
				t.Errorf("%s:%d: the Makefile has no target %s", c.page, c.line, c.args[1])
			case c.args[0] == "go" && c.args[1] == "install":
				checkInstall(t, c)
			case c.args[0] == "nats" && c.args[1] == "pub":
				if _, err := (subjects.Space{}).Parse(c.args[2]); err != nil {
					t.Errorf("%s:%d: %v", c.page, c.line, err)
				}
			}
		}
	}
	if seen < 50 {
		t.Errorf("found %d commands, want at least 50: are they in blocks with the info string sh?", seen)
	}
	checkCLIPage(t, bin)
}

// ownArgument matches the usage of a group of commands that has an argument of
// its own.
var ownArgument = regexp.MustCompile(`\[[A-Z]+\]| [A-Z]+\.\.\.`)

// checkCommand runs a command with --help, so that it parses its arguments and
// does nothing else. It also checks that the usage in that help names the
// subcommand, since the help of a group is shown for an unknown one.
func checkCommand(t *testing.T, program string, c shown) {
	t.Helper()
	args := slices.Clone(c.args[1:])
	at := slices.Index(args, "--")
	if at < 0 {
		at = len(args)
	}
	out, err := exec.CommandContext(t.Context(), program, slices.Insert(args, at, "--help")...).CombinedOutput()
	if err != nil {
		t.Errorf("%s:%d: %q: %v\n%s", c.page, c.line, c.args, err, out)
		return
	}
	_, usage, _ := strings.Cut(string(out), "Usage:\n  ")
	words := strings.Fields(usage)
	group := strings.Contains(usage, " [command]\n") && filepath.Base(program) == "axe"
	for i, arg := range c.args[1:] {
		isCommand := i+1 < len(words) && words[i+1] == arg
		if strings.HasPrefix(arg, "-") || isCommand && !group {
			return
		}
		if group && !isCommand {
			if line, _, _ := strings.Cut(usage, "\n"); ownArgument.MatchString(line) {
				return
			}
			t.Errorf("%s:%d: %q is no subcommand", c.page, c.line, c.args)
			return
		}
	}
}

// checkInstall checks that the directory of a go install has a program.
func checkInstall(t *testing.T, c shown) {
	t.Helper()
	dir, _, _ := strings.Cut(strings.TrimPrefix(c.args[2], module+"/"), "@")
	if _, err := os.Stat(filepath.Join("..", dir, "main.go")); err != nil {
		t.Errorf("%s:%d: %v", c.page, c.line, err)
	}
}

// TestPagesAreRun: the script tour.txt runs the commands of the README and the
// tutorial, in their order. Commands that need a key are left out. Workers may
// start in another order.
func TestPagesAreRun(t *testing.T) {
	var tour [][]string
	for line := range strings.Lines(readPage(t, "cmd/testdata/script/tour.txt").text) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(words) == 3 && (words[0] == "exits" || words[0] == "start") {
			tour = append(tour, simple(strings.ReplaceAll(words[2], "''", `'"'"'`))...)
		}
	}
	for _, name := range []string{"README.md", "docs/tutorial.md"} {
		next := 0
		for _, c := range readPage(t, name).commands() {
			if c.program() == "" || c.key {
				continue
			}
			c.args[0] = c.program()
			from := next
			if c.args[0] == "agentd" {
				from = 0
			}
			found := slices.IndexFunc(tour[from:], func(args []string) bool { return same(c.args, args) })
			switch {
			case found < 0:
				t.Errorf(
					"%s:%d: %q is not run by tour.txt, or not after the command before it",
					c.page,
					c.line,
					c.args,
				)
			case c.args[0] != "agentd":
				next += found + 1
			}
		}
	}
}

// same compares a command of a page with one of the script. It ignores the
// flags of the bus, since the script has its own.
func same(shown, run []string) bool {
	return slices.EqualFunc(withoutBus(shown), withoutBus(run), func(a, b string) bool {
		return a == anything || strings.Replace(a, "configs/examples", "$EXAMPLES", 1) == b
	})
}

// withoutBus leaves out the flags --embedded and --server, with its value.
func withoutBus(args []string) []string {
	var left []string
	for i, arg := range args {
		if arg != "--embedded" && arg != "--server" && (i == 0 || args[i-1] != "--server") {
			left = append(left, arg)
		}
	}
	return left
}

var (
	flagOfHelp = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)(?:.*\(default "?([^")]*)"?\))?`)
	flagOfPage = regexp.MustCompile("`--([\\w-]+)`")
	subcommand = regexp.MustCompile(`(?m)^  ([\w-]+) +\S`)
	// wrappedFlag is the line break in the text of a flag.
	wrappedFlag = regexp.MustCompile(`\n {12,}`)
	ruleOfHelp  = regexp.MustCompile(`(?m)^  ([a-z-]+) {2,}\S`)
)

// checkCLIPage holds docs/cli.md to the programs: it has every command with
// every flag and its default, and no other flag. The flags that several
// commands share have sections of their own. checkCLIPage also compares the
// rules in docs/operations.md with those of axe verify.
func checkCLIPage(t *testing.T, bin string) {
	t.Helper()
	p := readPage(t, "docs/cli.md")
	sections, shared := flagSections(p)
	for _, program := range []string{"axe", "agentd", "axe-submit"} {
		visit(t, bin, []string{program}, func(command []string, flags map[string]string) {
			name := strings.Join(command, " ")
			if !strings.Contains(p.text, name) {
				t.Errorf("docs/cli.md does not have %s", name)
			}
			command = sameCommand(command)
			for len(command) > 1 && sections[strings.Join(command, " ")] == nil {
				command = command[:len(command)-1]
			}
			section := sections[strings.Join(command, " ")]
			for flag, byDefault := range flags {
				said, own := section[flag]
				if _, common := shared[flag]; !own && !common {
					t.Errorf("docs/cli.md: %s has no flag --%s", name, flag)
				}
				literal := strings.Trim(said, "`")
				if len(said) == len(literal)+2 && byDefault != "" && literal[0] != '$' &&
					literal != byDefault {
					t.Errorf("docs/cli.md: the default of %s --%s is %s, not %s", name, flag, byDefault, said)
				}
			}
		})
	}
	for name, section := range sections {
		program, _, _ := strings.Cut(name, " ")
		if program != "axe" && program != "agentd" && program != "axe-submit" {
			continue
		}
		flags := map[string]string{}
		visit(t, bin, strings.Fields(name), func(_ []string, more map[string]string) { maps.Copy(flags, more) })
		for flag := range section {
			if _, ok := flags[flag]; !ok {
				t.Errorf("docs/cli.md: %s has the flag --%s, which does not exist", name, flag)
			}
		}
	}
	help := output(t, bin, "axe", "verify", "--help")
	_, rules, _ := strings.Cut(help, "rules:\n\n")
	rules, _, _ = strings.Cut(rules, "\n\n")
	var want, got []string
	for _, m := range ruleOfHelp.FindAllStringSubmatch(rules, -1) {
		want = append(want, m[1])
	}
	for _, row := range readPage(t, "docs/operations.md").rows("| rule | meaning |") {
		got = append(got, row[0])
	}
	if len(want) == 0 || !slices.Equal(want, got) {
		t.Errorf("docs/operations.md has the rules %v, and axe verify has %v", got, want)
	}
}

// sameCommand returns the command of axe that equals a command of axe-submit.
// The page describes it once. Other commands are returned as they are.
func sameCommand(command []string) []string {
	switch {
	case command[0] != "axe-submit":
		return command
	case len(command) == 1:
		return []string{"axe", "submit"}
	}
	return append([]string{"axe"}, command[1:]...)
}

// flagSections returns the flags of each section of the page, with their
// defaults, by heading. shared holds the flags in Shared flags and all sections
// after it.
func flagSections(p page) (sections map[string]map[string]string, shared map[string]string) {
	sections, shared = map[string]map[string]string{}, map[string]string{"help": "", "version": ""}
	name, inShared := "", false
	_, prose := p.blocks()
	for _, line := range prose {
		if m := heading.FindStringSubmatch(line); m != nil {
			name = m[1]
			inShared = inShared || name == "Shared flags"
			sections[name] = map[string]string{}
		}
		if !strings.HasPrefix(line, "| `-") {
			continue
		}
		cells := strings.Split(line, " | ")
		for _, m := range flagOfPage.FindAllStringSubmatch(cells[0], -1) {
			sections[name][m[1]] = cells[1]
			if inShared {
				shared[m[1]] = cells[1]
			}
		}
	}
	return sections, shared
}

// visit calls fn for a command and all below it, with its flags and their
// defaults. It checks that each help page fits into 80 columns.
func visit(t *testing.T, bin string, command []string, fn func(command []string, flags map[string]string)) {
	t.Helper()
	help := output(t, bin, append(slices.Clone(command), "--help")...)
	for line := range strings.Lines(help) {
		// Cobra writes the pages of completion. A default may be a long
		// path.
		foreign := slices.Contains(command, "completion") || strings.Contains(line, `(default "/`)
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 && !foreign {
			t.Errorf("help of %v: %d columns, want at most 80: %s", command, n, line)
		}
	}
	_, all, _ := strings.Cut(help, "Flags:\n")
	all = wrappedFlag.ReplaceAllString(all, " ")
	flags := map[string]string{}
	for _, m := range flagOfHelp.FindAllStringSubmatch(all, -1) {
		flags[m[1]] = m[2]
	}
	fn(command, flags)
	if _, list, ok := strings.Cut(help, "Available Commands:\n"); ok {
		list, _, _ = strings.Cut(list, "\n\n")
		for _, m := range subcommand.FindAllStringSubmatch(list, -1) {
			if m[1] != "help" && m[1] != "completion" {
				visit(t, bin, append(slices.Clone(command), m[1]), fn)
			}
		}
	}
}

// output runs a program and returns its standard output.
func output(t *testing.T, bin string, command ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, command[0]), command[1:]...).Output()
	if err != nil {
		t.Fatalf("%v: %v", command, err)
	}
	return string(out)
}

// TestDemoStyles: make demo refuses an unknown STYLE and names the known ones.
// It writes the answer to a file, since a long answer would scroll the tree
// away.
func TestDemoStyles(t *testing.T) {
	demo := func(style string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "make", "-C", "..", "-n", "demo", "STYLE="+style)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	const want = `no STYLE "nonsense": want call, spawn, mail, slash, supervised or tools`
	if out, err := demo("nonsense"); err == nil || !strings.Contains(out, want) {
		t.Errorf("STYLE=nonsense: got %v, %s; want a failure with %s", err, out, want)
	}
	for _, style := range []string{"call", "spawn", "mail", "slash", "supervised", "tools"} {
		if out, err := demo(style); err != nil || !strings.Contains(out, " >bin/answer.md\n") {
			t.Errorf("STYLE=%s: got %v, %s; want a command that writes bin/answer.md", style, err, out)
		}
	}
}

package tool_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
)

// slashCall returns a call of a tool, with pairs of argument names and values.
func slashCall(name string, pairs ...string) provider.ToolCall {
	c := provider.ToolCall{Name: name, Arguments: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		c.Arguments[pairs[i]] = pairs[i+1]
	}
	return c
}

// fork returns a call of fork with a prompt.
func fork(prompt string) provider.ToolCall { return slashCall("fork", "prompt", prompt) }

// send returns a call of send.
func send(to, message string) provider.ToolCall {
	return slashCall("send", "to", to, "message", message)
}

// wrong returns the call of a malformed command, without its error.
// TestSlashTeaches has the errors.
func wrong(line string) provider.ToolCall { return slashCall("slash", "line", line) }

// numbered gives calls the ids of ParseSlash, and returns them.
func numbered(calls []provider.ToolCall) []provider.ToolCall {
	for i := range calls {
		calls[i].ID = fmt.Sprintf("slash-%d", i+1)
	}
	return calls
}

// parsed returns the calls in a text, without their raw arguments. It checks
// that the calls are the same after they were stored in a run's log.
func parsed(t interface {
	Helper()
	Fatal(args ...any)
}, text string,
) []provider.ToolCall {
	t.Helper()
	calls := tool.ParseSlash(text)
	stored, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	var back []provider.ToolCall
	if err := json.Unmarshal(stored, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(calls, back); diff != "" {
		t.Fatal("calls read back from the log (-parsed +back):\n" + diff)
	}
	for i := range calls {
		calls[i].Raw = nil
	}
	return calls
}

// TestSlash: the lines that are commands, and the call that each of them makes.
// A malformed command makes a call of slash, with the line and an error.
func TestSlash(t *testing.T) {
	var (
		inherit = slashCall("fork")
		mail    = slashCall("check_mail")
	)
	for _, test := range []struct {
		name, text string
		want       []provider.ToolCall
	}{
		{"nothing", "", nil},
		{"prose", "I could use /slash fork here.\nWhat is /slash?\n`/slash fork`", nil},

		// Lines that are commands, and lines that are not.
		{"fork", "/slash fork", []provider.ToolCall{inherit}},
		{"blanks behind it", "/slash \t fork \t ", []provider.ToolCall{inherit}},
		{"tab behind it", "/slash\tfork", []provider.ToolCall{inherit}},
		{"three spaces before it", "   /slash fork", []provider.ToolCall{inherit}},
		{"four spaces before it", "    /slash fork", nil},
		{"a tab before it", "\t/slash fork", nil},
		{"a space and a tab before it", " \t/slash fork", nil},
		{"quoted", "> /slash fork\n>/slash fork", nil},
		{"another word", "/slashes fork\n/slash-fork\n/slash/fork\n/slash\"fork\"", nil},
		{
			"a fence", "```\n/slash fork \"x\"\n```\n```bash\n/slash check-mail\n```",
			[]provider.ToolCall{fork("x"), mail},
		},
		{
			"case of a name", "/slash FORK\n/slash Check-Mail\n/slash Kill R-1",
			[]provider.ToolCall{inherit, mail, slashCall("kill", "id", "R-1")},
		},
		{"case of /slash", "/Slash fork\n/SLASH fork", nil},
		{
			"several with prose around them",
			"I split this.\n\n/slash fork \"one\"\n/slash fork \"two\"\n# Later, check mail.\n" +
				"/slash check-mail\nThat is all.",
			[]provider.ToolCall{fork("one"), fork("two"), mail},
		},
		{
			"CRLF",
			"So:\r\n/slash fork\r\n/slash fork \"x\"\r\n/slash send r-1-0 do more\r\n/slash wait r-1-0\r\n" +
				"/slash check-mail\r\n/slash kill r-1-0\r\n/slash kill\r\n",
			[]provider.ToolCall{
				inherit, fork("x"), send("r-1-0", "do more"), slashCall("wait", "from", `["r-1-0"]`), mail,
				slashCall("kill", "id", "r-1-0"), wrong("/slash kill"),
			},
		},

		// Each command.
		{"send", `/slash send r-1-0 "go on"`, []provider.ToolCall{send("r-1-0", "go on")}},
		{
			"send without quotes", "/slash send r-1-0   do \"it\" more \nx",
			[]provider.ToolCall{send("r-1-0", `do "it" more`)},
		},
		{"send to anything", "/slash send <ID> x", []provider.ToolCall{send("<ID>", "x")}},
		{"send without a message", "/slash send r-1-0\nhello", []provider.ToolCall{wrong("/slash send r-1-0")}},
		{"send an empty message", `/slash send r-1-0 ""`, []provider.ToolCall{wrong(`/slash send r-1-0 ""`)}},
		{"send without an ID", "/slash send\nr-1-0 x", []provider.ToolCall{wrong("/slash send")}},
		{"check_mail", "/slash check_mail", []provider.ToolCall{mail}},
		{"check-mail with an ID", "/slash check-mail r-1-0", []provider.ToolCall{wrong("/slash check-mail r-1-0")}},
		{"kill", "/slash kill r-1-0", []provider.ToolCall{slashCall("kill", "id", "r-1-0")}},
		{"kill without an ID", "/slash kill\nr-1-0", []provider.ToolCall{wrong("/slash kill")}},
		{"kill two", "/slash kill r-1-0 r-1-1", []provider.ToolCall{wrong("/slash kill r-1-0 r-1-1")}},
		{"wait", "/slash wait\nr-1-0", []provider.ToolCall{slashCall("wait")}},
		{
			"wait for some", "/slash wait r-1-0 \tr-1-1",
			[]provider.ToolCall{slashCall("wait", "from", `["r-1-0","r-1-1"]`)},
		},
		{"wait for a time", "/slash wait --timeout 60", []provider.ToolCall{slashCall("wait", "timeout", "60")}},
		{
			"wait for some for a time", "/slash wait --timeout 60 r-1-0",
			[]provider.ToolCall{slashCall("wait", "timeout", "60", "from", `["r-1-0"]`)},
		},
		{"a strange ID", `/slash wait a"b\`, []provider.ToolCall{slashCall("wait", "from", `["a\"b\\"]`)}},
		{"seconds are missing", "/slash wait --timeout\n60", []provider.ToolCall{wrong("/slash wait --timeout")}},
		{"an ID for seconds", "/slash wait --timeout r-1-0", []provider.ToolCall{wrong("/slash wait --timeout r-1-0")}},
		{"zero seconds", "/slash wait --timeout 0", []provider.ToolCall{wrong("/slash wait --timeout 0")}},
		{
			"too many seconds", "/slash wait --timeout 2147483648",
			[]provider.ToolCall{wrong("/slash wait --timeout 2147483648")},
		},
		{
			"timeout behind", "/slash wait r-1-0 --timeout 60",
			[]provider.ToolCall{wrong("/slash wait r-1-0 --timeout 60")},
		},
		{"timeout with =", "/slash wait --timeout=60", []provider.ToolCall{wrong("/slash wait --timeout=60")}},
		{"no command", "/slash\n/slash \nfork", []provider.ToolCall{wrong("/slash"), wrong("/slash ")}},
		{
			"unknown", "  /slash foo bar\n/slash fork\"x\"",
			[]provider.ToolCall{wrong("  /slash foo bar"), wrong(`/slash fork"x"`)},
		},

		// Quotes.
		{"double", `/slash fork "it's “so”"  `, []provider.ToolCall{fork("it's “so”")}},
		{"single", `/slash fork 'say "x" \n'`, []provider.ToolCall{fork(`say "x" \n`)}},
		{"curly", `/slash fork “it's "so" \n”`, []provider.ToolCall{fork(`it's "so" \n`)}},
		{"none", "/slash fork do it: \"now\" \t", []provider.ToolCall{fork(`do it: "now"`)}},
		{
			"escapes", `/slash fork "\"a\" \\n \n \t \d \"`,
			[]provider.ToolCall{wrong(`/slash fork "\"a\" \\n \n \t \d \"`)},
		},
		{"escapes, closed", `/slash fork "\"a\" \\n \n \t \d \\"`, []provider.ToolCall{fork("\"a\" \\n \n \t \\d \\")}},
		{"blanks in quotes are kept", `/slash send r-1-0 " x	"`, []provider.ToolCall{send("r-1-0", " x	")}},
		{
			"several lines", "/slash fork \"one\r\n\n/slash kill r-1-0\n    three\"\n/slash check-mail",
			[]provider.ToolCall{fork("one\r\n\n/slash kill r-1-0\n    three"), mail},
		},
		{
			"several lines, single", "/slash fork '\none\n'\n/slash check-mail",
			[]provider.ToolCall{fork("\none\n"), mail},
		},
		{
			"several lines, curly", "/slash fork “\none\n”\n/slash check-mail",
			[]provider.ToolCall{fork("\none\n"), mail},
		},
		{
			"an empty prompt", "/slash fork \"\"\n/slash fork ''\n/slash fork “”",
			[]provider.ToolCall{wrong(`/slash fork ""`), wrong("/slash fork ''"), wrong("/slash fork “”")},
		},
		{
			"a blank prompt", "/slash fork \" \n\t\"\n/slash check-mail",
			[]provider.ToolCall{wrong(`/slash fork " `), mail},
		},
		{"text behind the quote", `/slash fork "a" b`, []provider.ToolCall{wrong(`/slash fork "a" b`)}},
		{
			"a quote inside the quote", `/slash send r-1-0 'don't'`,
			[]provider.ToolCall{wrong(`/slash send r-1-0 'don't'`)},
		},
		{"not closed", "/slash fork \"a\n/slash check-mail\nb", []provider.ToolCall{wrong(`/slash fork "a`), mail}},
		{
			"not closed, single", "/slash fork 'a\n/slash check-mail\nb",
			[]provider.ToolCall{wrong(`/slash fork 'a`), mail},
		},
		{
			"not closed, curly", "/slash fork “a\"\n/slash check-mail\nb",
			[]provider.ToolCall{wrong(`/slash fork “a"`), mail},
		},
		{
			"closed with the wrong mark", "/slash fork “a“\n/slash check-mail",
			[]provider.ToolCall{wrong("/slash fork “a“"), mail},
		},
		{"nothing but a quote", "/slash fork \"\n", []provider.ToolCall{wrong(`/slash fork "`)}},
		{
			"each not closed", "/slash fork \"a\n/slash fork \"b\n",
			[]provider.ToolCall{wrong(`/slash fork "a`), wrong(`/slash fork "b`)},
		},
		{
			"closed by the next command", "/slash fork \"a\n/slash send r-1-0 \"b\"\n",
			[]provider.ToolCall{wrong(`/slash fork "a`), send("r-1-0", "b")},
		},
		{
			"closed by the next command, curly", "/slash fork “a\n/slash fork “b”\n",
			[]provider.ToolCall{wrong(`/slash fork “a`), fork("b")},
		},
		{
			"text behind a quote of several lines", "/slash fork \"a\n/slash check-mail\n\" b",
			[]provider.ToolCall{wrong(`/slash fork "a`), mail},
		},

		// Bytes that are not UTF-8, and long lines.
		{
			"invalid UTF-8", "\xff\n/slash fork \"\xff<&>\u2028\"\n/slash k\xffll",
			[]provider.ToolCall{fork("\uFFFD<&>\u2028"), wrong("/slash k\uFFFDll")},
		},
		{
			"200 bytes", "/slash x" + strings.Repeat("é", 96),
			[]provider.ToolCall{wrong("/slash x" + strings.Repeat("é", 96))},
		},
		{
			"201 bytes", "/slash xy" + strings.Repeat("é", 96),
			[]provider.ToolCall{wrong("/slash xy" + strings.Repeat("é", 95))},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := parsed(t, test.text)
			for _, c := range got {
				if c.Name == "slash" && c.Arguments["error"] == "" {
					t.Errorf("the malformed command %q has no error", c.Arguments["line"])
				}
				delete(c.Arguments, "error")
			}
			if diff := cmp.Diff(numbered(test.want), got); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSlashTeaches: the error of a malformed command says what is wrong, how to
// write the command, and gives an example, word for word.
func TestSlashTeaches(t *testing.T) {
	const (
		all = `The commands are: /slash fork "PROMPT", or only /slash fork for a child that inherits your context; ` +
			`/slash send ID "MESSAGE"; /slash check-mail; ` +
			`/slash wait, or /slash wait ID ID, or /slash wait --timeout SECONDS ID ID; /slash kill ID`
		forkForm = ` Write: /slash fork "PROMPT", or only /slash fork for a child that inherits your context. ` +
			`For example: /slash fork "Find out why the login test fails"`
		sendForm = ` Write: /slash send ID "MESSAGE". For example: /slash send r-1-0 "Now mend it"`
		mailForm = ` Write: /slash check-mail. For example: /slash check-mail`
		waitForm = ` Write: /slash wait, or /slash wait ID ID, or /slash wait --timeout SECONDS ID ID. ` +
			`For example: /slash wait --timeout 60 r-1-0 r-1-1`
		killForm = ` Write: /slash kill ID. For example: /slash kill r-1-0`
	)
	for _, test := range []struct{ line, want string }{
		{`/slash`, `/slash error: a command is missing. ` + all},
		{`/slash Foo bar`, `/slash Foo is not known. ` + all},
		{`/slash ` + strings.Repeat("x", 201), `/slash ` + strings.Repeat("x", 200) + ` is not known. ` + all},
		{
			`/slash fork " "`,
			`/slash fork error: the prompt is empty, and a fork without one inherits your context.` + forkForm,
		},
		{`/slash fork "a`, `/slash fork error: the quote is not closed.` + forkForm},
		{
			`/slash fork "a "b" c"`,
			`/slash fork error: there is text behind the closing quote. A " inside a quote is written \".` + forkForm,
		},
		{`/slash send`, `/slash send error: an ID is missing.` + sendForm},
		{`/slash send r-1-0`, `/slash send error: a message is missing.` + sendForm},
		{`/slash CHECK_MAIL now`, `/slash check-mail error: nothing may stand behind it.` + mailForm},
		{`/slash wait --timeout`, `/slash wait error: the seconds are missing.` + waitForm},
		{
			`/slash wait --timeout 1.5`,
			`/slash wait error: the seconds are a whole number, at least 1, and not "1.5".` + waitForm,
		},
		{
			`/slash wait r-1-0 --timeout 5`,
			`/slash wait error: "--timeout" is no ID, and the timeout stands before the IDs.` + waitForm,
		},
		{`/slash kill`, `/slash kill error: an ID is missing.` + killForm},
		{`/slash kill r-1-0 now`, `/slash kill error: nothing may stand behind the ID.` + killForm},
	} {
		got := parsed(t, test.line)
		line := test.line[:min(len(test.line), 200)]
		want := numbered([]provider.ToolCall{slashCall("slash", "line", line, "error", test.want)})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.line, diff)
		}
	}
}

// TestSlashExamples: the example in the error of a malformed command is a
// command that parses.
func TestSlashExamples(t *testing.T) {
	for _, line := range []string{
		`/slash fork ""`, "/slash send", "/slash check-mail x", "/slash wait --timeout", "/slash kill",
	} {
		_, example, _ := strings.Cut(parsed(t, line)[0].Arguments["error"], "For example: ")
		if got := parsed(t, example); len(got) != 1 || got[0].Name == "slash" {
			t.Errorf("the example for %s is %q, which makes %v, want one command", line, example, got)
		}
	}
}

// TestSlashOfAnyLength: 20,000 commands with an open quote come before a long
// text. The text is not read again for each of them, which would take minutes.
// A long line is one command.
func TestSlashOfAnyLength(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	const n = 20_000
	filler := strings.Repeat("é", 2<<20)
	for _, open := range []string{"“", `"`, "'"} {
		calls := tool.ParseSlash(strings.Repeat("/slash fork "+open+"x\n", n) + filler + "\n” junk")
		if len(calls) != n ||
			slices.ContainsFunc(calls, func(c provider.ToolCall) bool { return c.Name != "slash" }) {
			t.Errorf("%d commands with an open %s make %d calls, want as many malformed ones", n, open, len(calls))
		}
	}
	if got := tool.ParseSlash("/slash fork " + filler); len(got) != 1 || got[0].Arguments["prompt"] != filler {
		t.Errorf("a long line makes %d calls, want one fork with the rest of the line as its prompt", len(got))
	}
}

// quoting has the ways to write a text as an argument: with double quotes and
// two ways to escape, with single and with curly quotes, and without quotes. Ok
// is false if the text cannot be written in this way.
var quoting = []func(s string) (argument string, ok bool){
	func(s string) (string, bool) {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`, true
	},
	func(s string) (string, bool) {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`, true
	},
	func(s string) (string, bool) { return "'" + s + "'", !strings.Contains(s, "'") },
	func(s string) (string, bool) { return "“" + s + "”", !strings.ContainsAny(s, "“”") },
	func(s string) (string, bool) {
		return s, s == strings.TrimSpace(s) && !strings.Contains(s, "\n") && strings.Trim(s, `"'“`) == s
	},
}

// TestSlashRoundTrip: a text that is written in one of the ways of quoting is
// the argument of its command, whatever lines are around the command.
func TestSlashRoundTrip(t *testing.T) {
	words := rapid.SampledFrom([]string{
		"a", "n", "t", " ", "\t", "\n", "\r\n", `\`, `"`, "'", "“", "”", "<", "é", "\u2028", "```",
		"\n/slash kill r-1-0", "/slash",
	})
	texts := rapid.OneOf(
		rapid.String(),
		rapid.Map(rapid.SliceOf(words), func(s []string) string { return strings.Join(s, "") }),
	).Filter(func(s string) bool { return utf8.ValidString(s) && strings.TrimSpace(s) != "" })
	around := rapid.SampledFrom([]string{"", "Then I go on.", "> /slash kill r-1-0", "```", "    /slash fork"})
	eol := rapid.SampledFrom([]string{"\n", "\r\n"})

	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		var want []provider.ToolCall
		for range rapid.IntRange(1, 4).Draw(t, "commands") {
			b.WriteString(around.Draw(t, "around") + eol.Draw(t, "eol"))
			s := texts.Draw(t, "text")
			argument, ok := rapid.SampledFrom(quoting).Draw(t, "quoting")(s)
			if !ok {
				argument, _ = quoting[0](s)
			}
			if rapid.Bool().Draw(t, "forks") {
				b.WriteString("/slash fork " + argument)
				want = append(want, fork(s))
			} else {
				b.WriteString("/slash send r-1-0 " + argument)
				want = append(want, send("r-1-0", s))
			}
			b.WriteString(eol.Draw(t, "eol"))
		}
		if diff := cmp.Diff(numbered(want), parsed(t, b.String())); diff != "" {
			t.Fatalf("%s\n(-want +got):\n%s", b.String(), diff)
		}
	})
}

// TestTeachesWhatIsOffered: the error of an unknown command names the commands
// that the model was taught, and no others.
func TestTeachesWhatIsOffered(t *testing.T) {
	const want = "/slash stop is not known. The commands are: /slash check-mail; /slash kill ID"
	got := tool.Commands(&provider.Response{Content: "/slash stop r-1-0"}, []string{"kill", "check_mail"})
	if len(got) != 1 || got[0].Arguments["error"] != want {
		t.Errorf("got %+v, want the error %q", got, want)
	}
}

// TestCutCommands: an answer was cut in its last line. A command there is not
// carried out, and the model is told.
func TestCutCommands(t *testing.T) {
	for text, want := range map[string][]provider.ToolCall{
		"/slash kill r-1-1":                       {wrong("/slash kill r-1-1")},
		"/slash kill r-1-1\n":                     {slashCall("kill", "id", "r-1-1")},
		"/slash wait r-1-1\nwell":                 {slashCall("wait", "from", `["r-1-1"]`)},
		"/slash check-mail\n  /slash send r-1 hi": {slashCall("check_mail"), wrong("  /slash send r-1 hi")},
		"/slash fork \"a\nb\"":                    {wrong(`/slash fork "a`)},
	} {
		got := tool.Commands(&provider.Response{Content: text, StopReason: "max_tokens"}, nil)
		for i := range got {
			got[i].Raw = nil
			delete(got[i].Arguments, "error")
		}
		if diff := cmp.Diff(numbered(want), got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// FuzzParseSlash: every text makes calls with ids in order. Each call has a
// known name, and the arguments that it needs, which are not blank.
func FuzzParseSlash(f *testing.F) {
	for _, seed := range []string{
		"/slash fork\n/slash fork \"a\\\"\n\\n\"\n",
		"/slash send r-1-0 'x'\r\n/slash send “",
		"/slash check-mail\n/slash kill a\n/slash foo",
		"/slash wait --timeout 5 a b\n/slash wait\n   /slash wait --timeout\n",
		"/slash fork “\xff”\n/slash fork \"\xff\n/slash \xff",
	} {
		f.Add(seed)
	}
	// The arguments that a call needs, and those that it may have.
	needs := map[string][]string{
		"fork":       {},
		"send":       {"message", "to"},
		"check_mail": {},
		"wait":       {},
		"kill":       {"id"},
		"slash":      {"error", "line"},
	}
	may := map[string][]string{"fork": {"prompt"}, "wait": {"from", "timeout"}}
	f.Fuzz(func(t *testing.T, text string) {
		for i, c := range parsed(t, text) {
			if c.ID != fmt.Sprintf("slash-%d", i+1) {
				t.Errorf("call %d has the id %q, want slash-%d", i, c.ID, i+1)
			}
			need, known := needs[c.Name]
			if !known {
				t.Fatalf("a command makes a call of %q, which is no command", c.Name)
			}
			have := slices.Sorted(maps.Keys(c.Arguments))
			have = slices.DeleteFunc(have, func(k string) bool { return slices.Contains(may[c.Name], k) })
			if !slices.Equal(have, need) {
				t.Errorf("a call of %s has the arguments %v, want %v", c.Name, c.Arguments, need)
			}
			for k, v := range c.Arguments {
				if strings.TrimSpace(v) == "" || !utf8.ValidString(v) {
					t.Errorf("the argument %s of %s is %q, want valid text that is not blank", k, c.Name, v)
				}
			}
			if len(c.Arguments["line"]) > 200 && c.Name == "slash" {
				t.Errorf("a malformed line is kept with %d bytes, want at most 200", len(c.Arguments["line"]))
			}
		}
	})
}

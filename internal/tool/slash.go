package tool

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/text"
	"github.com/axebus/axe/provider"
)

// slashForms are the commands: their names, and their forms as a model is
// taught them. Read puts the text behind the name, up to rest, into args. It
// returns the mistake in that text as wrong, "" if there is none.
var slashForms = []struct {
	name, form, example string
	read                func(s string, args map[string]string) (rest, wrong string)
}{
	{
		"fork", `/slash fork "PROMPT", or only /slash fork for a child that inherits your context`,
		`/slash fork "Find out why the login test fails"`, readFork,
	},
	{"send", `/slash send ID "MESSAGE"`, `/slash send r-1-0 "Now mend it"`, readSend},
	{"check-mail", `/slash check-mail`, `/slash check-mail`, readCheckMail},
	{
		"wait", `/slash wait, or /slash wait ID ID, or /slash wait --timeout SECONDS ID ID`,
		`/slash wait --timeout 60 r-1-0 r-1-1`, readWait,
	},
	{"kill", `/slash kill ID`, `/slash kill r-1-0`, readKill},
}

// parseSlash reads the commands in the text of a model that cannot call tools.
// A command is a line that begins with /slash, with at most three spaces before
// it, inside a fence or not. A line that is indented further, or quoted with >,
// is prose about a command. The document "Sub-Agent Tools" defines the commands,
// but for wait.
//
//	/slash fork                            fork, without arguments
//	/slash fork "PROMPT"                   fork: prompt
//	/slash send ID "MESSAGE"               send: to, message
//	/slash check-mail                      check_mail
//	/slash wait --timeout SECONDS ID ID    wait: timeout (whole seconds), from (a JSON array)
//	/slash kill ID                         kill: id
//
// PROMPT and MESSAGE may have several lines if they stand in quotes: double
// ones, inside which \" \\ \n \t are escapes; single ones; curly ones, with no
// other curly double quote inside. Without quotes they end with the line.
//
// No command vanishes. A command that is unknown or malformed becomes a call of
// "slash", with at most 200 bytes of its line and an error that teaches. It
// takes only its own line, so that an open quote does not swallow the commands
// below it. Calls are numbered from slash-1 in the order of the text. Bytes
// that are not UTF-8 become U+FFFD, since they would not survive being stored.
func parseSlash(written string, offered []string) []provider.ToolCall {
	var calls []provider.ToolCall
	written = strings.ToValidUTF8(written, "\uFFFD")
	for written != "" {
		line, next, _ := strings.Cut(written, "\n")
		if behind, ok := cutSlash(line); ok {
			name, args, rest, wrong := readSlash(written[len(line)-len(behind):], offered)
			if wrong == "" {
				_, next, _ = strings.Cut(rest, "\n")
				calls = append(calls, slashCall(len(calls)+1, name, args))
			} else {
				calls = append(calls, malformed(len(calls)+1, clip(strings.TrimSuffix(line, "\r")), wrong))
			}
		}
		written = next
	}
	return calls
}

// slashCall is the n-th command of a text as a tool call.
func slashCall(n int, name string, args map[string]string) provider.ToolCall {
	raw, _ := json.Marshal(args) // strings always marshal
	return provider.NewToolCall(fmt.Sprintf("slash-%d", n), name, raw)
}

// malformed is a tool call for a command that is unknown or malformed.
func malformed(n int, line, wrong string) provider.ToolCall {
	return slashCall(n, malformedCommand, map[string]string{"line": line, "error": wrong})
}

// malformedCommand is the name of the tool call for a malformed command.
const malformedCommand = "slash"

// maxCommands bounds the commands of one text.
const maxCommands = 50

// wrongCut is the error for a command in which the answer was cut.
const wrongCut = "/slash error: your message was cut in this command, at its limit of output tokens"

// Commands returns the commands in the text of an answer as tool calls. Of too
// many it returns the first ones, and a call that says so. If the answer was
// cut, its last line is no command: the end of an id may be missing. Offered
// are the tools of the commands that the model was taught.
func Commands(resp *provider.Response, offered []string) []provider.ToolCall {
	written, cut := strings.ToValidUTF8(resp.Content, "\uFFFD"), ""
	if resp.Truncated() {
		end := strings.LastIndex(written, "\n") + 1
		written, cut = written[:end], written[end:]
	}
	calls := parseSlash(written, offered)
	if _, ok := cutSlash(cut); ok {
		calls = append(calls, malformed(len(calls)+1, clip(cut), wrongCut))
	}
	if len(calls) <= maxCommands {
		return calls
	}
	const form = "/slash error: %d commands, and at most %d of one message are carried out: the others were not"
	return append(calls[:maxCommands],
		malformed(maxCommands+1, "/slash", fmt.Sprintf(form, len(calls), maxCommands)))
}

// toolOf returns the name of a command's tool.
func toolOf(command string) string { return strings.ReplaceAll(command, "-", "_") }

// isSlashCall reports whether a tool call was a line of the model's text.
func (c Caller) isSlashCall(tc provider.ToolCall) bool {
	return len(c.Start.Slash) > 0 && strings.HasPrefix(tc.ID, "slash-")
}

// splitSlashResults separates the commands of a turn from its other tool calls,
// which come first. Called are the others. Written has the result of each
// command below its line. Texts of other agents are JSON strings in it, so none
// of them can look like the result of another command.
func splitSlashResults(t run.Turn, results []provider.ToolResult) (called []provider.ToolCall, written string) {
	var lines []string
	for i, tc := range t.Entry.Answer.ToolCalls {
		switch {
		case !t.Entry.CallsOf(i)[0].Slash:
			called = append(called, tc)
			continue
		case tc.Name == malformedCommand:
			lines = append(lines, tc.Arguments["line"])
		default:
			lines = append(lines, "/slash "+strings.ReplaceAll(tc.Name, "_", "-"))
		}
		lines = append(lines, results[i].Content, "")
	}
	if lines == nil {
		return called, ""
	}
	return called, "Results of your commands, in their order:\n\n" + strings.Join(lines[:len(lines)-1], "\n")
}

// formsOf returns the forms of the commands of some tools.
func formsOf(tools []string) (forms []string) {
	for _, f := range slashForms {
		if slices.Contains(tools, toolOf(f.name)) {
			forms = append(forms, f.form)
		}
	}
	return forms
}

// cutSlash cuts /slash off a line; ok is false if the line is not a command.
func cutSlash(line string) (behind string, ok bool) {
	unindented := strings.TrimLeft(line, " ")
	behind, ok = strings.CutPrefix(unindented, "/slash")
	return behind, ok && len(line)-len(unindented) <= 3 &&
		(behind == "" || strings.IndexFunc(behind, unicode.IsSpace) == 0)
}

// readSlash reads the command at the beginning of a text, behind /slash, and
// returns the text behind it as rest. Wrong is the error for the model, "" if
// the command is well-formed.
func readSlash(s string, offered []string) (name string, args map[string]string, rest, wrong string) {
	written, s := word(s)
	name = strings.ReplaceAll(strings.ToLower(written), "_", "-")
	for _, f := range slashForms {
		if f.name == name {
			args = map[string]string{}
			rest, wrong = f.read(s, args)
			if wrong != "" {
				wrong = fmt.Sprintf("/slash %s error: %s. Write: %s. For example: %s", name, wrong, f.form, f.example)
			}
			return toolOf(name), args, rest, wrong
		}
	}
	wrong = "/slash error: a command is missing"
	if written != "" {
		wrong = "/slash " + clip(written) + " is not known"
	}
	return "", nil, "", wrong + ". The commands are: " + strings.Join(formsOf(offered), "; ")
}

func readFork(s string, args map[string]string) (rest, wrong string) {
	if first, _ := word(s); first == "" {
		return s, ""
	}
	args["prompt"], rest, wrong = quoted(s, "the prompt is empty, and a fork without one inherits your context")
	return rest, wrong
}

func readSend(s string, args map[string]string) (rest, wrong string) {
	args["to"], s = word(s)
	if args["to"] == "" {
		return "", "an ID is missing"
	}
	args["message"], rest, wrong = quoted(s, "a message is missing")
	return rest, wrong
}

func readCheckMail(s string, _ map[string]string) (rest, wrong string) {
	if first, _ := word(s); first != "" {
		return "", "nothing may stand behind it"
	}
	return s, ""
}

func readKill(s string, args map[string]string) (rest, wrong string) {
	args["id"], s = word(s)
	if args["id"] == "" {
		return "", "an ID is missing"
	}
	if more, _ := word(s); more != "" {
		return "", "nothing may stand behind the ID"
	}
	return s, ""
}

func readWait(s string, args map[string]string) (rest, wrong string) {
	words := strings.Fields(lineOf(s))
	if len(words) > 0 && words[0] == "--timeout" {
		if len(words) == 1 {
			return "", "the seconds are missing"
		}
		if n, err := strconv.ParseUint(words[1], 10, 31); err != nil || n == 0 {
			return "", fmt.Sprintf("the seconds are a whole number, at least 1, and not %q", clip(words[1]))
		}
		args["timeout"] = words[1]
		words = words[2:]
	}
	for _, id := range words {
		if strings.HasPrefix(id, "--") {
			return "", fmt.Sprintf("%q is no ID, and the timeout stands before the IDs", clip(id))
		}
	}
	if len(words) > 0 {
		from, _ := json.Marshal(words) // strings always marshal
		args["from"] = string(from)
	}
	return s, ""
}

// quoted reads the text argument at the beginning of s, the last one of its
// command. It returns the mistake in it as wrong, "" if there is none. Missing
// is the mistake of a blank argument.
//
// A quote ends at the next mark of its kind, even if that belongs to a later
// command. So each byte is looked at once for each kind of quote, however many
// quotes are left open.
func quoted(s, missing string) (argument, rest, wrong string) {
	s = strings.TrimLeftFunc(s, blank)
	closed := true
	switch {
	case strings.HasPrefix(s, `"`):
		argument, rest, closed = unescape(s[1:])
	case strings.HasPrefix(s, "'"):
		argument, rest, closed = strings.Cut(s[1:], "'")
	case strings.HasPrefix(s, "“"):
		s = s[len("“"):]
		i := strings.IndexAny(s, "“”")
		closed = i >= 0 && strings.HasPrefix(s[i:], "”")
		if closed {
			argument = s[:i]
			rest = s[i+len("”"):]
		}
	default:
		line := lineOf(s)
		argument = strings.TrimSpace(line)
		rest = s[len(line):]
	}
	switch {
	case !closed:
		wrong = "the quote is not closed"
	case strings.TrimSpace(lineOf(rest)) != "":
		wrong = `there is text behind the closing quote. A " inside a quote is written \"`
	case strings.TrimSpace(argument) == "":
		wrong = missing
	}
	return argument, rest, wrong
}

// unescape reads up to the next " without a backslash.
func unescape(s string) (argument, rest string, closed bool) {
	var b strings.Builder
	for {
		i := strings.IndexAny(s, `"\`)
		if i < 0 {
			return "", "", false
		}
		b.WriteString(s[:i])
		if s[i] == '"' {
			return b.String(), s[i+1:], true
		}
		s = s[i+1:]
		switch {
		case strings.HasPrefix(s, "n"):
			b.WriteByte('\n')
		case strings.HasPrefix(s, "t"):
			b.WriteByte('\t')
		case strings.HasPrefix(s, `"`), strings.HasPrefix(s, `\`):
			b.WriteByte(s[0])
		default:
			b.WriteByte('\\')
			continue
		}
		s = s[1:]
	}
}

// word returns the first word of a line, "" if the line has none, and the text
// behind it.
func word(s string) (first, rest string) {
	s = strings.TrimLeftFunc(s, blank)
	if i := strings.IndexFunc(s, unicode.IsSpace); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// blank reports whether a character is a space inside a line.
func blank(r rune) bool { return r != '\n' && unicode.IsSpace(r) }

func lineOf(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// clip returns at most the first 200 bytes of a text.
func clip(s string) string { return text.Head(s, 200) }

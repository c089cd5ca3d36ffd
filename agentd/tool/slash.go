package tool

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

// slashForms are the commands: their names and the way they are written, as a
// model is taught it. read puts what stands behind the name, up to rest, into
// args and says what is wrong with it, "" if nothing is.
var slashForms = []struct {
	name, form, example string
	read                func(s string, args map[string]string) (rest, wrong string)
}{
	{
		"fork",
		`/slash fork "PROMPT", or only /slash fork for a child that inherits your context`,
		`/slash fork "Find out why the login test fails"`,
		readFork,
	},
	{"send", `/slash send ID "MESSAGE"`, `/slash send r-1-0 "Now mend it"`, readSend},
	{"check-mail", `/slash check-mail`, `/slash check-mail`, readCheckMail},
	{
		"wait",
		`/slash wait, or /slash wait ID ID, or /slash wait --timeout SECONDS ID ID`,
		`/slash wait --timeout 60 r-1-0 r-1-1`,
		readWait,
	},
	{"kill", `/slash kill ID`, `/slash kill r-1-0`, readKill},
}

// ParseSlash reads the commands in the text of a model that cannot call tools:
// the lines that begin with /slash, with at most three spaces before it, be it
// in a fence or not. What is indented further or quoted with > is talk about a
// command. (The commands are those of the design document of the sub-agents'
// tools, with wait beside them.)
//
//	/slash fork                            fork, without arguments
//	/slash fork "PROMPT"                   fork: prompt
//	/slash send ID "MESSAGE"               send: to, message
//	/slash check-mail                      check_mail
//	/slash wait --timeout SECONDS ID ID    wait: timeout, whole seconds, and from, a JSON array, if they are written
//	/slash kill ID                         kill: id
//
// PROMPT and MESSAGE may go on over several lines if they stand in quotes:
// double ones, inside which \" \\ \n \t are escapes; single ones; curly ones,
// with no other curly double quote inside. Without quotes they end with the
// line.
//
// No command vanishes. One that is not known or not well-formed is a call of
// "slash", with its line, at most 200 bytes of it, and an error that teaches.
// It takes no more than its line, so that a quote that was not closed does not
// swallow the commands below it. Calls are numbered in the order of the text,
// from slash-1 on. Bytes that are no UTF-8 become U+FFFD.
func ParseSlash(text string) []provider.ToolCall {
	var calls []provider.ToolCall
	// they would not survive being stored
	text = strings.ToValidUTF8(text, "\uFFFD")
	for text != "" {
		line, next, _ := strings.Cut(text, "\n")
		if behind, ok := slashed(line); ok {
			name, args, rest, why := readSlash(text[len(line)-len(behind):])
			if why == "" {
				_, next, _ = strings.Cut(rest, "\n")
			} else {
				name, args = malformedCommand, map[string]string{"line": clip(strings.TrimSuffix(line, "\r")), "error": why}
			}
			raw, _ := json.Marshal(args) // strings always marshal
			calls = append(calls, provider.NewToolCall(fmt.Sprintf("slash-%d", len(calls)+1), name, raw))
		}
		text = next
	}
	return calls
}

// malformedCommand is the name of a call that stands for a line which is no
// command that could be carried out.
const malformedCommand = "slash"

// maxCommands is how many commands of one text are carried out.
const maxCommands = 50

// Commands are the commands in a text, as ParseSlash reads them, and of too
// many the first ones.
func Commands(text string) []provider.ToolCall {
	calls := ParseSlash(text)
	if len(calls) <= maxCommands {
		return calls
	}
	raw, _ := json.Marshal(
		map[string]string{
			"line": "/slash",
			"error": fmt.Sprintf(
				"/slash error: %d commands, and at most %d of one message are carried out: the others were not",
				len(calls),
				maxCommands,
			),
		},
	)
	return append(
		calls[:maxCommands],
		provider.NewToolCall(fmt.Sprintf("slash-%d", maxCommands+1), malformedCommand, raw),
	)
}

// toolOf is the name of a command's tool.
func toolOf(command string) string { return strings.ReplaceAll(command, "-", "_") }

// spoken reports whether a tool call was a line of the model's text.
func (l Caller) spoken(tc provider.ToolCall) bool {
	return l.Start != nil && len(l.Start.Slash) > 0 && strings.HasPrefix(tc.ID, "slash-")
}

// spoken takes the commands out of a turn's tool calls, which they stand
// behind. What came of them is text, as they were: each with its line, and what
// other agents have written as JSON, which nothing in it can break out of.
func spoken(t run.Turn, results []provider.ToolResult) (called []provider.ToolCall, said string) {
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

// slashed is what stands behind /slash on a line; ok is false if the line is no
// command.
func slashed(line string) (behind string, ok bool) {
	unindented := strings.TrimLeft(line, " ")
	behind, ok = strings.CutPrefix(unindented, "/slash")
	return behind, ok && len(line)-len(unindented) <= 3 &&
		(behind == "" || strings.IndexFunc(behind, unicode.IsSpace) == 0)
}

// readSlash reads the command at the beginning of a text, /slash itself left
// out, up to rest. why is the error for the model if there is none that could
// be carried out.
func readSlash(s string) (name string, args map[string]string, rest, why string) {
	written, s := word(s)
	name = strings.ReplaceAll(strings.ToLower(written), "_", "-")
	forms := make([]string, len(slashForms))
	for i, f := range slashForms {
		if f.name == name {
			args = map[string]string{}
			rest, why = f.read(s, args)
			if why != "" {
				why = fmt.Sprintf("/slash %s error: %s. Write: %s. For example: %s", name, why, f.form, f.example)
			}
			return toolOf(name), args, rest, why
		}
		forms[i] = f.form
	}
	why = "/slash error: a command is missing"
	if written != "" {
		why = "/slash " + clip(written) + " is not known"
	}
	return "", nil, "", why + ". The commands are: " + strings.Join(forms, "; ")
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
		args["timeout"], words = words[1], words[2:]
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

// quoted reads the text argument at the beginning of s, which has to be the
// last of its command, and says what is wrong with it, "" if nothing is.
// missing is said of a blank one.
//
// A quote ends at the next mark of its kind, and that of a later command is
// one: however many quotes are left open, a byte is looked at once for each
// kind.
func quoted(s, missing string) (text, rest, wrong string) {
	s = strings.TrimLeftFunc(s, blank)
	closed := true
	switch {
	case strings.HasPrefix(s, `"`):
		text, rest, closed = unescape(s[1:])
	case strings.HasPrefix(s, "'"):
		text, rest, closed = strings.Cut(s[1:], "'")
	case strings.HasPrefix(s, "“"):
		s = s[len("“"):]
		i := strings.IndexAny(s, "“”")
		if closed = i >= 0 && strings.HasPrefix(s[i:], "”"); closed {
			text, rest = s[:i], s[i+len("”"):]
		}
	default:
		line := lineOf(s)
		text, rest = strings.TrimSpace(line), s[len(line):]
	}
	switch {
	case !closed:
		wrong = "the quote is not closed"
	case strings.TrimSpace(lineOf(rest)) != "":
		wrong = `there is text behind the closing quote. A " inside a quote is written \"`
	case strings.TrimSpace(text) == "":
		wrong = missing
	}
	return text, rest, wrong
}

// unescape reads up to the next " without a backslash.
func unescape(s string) (text, rest string, closed bool) {
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

// word is the first word of a line and what stands behind it, "" if the line
// has none.
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

// clip is at most the first 200 bytes of a valid text; a character that would
// be torn is left out.
func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), 200)], "") }

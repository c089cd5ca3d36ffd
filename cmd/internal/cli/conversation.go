package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/text"
	"github.com/axebus/axe/price"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// MessageLine is a message as axe log -o json prints it.
type MessageLine struct {
	Tree  subjects.Tree  `json:"tree"`
	Path  subjects.Path  `json:"path"`
	Agent subjects.Agent `json:"agent"`
	client.Message
	price.Line
}

// MessageLineOf describes a message.
func MessageLineOf(m client.Message, prices price.Table) MessageLine {
	return MessageLine{
		Tree: m.Run.Tree, Path: m.Run.Path, Agent: m.Run.Agent, Message: m, Line: messageCost(m, prices).Line(),
	}
}

// messageCost is the cost of an answer of a model.
func messageCost(m client.Message, prices price.Table) price.Cost {
	if m.Role != client.RoleAssistant {
		return price.Cost{} // those of a run below count there
	}
	return prices.Cost(map[string]provider.Usage{m.Model: m.Usage})
}

// MessagePrinter prints conversations for people.
type MessagePrinter struct {
	W      io.Writer
	Colour bool
	// Several says that messages of several runs are printed: each names
	// its run.
	Several bool
	// Full prints long texts whole. Otherwise a text has at most
	// maxTextLines lines.
	Full bool
	// Prices are those of models. Without any no cost is printed.
	Prices price.Table
}

// maxTextLines is the number of lines of a text that is not printed whole.
const maxTextLines = 40

// Print prints one message: a line with its time and its origin, and its text
// below.
func (p MessagePrinter) Print(m client.Message) error {
	l := &line{colour: p.Colour, room: 1 << 20}
	l.add(dim, "", m.Time.Local().Format("15:04:05.000"))
	if p.Several {
		l.add("", " ", m.Run.Path.String())
	}
	l.add(roleStyle(m), " ", heading(m))
	l.add(dim, "  ", strings.Join(measures(m, p.Prices), ", "))
	var b strings.Builder
	b.WriteString(l.String() + "\n")
	shown := m.Text
	if m.Role == client.RoleMail {
		shown = MailText(run.Mail{Text: m.Text, Idle: m.Idle})
	}
	p.text(&b, "  ", shown)
	for _, c := range m.Calls {
		p.call(&b, c)
	}
	_, err := io.WriteString(p.W, b.String())
	return err
}

func roleStyle(m client.Message) string {
	switch {
	case m.Failed:
		return red
	case m.Role == client.RoleAssistant:
		return green
	case m.Role == client.RoleVerdict:
		return yellow
	}
	return cyan
}

// heading names the speaker of a message.
func heading(m client.Message) string {
	text := string(m.Role)
	switch m.Role { //nolint:exhaustive // the others have their name alone
	case client.RoleTask:
		if m.Name != "" {
			text = "call of " + m.Name
		}
		text += byText(m.By)
	case client.RoleAssistant:
		text = fmt.Sprintf("assistant, turn %d", m.Turn)
	case client.RoleResult:
		text = "result of " + m.Name
		if m.From != "" {
			text = fmt.Sprintf("result of %s (%s)", m.From, m.Name)
		}
	case client.RoleMail:
		text = "mail from " + client.Claimed(m.From) + byText(m.By)
	case client.RoleVerdict:
		text = verdictHeading(m)
	case client.RoleEnd:
		text = "failed: " + string(m.Kind)
	}
	if m.Failed && m.Role != client.RoleEnd {
		text += ", failed: " + string(m.Kind)
	}
	return Printable(text)
}

// byText names a sender that is known.
func byText(by subjects.By) string {
	if by.IsZero() {
		return ""
	}
	return " by " + by.String()
}

func verdictHeading(m client.Message) string {
	switch m.Decision { //nolint:exhaustive // the others have a decider
	case "":
		return fmt.Sprintf("verdict of %s (%s) on turn %d", m.From, m.Name, m.Turn)
	case client.Held:
		return "held for a person"
	case client.NotCounted:
		return "decision by " + m.From + " does not count"
	}
	by := m.From
	if by == "" {
		by = "its file, since no person decided in time"
	}
	return string(m.Decision) + " by " + by
}

// measures returns the cost of a message, as far as it is known.
func measures(m client.Message, prices price.Table) (all []string) {
	add := func(text string, known bool) {
		if known {
			all = append(all, Printable(text))
		}
	}
	add(m.Model, m.Model != "" && m.Role == client.RoleAssistant)
	add("worker "+m.Worker, m.Worker != "")
	add(ShortTime(time.Duration(m.DurationMS)*time.Millisecond), m.DurationMS > 0)
	add(usageText(m.Usage), m.Usage != provider.Usage{})
	cost := messageCost(m, prices)
	add(cost.Text(), cost.Priced)
	add(plural(m.Retries, "failed request")+" before", m.Retries > 0)
	return all
}

// text prints a text of several lines, indented.
func (p MessagePrinter) text(b *strings.Builder, indent, s string) {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if s == "" {
		return
	}
	more := len(lines) - maxTextLines
	if !p.Full && more > 0 {
		lines = lines[:maxTextLines]
	}
	for _, l := range lines {
		b.WriteString(strings.TrimRight(indent+Printable(l), " ") + "\n")
	}
	if !p.Full && more > 0 {
		fmt.Fprintf(b, "%s… %s more: --full\n", indent, plural(more, "line"))
	}
}

// call prints a tool call with its arguments, one a line.
func (p MessagePrinter) call(b *strings.Builder, c client.MessageCall) {
	fmt.Fprintf(b, "  → %s", Printable(c.Tool))
	for _, path := range c.Paths {
		fmt.Fprintf(b, " %s", path)
	}
	b.WriteString("\n")
	var object map[string]json.RawMessage
	if json.Unmarshal(c.Arguments, &object) != nil {
		p.text(b, "    ", string(c.Arguments))
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		value := string(object[name])
		var plain string
		if json.Unmarshal(object[name], &plain) == nil {
			value = plain
		}
		if strings.Contains(value, "\n") {
			fmt.Fprintf(b, "    %s:\n", Printable(name))
			p.text(b, "      ", value)
		} else {
			fmt.Fprintf(b, "    %s: %s\n", Printable(name), Printable(text.Head(value, 1<<10)))
		}
	}
	if c.Error != "" {
		fmt.Fprintf(b, "    refused: %s\n", Printable(c.Error))
	}
}

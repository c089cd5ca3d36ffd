package script

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/axebus/axe/internal/text"
)

type turnTable struct {
	Turn    *int        `toml:"turn"`
	When    string      `toml:"when"`
	Text    *string     `toml:"text"`
	Latency string      `toml:"latency"`
	Fail    *failTable  `toml:"fail"`
	Call    []callTable `toml:"call"`
}

type failTable struct {
	Category   string `toml:"category"`
	Message    string `toml:"message"`
	Status     int    `toml:"status"`
	RetryAfter string `toml:"retry_after"`
}

type callTable struct {
	Tool      string         `toml:"tool"`
	Agent     string         `toml:"agent"`
	Task      string         `toml:"task"`
	Context   string         `toml:"context"`
	Each      string         `toml:"each"`
	Repeat    string         `toml:"repeat"`
	Arguments map[string]any `toml:"arguments"`
	Raw       string         `toml:"raw"`
}

// parse returns the entries of a script. Its errors begin with a line number.
func parse(source string) ([]entry, error) {
	var doc struct {
		Turn []toml.Primitive `toml:"turn"`
	}
	meta, err := toml.Decode(source, &doc)
	if e, ok := errors.AsType[toml.ParseError](err); ok {
		// The line in e is one too few for an escape that the end of the
		// source cuts.
		return nil, fmt.Errorf("%d: %s", text.Line(source, e.Position.Start), e.Message)
	} else if err != nil {
		return nil, errors.New("1: turn: must be tables [[turn]]")
	}
	heads := headerLines(source)
	var entries []entry
	for i, p := range doc.Turn {
		line := 1
		if i < len(heads) {
			line = heads[i]
		}
		e, err := decode(meta, p)
		if err != nil {
			return nil, fmt.Errorf("%d: [[turn]] %d: %w", line, i+1, err)
		}
		e.line = line
		entries = append(entries, e)
	}
	for _, key := range meta.Undecoded() {
		if !strings.HasPrefix(key.String(), "turn.call.arguments.") {
			return nil, fmt.Errorf("%d: %s: unknown key", keyLine(source, key), key)
		}
	}
	if len(entries) == 0 {
		return nil, errors.New("1: turn: the file must have at least one [[turn]]")
	}
	return entries, nil
}

// decode returns the entry of one [[turn]].
func decode(meta toml.MetaData, p toml.Primitive) (entry, error) {
	var t turnTable
	err := meta.PrimitiveDecode(p, &t)
	if err == nil {
		return t.compile()
	}
	// Remove the decoder's line: it is the line of the key's last
	// occurrence, which may be in another [[turn]].
	if _, message, ok := strings.Cut(err.Error(), "(last key "); ok {
		err = errors.New(strings.Replace(message, "): ", ": ", 1))
	}
	return entry{}, err
}

// headerLines returns the numbers of the lines with a [[turn]] header. The
// decoder keeps one position for each key, which does not suffice for a key
// that occurs in many tables.
func headerLines(text string) []int {
	var at []int
	for i, l := range lines(text) {
		if withoutBlanks(l, 8) == "[[turn]]" {
			at = append(at, i+1)
		}
	}
	return at
}

// keyLine returns the number of the first line that looks like a key, or like
// the header of a table of that name.
func keyLine(text string, key toml.Key) int {
	name := key[len(key)-1]
	for i, l := range lines(text) {
		l = withoutBlanks(l, len(l))
		inline, _, _ := strings.Cut(l, "=")
		header := strings.Trim(l, "[]")
		if inline == name || strings.HasSuffix(inline, "{"+name) || header == key.String() {
			return i + 1
		}
	}
	return 1
}

// withoutBlanks removes blanks from a line and cuts it to n bytes.
func withoutBlanks(line string, n int) string {
	line = strings.NewReplacer(" ", "", "\t", "", "\r", "").Replace(line)
	return line[:min(n, len(line))]
}

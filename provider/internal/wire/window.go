package wire

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
)

// window is a conversation that has outgrown its model's window, in tokens. A
// number is 0 if the provider does not say it.
type window struct {
	// used is the conversation, with the room for the answer if the
	// provider counts that.
	used int
	// limit is the window.
	limit int
}

// bytesPerToken estimates the tokens of a text. Budgets reckon with it too.
const bytesPerToken = 4

// String says the tokens. Size is the length of the request in bytes.
func (w window) String(size int64) string {
	text := "the conversation has outgrown the model's window: "
	if w.used == 0 {
		text += fmt.Sprintf("it has about %d tokens", size/bytesPerToken)
	} else {
		text += fmt.Sprintf("it has %d tokens", w.used)
	}
	if w.limit > 0 {
		text += fmt.Sprintf(", and the model takes %d", w.limit)
	}
	return text
}

// overflows are the words of providers for a conversation that has outgrown the
// window. A server that imitates one provider may send the words of another, so
// every provider knows all of them. Numbers are named used, more (what is to be
// added to it) and limit.
var overflows = []*regexp.Regexp{
	// Anthropic
	regexp.MustCompile(`prompt is too long: (?P<used>\d+) tokens > (?P<limit>\d+) maximum`),
	regexp.MustCompile("input length and `max_tokens` exceed context limit: " +
		`(?P<used>\d+) \+ (?P<more>\d+) > (?P<limit>\d+)`),
	// OpenAI, and servers that imitate it
	regexp.MustCompile(`maximum context length is (?P<limit>\d+) tokens\W.{0,40}?` +
		`(?:resulted in|requested)(?: about)? (?P<used>\d+) tokens`),
	regexp.MustCompile(`exceed the configured limit of (?P<limit>\d+) tokens.{0,40}? resulted in (?P<used>\d+) tokens`),
	regexp.MustCompile(`input token count \(?(?P<used>\d+)\)? exceeds the maximum number of tokens allowed ` +
		`\(?(?P<limit>\d+)\)?`),
	// llama.cpp, and Ollama around it
	regexp.MustCompile(`request \((?P<used>\d+) tokens\) exceeds the available context size \((?P<limit>\d+) tokens\)`),
	// without the numbers
	regexp.MustCompile(`"context_length_exceeded"|exceed_context_size_error|exceeds the available context size`),
	regexp.MustCompile(`maximum context length is (?P<limit>\d+) tokens`),
	regexp.MustCompile(`input length exceeds (?:the |maximum )?context length|prompt is too long`),
}

// overflow reports whether an answer with a status of failure says that the
// conversation has outgrown the model's window.
func overflow(status int, body []byte) (w window, ok bool) {
	refusals := []int{
		http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
		http.StatusInternalServerError,
	}
	if !slices.Contains(refusals, status) {
		return w, false
	}
	// Ollama passes on an error inside a string.
	body = bytes.ReplaceAll(body, []byte(`\"`), []byte(`"`))
	for _, words := range overflows {
		found := words.FindSubmatch(body)
		if found == nil {
			continue
		}
		number := func(name string) (n int) {
			if i := words.SubexpIndex(name); i > 0 {
				n, _ = strconv.Atoi(string(found[i]))
			}
			return n
		}
		return window{used: number("used") + number("more"), limit: number("limit")}, true
	}
	return w, false
}

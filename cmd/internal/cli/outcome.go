package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// Print writes an outcome: as text the answer of a completed run with a final
// newline, as JSON the whole outcome of any run. It returns the error of a
// failed outcome.
func Print(w io.Writer, format Output, o run.Outcome) error {
	var err error
	switch {
	case format.JSON():
		err = PrintJSON(w, o)
	case o.Status == run.StatusCompleted:
		answer := o.Result
		if !strings.HasSuffix(answer, "\n") {
			answer += "\n"
		}
		_, err = io.WriteString(w, answer)
	}
	if err != nil {
		return err
	}
	return Failed(o)
}

// Warn prints warnings about the answer of a completed run on standard error:
// that it was cut, or is empty.
func Warn(program string, o run.Outcome) {
	switch {
	case o.Status != run.StatusCompleted:
	case o.Truncated:
		const text = "%s: warning: the answer was cut at the limit of output tokens (stop reason %s): " +
			"raise max_tokens in the agent's [params]\n"
		fmt.Fprintf(os.Stderr, text, program, o.StopReason)
	case strings.TrimSpace(o.Result) == "":
		fmt.Fprintf(os.Stderr, "%s: warning: the answer is empty: say in the agent's system_prompt what to answer, "+
			"or ask again\n", program)
	}
}

// PrintJSON writes a value as one line of JSON.
func PrintJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// PrintTree writes the id of a tree.
func PrintTree(w io.Writer, format Output, tree subjects.Tree) error {
	line := "%s\n"
	if format.JSON() {
		line = `{"tree":"%s"}` + "\n" // an id needs no escapes
	}
	_, err := fmt.Fprintf(w, line, tree)
	return err
}

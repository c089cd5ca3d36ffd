package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// CheckOutput is the error of an output format that there is not.
func CheckOutput(format string) error {
	if format != "text" && format != "json" {
		return Usage("-o %q: want text or json", format)
	}
	return nil
}

// Print writes an outcome to stdout and returns the failure that it is, if it
// is one: as text the answer alone, ended by a newline; as json the whole
// outcome, failed or not.
func Print(w io.Writer, format string, o run.Outcome) error {
	var err error
	switch {
	case format == "json":
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		err = enc.Encode(o)
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

// PrintTree writes the id of a tree that is not waited for.
func PrintTree(w io.Writer, format string, tree subjects.Tree) error {
	line := "%s\n"
	if format == "json" {
		line = `{"tree":"%s"}` + "\n" // letters and digits
	}
	_, err := fmt.Fprintf(w, line, tree)
	return err
}

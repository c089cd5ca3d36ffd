package cli

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/axebus/axe/agentd/run"
)

// CheckOutput is the error of an output format that there is not.
func CheckOutput(format string) error {
	if format != "text" && format != "json" {
		return Usage("-o %q: want text or json", format)
	}
	return nil
}

// Print writes an outcome to stdout and returns the failure that it is, if it is one: as text the answer
// alone, ended by a newline; as json the whole outcome, failed or not.
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

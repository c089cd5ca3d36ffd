// Test runs go test with its arguments, and prints each package when it ends.
// Go test itself prints packages in their order: a slow one holds back all
// behind it.
//
//	go run .ci/test.go -race ./...
//
// A package that passes prints its one line. A package that fails prints the
// output of the tests that failed, and its own. Test exits with 1 then. The
// slowest tests stand at the end, with their seconds.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// event is a line of go test -json: see go doc test2json.
type event struct {
	Action  string
	Package string // empty for the output of the compiler
	Test    string // empty for the package itself
	Output  string
	Elapsed float64 // of a test that has ended, in seconds
}

const (
	// slowest is the number of tests that are printed at the end, and slow
	// the seconds of which such a test takes more.
	slowest = 12
	slow    = 10
)

func main() {
	if err := test(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "test:", err)
		os.Exit(1)
	}
}

// test runs go test -json with some arguments and prints its events.
func test(args []string) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return errors.Join(show(events, os.Stdout), cmd.Wait())
}

// show prints the packages of a stream of events in the order of their ends.
// Until then it keeps the output of each, without that of tests that passed.
func show(events io.Reader, w io.Writer) error {
	packages := map[string][]event{}
	races := map[string]bool{} // the packages within a report of the race detector
	var ended []event
	lines := json.NewDecoder(events)
	for {
		var e event
		if err := lines.Decode(&e); err == io.EOF {
			showSlowest(ended, w)
			return nil
		} else if err != nil {
			return err
		}
		if e.Elapsed > slow && e.Test != "" && !strings.Contains(e.Test, "/") {
			ended = append(ended, e)
		}
		written := packages[e.Package]
		switch {
		case e.Package == "":
			fmt.Fprint(w, e.Output)
		case e.Action == "output" && !strings.HasPrefix(e.Output, "=== "):
			edge := strings.HasPrefix(e.Output, "==================")
			if edge || races[e.Package] {
				// Go test counts the report as output of the test that
				// has printed last, which may pass.
				e.Test = ""
			}
			races[e.Package] = races[e.Package] != edge
			packages[e.Package] = append(written, e)
		case e.Test != "" && (e.Action == "pass" || e.Action == "skip"):
			packages[e.Package] = slices.DeleteFunc(written, func(o event) bool { return o.Test == e.Test })
		case e.Test == "" && slices.Contains([]string{"pass", "skip", "fail"}, e.Action):
			if e.Action != "fail" {
				written = written[max(0, len(written)-1):]
			}
			for _, o := range written {
				fmt.Fprint(w, o.Output)
			}
		}
	}
}

// showSlowest prints the slowest of some tests.
func showSlowest(ended []event, w io.Writer) {
	slices.SortFunc(ended, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for _, e := range ended[:min(len(ended), slowest)] {
		fmt.Fprintf(w, "%6.1f s  %s %s\n", e.Elapsed, path.Base(e.Package), e.Test)
	}
}

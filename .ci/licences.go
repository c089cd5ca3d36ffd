// Licences fails for a module with a licence that is not allowed, or that it
// cannot tell. It looks at the modules that the programs contain. It reads the
// licence files in the module cache, and needs no network.
//
//	go run -modfile=.ci/licences.mod .ci/licences.go ./cmd/...
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/go-enry/go-license-detector/v4/licensedb"
	"github.com/go-enry/go-license-detector/v4/licensedb/filer"
)

// allowed are the SPDX names of licences that permit a program under the
// licence of this repository. BSD-Source-Code is the nearest name for the text
// of the modules of Go itself.
var allowed = []string{
	"BSD-Source-Code",
	"Apache-2.0", "MIT", "MIT-0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "0BSD", "Zlib", "MPL-2.0", "Unlicense", "CC0-1.0",
}

// least is the least likeness of a file to a licence that counts.
const least = 0.85

func main() {
	if err := check(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

// check looks at the modules of some packages.
func check(packages []string) error {
	const format = "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}"
	var stderr bytes.Buffer
	list := exec.Command("go", append([]string{"list", "-mod=readonly", "-deps", "-f", format}, packages...)...)
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list: %w: %s", err, stderr.String())
	}
	modules := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(modules)
	modules = slices.Compact(modules)
	var bad []string
	counts := map[string]int{}
	for _, m := range modules {
		fields := strings.Fields(m)
		if len(fields) != 3 {
			return fmt.Errorf("go list: want a path, a version and a directory, got %q", m)
		}
		name, err := licenceOf(fields[2])
		if err != nil {
			return fmt.Errorf("%s: %w", fields[0], err)
		}
		counts[name]++
		if !slices.Contains(allowed, name) {
			bad = append(bad, fmt.Sprintf("%s %s: %s", fields[0], fields[1], cmp.Or(name, "no licence that is known")))
		}
	}
	if len(modules) < 10 {
		return fmt.Errorf("only %d modules were found", len(modules))
	}
	if len(bad) > 0 {
		return fmt.Errorf("want one of %s:\n%s", strings.Join(allowed, ", "), strings.Join(bad, "\n"))
	}
	fmt.Printf("%d modules, by licence: %v\n", len(modules), counts)
	return nil
}

// licenceOf returns the SPDX name of the licence that is most like the files of
// a directory, "" for none. An allowed one goes before any other: texts of a
// family are much alike, and a module may have a second licence for its pages.
func licenceOf(dir string) (string, error) {
	files, err := filer.FromDirectory(dir)
	if err != nil {
		return "", err
	}
	defer files.Close()
	found, err := licensedb.Detect(files)
	if err != nil {
		return "", nil // it has no licence file
	}
	best := ""
	for _, name := range slices.Sorted(maps.Keys(found)) {
		a, b := slices.Contains(allowed, name), slices.Contains(allowed, best)
		better := best == "" || a && !b || a == b && found[name].Confidence > found[best].Confidence
		if found[name].Confidence >= least && better {
			best = name
		}
	}
	return best, nil
}

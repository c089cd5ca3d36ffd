package cmd_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFaultsApply checks every fault against the code: each text occurs once,
// and the changed code compiles. make faults checks that the tests find the
// faults, which takes longer.
func TestFaultsApply(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	exported := exports(t)
	for _, f := range faults(t) {
		planted, err := f.plant()
		if err != nil {
			t.Errorf("%s: %v", f.name, err)
			continue
		}
		for path := range planted {
			if err := compiles(filepath.Dir(path), planted, exported); err != nil {
				t.Errorf("%s: %v", f.name, err)
			}
		}
	}
}

// exports maps the packages that it lists, and all that they import, to the
// files with their export data.
func exports(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Export",
		module+"/agentd", module+"/provider/catalog", module+"/cmd/internal/bench", module+"/internal/mcpserver",
		module+"/bus/auth", module+"/cmd/axe", module+"/cmd/agentd")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p struct{ ImportPath, Export string }
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		files[p.ImportPath] = p.Export
	}
	return files
}

// compiles type-checks the package in a directory, with the changed files in
// place of those on disk.
func compiles(dir string, planted map[string][]byte, exported map[string]string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if here, err := build.Default.MatchFile(dir, filepath.Base(name)); err != nil || !here ||
			strings.HasSuffix(name, "_test.go") {
			continue
		}
		var src any
		if b, ok := planted[name]; ok {
			src = b
		}
		file, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exported[path]) }
	_, err = (&types.Config{Importer: importer.ForCompiler(set, "gc", open)}).Check(dir, set, files, nil)
	return err
}

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
	c := newChecker(exports(t))
	for _, f := range faults(t) {
		planted, err := f.plant()
		if err != nil {
			t.Errorf("%s: %v", f.name, err)
			continue
		}
		for path := range planted {
			if err := c.compiles(filepath.Dir(path), planted); err != nil {
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

// checker type-checks packages. It reads each file and each imported package
// once.
type checker struct {
	set      *token.FileSet
	imported types.Importer
	parsed   map[string]*ast.File // by path
}

// newChecker makes a checker that imports the export data of files, by package.
func newChecker(exported map[string]string) *checker {
	set := token.NewFileSet()
	open := func(path string) (io.ReadCloser, error) { return os.Open(exported[path]) }
	return &checker{set, importer.ForCompiler(set, "gc", open), map[string]*ast.File{}}
}

// compiles type-checks the package in a directory, with the changed files in
// place of those on disk.
func (c *checker) compiles(dir string, planted map[string][]byte) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	var files []*ast.File
	for _, name := range names {
		file, err := c.parse(name, planted)
		if err != nil {
			return err
		}
		if file != nil {
			files = append(files, file)
		}
	}
	_, err = (&types.Config{Importer: c.imported}).Check(dir, c.set, files, nil)
	return err
}

// parse returns a file that is changed or on disk. It returns nil for one that
// is not built here, and for a test.
func (c *checker) parse(name string, planted map[string][]byte) (*ast.File, error) {
	if b, ok := planted[name]; ok {
		return parser.ParseFile(c.set, name, b, parser.SkipObjectResolution)
	}
	if file, ok := c.parsed[name]; ok {
		return file, nil
	}
	here, err := build.Default.MatchFile(filepath.Dir(name), filepath.Base(name))
	if err != nil || !here || strings.HasSuffix(name, "_test.go") {
		c.parsed[name] = nil
		return nil, err
	}
	file, err := parser.ParseFile(c.set, name, nil, parser.SkipObjectResolution)
	c.parsed[name] = file
	return file, err
}

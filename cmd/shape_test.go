package cmd_test

import (
	"go/ast"
	"path"
	"strings"
	"testing"
)

const (
	// maxMethods is the largest number of methods of one type.
	maxMethods = 60
	// maxParameters is the largest number of parameters of a function
	// besides its context.
	maxParameters = 4
)

// TestShape bounds the methods of a type and the parameters of a function in
// the module's code. Tests and function types are left out.
func TestShape(t *testing.T) {
	lints(t)
	t.Parallel()
	methods := map[string]int{}
	for file, f := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if fn.Recv != nil {
				methods[path.Dir(file)+"."+receiver(fn.Recv.List[0].Type)]++
			}
			if n := parameters(fn.Type); n > maxParameters {
				t.Errorf("%s: %s has %d parameters, want at most %d besides a context",
					f.set.Position(fn.Pos()), fn.Name.Name, n, maxParameters)
			}
		}
	}
	for name, n := range methods {
		if n > maxMethods {
			t.Errorf("%s has %d methods, want at most %d", name, n, maxMethods)
		}
	}
}

// receiver returns the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// parameters counts the parameters of a function, without a context and without
// a variadic last one.
func parameters(f *ast.FuncType) (n int) {
	for _, p := range f.Params.List {
		if s, ok := p.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Context" {
			continue
		}
		if _, ok := p.Type.(*ast.Ellipsis); ok {
			continue
		}
		n += max(1, len(p.Names))
	}
	return n
}

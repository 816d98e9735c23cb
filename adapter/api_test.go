package adapter

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
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

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Programs of other modules can name every type in the signatures of this package: a type of an
// internal package has an alias in a public one.
func TestSignaturesAreOfPublicTypes(t *testing.T) {
	fset := token.NewFileSet()
	pkg := typeCheck(t, fset)
	seen := make(map[types.Type]bool)
	var check func(where string, typ types.Type)
	member := func(where string, o types.Object) {
		if o.Exported() {
			check(where+"."+o.Name(), o.Type())
		}
	}
	check = func(where string, typ types.Type) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		switch typ := typ.(type) {
		case *types.Alias:
			if isInternal(typ.Obj()) {
				t.Errorf("%s: %s is internal; declare an alias in this package", where, typ)
			}
			for arg := range typ.TypeArgs().Types() {
				check(where, arg)
			}
		case *types.Named:
			if isInternal(typ.Obj()) {
				t.Errorf("%s: %s is internal; declare an alias in this package", where, typ)
			}
			for arg := range typ.TypeArgs().Types() {
				check(where, arg)
			}
		case *types.Pointer:
			check(where, typ.Elem())
		case *types.Slice:
			check(where, typ.Elem())
		case *types.Array:
			check(where, typ.Elem())
		case *types.Chan:
			check(where, typ.Elem())
		case *types.Map:
			check(where, typ.Key())
			check(where, typ.Elem())
		case *types.Signature:
			for v := range typ.Params().Variables() {
				check(where, v.Type())
			}
			for v := range typ.Results().Variables() {
				check(where, v.Type())
			}
		case *types.Struct:
			for f := range typ.Fields() {
				member(where, f)
			}
		case *types.Interface:
			for m := range typ.Methods() {
				member(where, m)
			}
		}
	}
	names := 0
	for _, name := range pkg.Scope().Names() {
		o := pkg.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		names++
		declared, isType := o.(*types.TypeName)
		if !isType {
			check(name, o.Type())
			continue
		}
		named, ok := o.Type().(*types.Named)
		if declared.IsAlias() || !ok {
			continue
		}
		check(name, named.Underlying())
		methods := types.NewMethodSet(types.NewPointer(named))
		for m := range methods.Methods() {
			if m.Obj().Pkg() == pkg {
				member(name, m.Obj())
			}
		}
	}
	if names > 60 {
		t.Errorf("the package exports %d names at its top, want at most 60", names)
	}
}

func isInternal(o *types.TypeName) bool {
	return o.Pkg() != nil && strings.Contains("/"+o.Pkg().Path()+"/", "/internal/")
}

// typeCheck returns this package from its source, with its imports from the build cache.
func typeCheck(t *testing.T, fset *token.FileSet) *types.Package {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export", ".")
	list.Stderr = os.Stderr
	out, err := list.Output()
	expect.OK(t, err)
	exports := make(map[string]string)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
	}
	paths, err := filepath.Glob("*.go")
	expect.OK(t, err)
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, 0)
		expect.OK(t, err)
		files = append(files, file)
	}
	open := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	}
	c := types.Config{Importer: importer.ForCompiler(fset, "gc", open)}
	pkg, err := c.Check("github.com/mcp-metarouter/metarouter/adapter", fset, files, nil)
	expect.OK(t, err)
	return pkg
}

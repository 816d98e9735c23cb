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
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// ours are the types that have the methods of a Router for frontends of this module, and a field for tests.
// Their signatures may have types of internal packages.
var ours = []string{"*accounts", "administration", "Options.Play"}

// Programs of other modules can name every other type in the signatures of this package: a type of an
// internal package has an alias in a public one.
func TestSignaturesAreOfPublicTypes(t *testing.T) {
	pkg := typeCheck(t, token.NewFileSet())
	public := func(name string, typ types.Type) {
		if text := types.TypeString(typ, nil); strings.Contains(text, "/internal/") && !slices.Contains(ours, name) {
			t.Errorf("%s: %s has an internal type; declare an alias in this package", name, text)
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
			public(name, o.Type())
			continue
		}
		if declared.IsAlias() {
			continue
		}
		if s, ok := o.Type().Underlying().(*types.Struct); !ok {
			public(name, o.Type().Underlying())
		} else {
			for f := range s.Fields() {
				if f.Exported() {
					public(name+"."+f.Name(), f.Type())
				}
			}
		}
		for m := range types.NewMethodSet(types.NewPointer(o.Type())).Methods() {
			of := types.TypeString(m.Obj().(*types.Func).Signature().Recv().Type(), types.RelativeTo(pkg))
			if m.Obj().Exported() && !slices.Contains(ours, of) {
				public(name+"."+m.Obj().Name(), m.Type())
			}
		}
	}
	if names > 35 {
		t.Errorf("the package exports %d names at its top, want at most 35", names)
	}
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

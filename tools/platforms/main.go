// Command platforms checks the types of the router and its tests for other platforms, without
// compiling anything: a build for a platform takes minutes on a machine that has not made one.
//
//	go -C tools run ./platforms darwin/arm64 windows/amd64
package main

import (
	"errors"
	"fmt"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/mcp-metarouter/metarouter"

func main() {
	wrong := false
	for _, platform := range os.Args[1:] {
		problems, err := check("..", platform)
		if err != nil {
			fmt.Fprintln(os.Stderr, platform+":", err)
			os.Exit(1)
		}
		for _, problem := range problems {
			fmt.Println(platform+":", problem)
			wrong = true
		}
	}
	if wrong {
		os.Exit(1)
	}
}

// check returns the errors in the packages of the module in a folder, for a platform such as
// darwin/arm64.
func check(dir, platform string) (problems []string, err error) {
	system, architecture, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, errors.New("this is no platform; write one such as darwin/arm64")
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	found, err := packages.Load(&packages.Config{
		Mode:      packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedModule,
		Dir:       dir,
		Env:       append(os.Environ(), "GOOS="+system, "GOARCH="+architecture, "CGO_ENABLED=0"),
		Tests:     true,
		ParseFile: parser(dir + string(filepath.Separator)),
	}, "./...")
	if err != nil {
		return nil, err
	}
	packages.Visit(found, nil, func(p *packages.Package) {
		if p.Module == nil || p.Module.Path != module || strings.HasSuffix(p.PkgPath, ".test") { // the main package of tests, which the go command writes
			return
		}
		for _, e := range p.Errors {
			problems = append(problems, e.Error())
		}
	})
	return problems, nil
}

// parser returns a function that parses a file. It leaves out the bodies of functions that are not
// below the folder: that they compile is not ours to check, and they are most of the work.
func parser(ours string) func(*token.FileSet, string, []byte) (*ast.File, error) {
	return func(files *token.FileSet, name string, text []byte) (*ast.File, error) {
		f, err := goparser.ParseFile(files, name, text, goparser.SkipObjectResolution)
		if f == nil || strings.HasPrefix(name, ours) {
			return f, err
		}
		for _, d := range f.Decls {
			if function, ok := d.(*ast.FuncDecl); ok {
				function.Body = nil
			}
		}
		return f, err
	}
}

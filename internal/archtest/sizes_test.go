package archtest

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// sizesText is the table of bounds, a line each: a number and what it bounds.
//
//go:embed sizes.txt
var sizesText string

const (
	// What the table bounds besides the lines of each package that ships.
	manyMethods   = "types with more than 15 methods"
	longFiles     = "files of more than 400 lines"
	longFunctions = "functions of more than 60 lines"
	allLines      = "lines that ship"
	exportedNames = "exported names that other modules can import"
	floors        = "packages above each other, from the program's down"

	// slack is how far a figure may be below its bound, as a share of the bound, and leastSlack the
	// least of that.
	slack      = 0.03
	leastSlack = 5
)

// bounds reads the table.
func bounds(t *testing.T) map[string]int { return table(t, "sizes.txt", sizesText) }

// measured returns the figures that the table bounds.
func measured(t *testing.T) map[string]int {
	t.Helper()
	all, methods, imports := make(map[string]int), make(map[string]int), make(map[string][]string)
	positions := token.NewFileSet()
	for name, folder := range sources(t) {
		top, _, _ := strings.Cut(folder, "/")
		if slices.Contains([]string{"test", "tools", "examples", "docs", "providers"}, top) || folder == "internal/archtest" {
			continue
		}
		text, err := os.ReadFile(name)
		expect.OK(t, err)
		n := strings.Count(string(text), "\n")
		all[folder] += n
		all[allLines] += n
		if n > 400 {
			all[longFiles]++
		}
		file, err := parser.ParseFile(positions, name, text, parser.SkipObjectResolution)
		expect.OK(t, err)
		for _, one := range file.Imports {
			imports[folder] = append(imports[folder], strings.TrimPrefix(strings.Trim(one.Path.Value, `"`), module))
		}
		isPublic := !strings.Contains("/"+folder+"/", "/internal/")
		for _, declaration := range file.Decls {
			if isPublic {
				all[exportedNames] += exported(declaration)
			}
			f, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if positions.Position(f.End()).Line-positions.Position(f.Pos()).Line+1 > 60 {
				all[longFunctions]++
			}
			if f.Recv != nil {
				methods[path.Join(folder, receiver(f.Recv.List[0].Type))]++
			}
		}
	}
	for file, folder := range goFiles(t, true) {
		text, err := os.ReadFile(file)
		expect.OK(t, err)
		top, _, _ := strings.Cut(folder, "/")
		all["lines of tests in "+top] += strings.Count(string(text), "\n")
		all["lines of tests"] += strings.Count(string(text), "\n")
	}
	for _, n := range methods {
		if n > 15 {
			all[manyMethods]++
		}
	}
	all[floors] = height("cmd/metarouter", imports, make(map[string]int))
	return all
}

// height returns how many packages of ours are above each other, from the folder's down.
func height(folder string, imports map[string][]string, known map[string]int) int {
	if len(imports[folder]) > 0 && known[folder] == 0 {
		for _, below := range imports[folder] {
			known[folder] = max(known[folder], 1+height(below, imports, known))
		}
	}
	return known[folder]
}

// TestSizes holds the code to its size. Each figure must be at most its bound, and not far below,
// so that the bound follows the figure down. Only a feature may raise the bounds of the packages
// that it is about, by what was granted to it.
func TestSizes(t *testing.T) {
	most, now := bounds(t), measured(t)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		bound, ok := most[name]
		switch n := now[name]; {
		case !ok:
			t.Errorf("%s has no bound; add to sizes.txt: %d %s", name, n, name)
		case n > bound:
			t.Errorf("%s: %d, want at most %d: make it smaller", name, n, bound)
		case n < bound-max(leastSlack, int(slack*float64(bound))):
			t.Errorf("%s: %d is far below its bound %d; lower that in sizes.txt: %d %s", name, n, bound, n, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(most)) {
		if now[name] == 0 {
			t.Errorf("sizes.txt bounds %s, which there is not; remove the line", name)
		}
	}
	if t.Failed() && os.Getenv("METAROUTER_SIZES") != "" {
		t.Log(lines(now))
	}
}

// lines returns the figures as lines of sizes.txt.
func lines(now map[string]int) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(now)) {
		fmt.Fprintf(&b, "%d %s\n", now[name], name)
	}
	return b.String()
}

package archtest

import (
	_ "embed"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// waitsText is the table of exceptions, a line each: a number, and the folder of unit tests that has as many calls
// that wait in real time, start a process or listen.
//
//go:embed waits.txt
var waitsText string

// inLayerTwo is how files are named that have no unit tests. Each test there says first in which layer it is; see package
// test/layer.
const inLayerTwo = "_integration_test.go"

// processes are the functions that no unit test calls, besides waits in real time; see isWait.
var processes = []string{
	"exec.Command", "exec.CommandContext", "net.Listen", "net.ListenUnix", "mcptest.Start", "mcptest.Remote", "natsserver.Start", "time.Sleep", "time.After", "time.Tick", "time.NewTicker",
}

// TestUnitsOnly holds "go test -short" to unit tests: in their files, nothing waits in real time, starts a process or
// listens, but for the exceptions of waits.txt, whose numbers may only fall. What synctest.Test runs has fake time.
func TestUnitsOnly(t *testing.T) {
	most := table(t, "waits.txt", waitsText)
	now := map[string]int{}
	for file, folder := range goFiles(t, true) {
		if top, _, _ := strings.Cut(folder, "/"); top == "test" || top == "tools" {
			continue // integration; tools are a module of their own
		}
		parsed := parse(t, file, 0)
		if strings.HasSuffix(file, inLayerTwo) {
			checkLayers(t, file, parsed)
			continue
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch name := callee(call); {
			case name == "synctest.Test":
				return false
			case slices.Contains(processes, name), isWait(name, call):
				now[folder]++
			}
			return true
		})
	}
	for _, folder := range slices.Sorted(maps.Keys(now)) {
		if now[folder] > most[folder] {
			t.Errorf("%s: %d calls in unit tests wait in real time, start a process or listen; at most %d may. Use synctest and play.Server, or a file *%s", folder, now[folder], most[folder], inLayerTwo)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(most)) {
		if now[folder] < most[folder] {
			t.Errorf("waits.txt: %s has %d such calls; lower the number %d, or remove the line", folder, now[folder], most[folder])
		}
	}
}

// checkLayers checks that each test of a file says in which layer it is.
func checkLayers(t *testing.T, file string, parsed *ast.File) {
	for _, declaration := range parsed.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") || f.Name.Name == "TestMain" {
			continue
		}
		first := ""
		if len(f.Body.List) > 0 {
			if statement, ok := f.Body.List[0].(*ast.ExprStmt); ok {
				if call, ok := statement.X.(*ast.CallExpr); ok {
					first = callee(call)
				}
			}
		}
		if first != "layer.Integration" && first != "layer.Full" {
			t.Errorf("%s: %s must begin with layer.Integration(t) or layer.Full(t)", file, f.Name.Name)
		}
	}
}

// callee returns the called function as package.Name, "" for other calls.
func callee(call *ast.CallExpr) string {
	if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
		if x, ok := selector.X.(*ast.Ident); ok {
			return x.Name + "." + selector.Sel.Name
		}
	}
	return ""
}

// isWait reports whether a call bounds work by less than a minute of real time.
func isWait(name string, call *ast.CallExpr) bool {
	if name != "context.WithTimeout" || len(call.Args) != 2 {
		return false
	}
	limit := call.Args[1]
	factor := 1
	if product, ok := limit.(*ast.BinaryExpr); ok && product.Op == token.MUL {
		if n, ok := product.X.(*ast.BasicLit); ok {
			factor, _ = strconv.Atoi(n.Value)
		}
		limit = product.Y
	}
	unit, ok := limit.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch unit.Sel.Name {
	case "Nanosecond", "Microsecond", "Millisecond":
		return true
	case "Second":
		return factor < 60
	}
	return false
}

// table reads a table of bounds: lines with a number and a name.
func table(t *testing.T, file, text string) map[string]int {
	t.Helper()
	all := make(map[string]int)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		number, name, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(number)
		if _, twice := all[strings.TrimSpace(name)]; err != nil || twice {
			t.Fatalf("%s: %q is no line with a number and a new name", file, line)
		}
		all[strings.TrimSpace(name)] = n
	}
	return all
}

//go:build linux

package telemetry

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/mcp-metarouter/metarouter/"

// maxDepth bounds the functions of this module on the stack of a call, from the goroutine's
// first function to the write to the server's pipe.
const maxDepth = 13

// TestDepthOfACall takes the stacks of all goroutines while calls run, until one of them is in
// the write to the server. A function counts even if the compiler inlines it.
func TestDepthOfACall(t *testing.T) {
	p := newPath(t)
	line := echoCall(100)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				p.ask(t, line)
			}
		}
	}()
	var stack []string
	buffer := make([]byte, 1<<20)
	for range 100000 {
		all := buffer[:runtime.Stack(buffer, true)]
		for goroutine := range bytes.SplitSeq(all, []byte("\n\n")) {
			if s := functions(string(goroutine)); writesToServer(s) {
				stack = s
			}
		}
		if stack != nil || t.Failed() {
			break
		}
	}
	close(stop)
	<-stopped
	if stack == nil {
		t.Fatal("no stack was taken during a write to the server")
	}
	t.Logf("%d functions deep at the write to the server:\n%s", len(stack), strings.Join(stack, "\n"))
	if len(stack) > maxDepth {
		t.Errorf("the write to the server is %d functions deep, want at most %d", len(stack), maxDepth)
	}
}

var called = regexp.MustCompile(`(?m)^(\S.*)\([^()]*\)\n\t`)

// functions returns the functions of this module in a goroutine's stack, the outermost first.
func functions(stack string) (all []string) {
	for _, m := range called.FindAllStringSubmatch(stack, -1) {
		if name, ours := strings.CutPrefix(m[1], module); ours {
			all = append(all, name)
		}
	}
	slices.Reverse(all)
	// The write is a raw system call, so its goroutine stops in some function of package
	// pipe. The first one stands for all of them.
	if i := slices.IndexFunc(all, func(f string) bool { return strings.HasPrefix(f, "internal/pipe.") }); i >= 0 {
		all = all[:i+1]
	}
	return all
}

// writesToServer reports whether the stack belongs to a call in the write to the server.
func writesToServer(stack []string) bool {
	has := func(prefix string) bool {
		return slices.ContainsFunc(stack, func(f string) bool { return strings.HasPrefix(f, prefix) })
	}
	return has("internal/pipe.") && has("supervisor") && has("server")
}

// breadthVariable makes TestBreadthOfACall run, which compiles the program anew.
const breadthVariable = "METAROUTER_BREADTH"

// TestBreadthOfACall logs the functions and counts the files of this module in which a call
// runs, outside of package telemetry. It runs this test binary again with coverage: the code that ran at
// least once per call belongs to a call.
func TestBreadthOfACall(t *testing.T) {
	const calls = 1000
	if os.Getenv(breadthVariable) == "child" {
		p := newPath(t)
		line := echoCall(100)
		for range calls {
			p.ask(t, line)
		}
		return
	}
	if os.Getenv(breadthVariable) == "" {
		t.Skip(breadthVariable + " is not set")
	}
	root, profile := filepath.Join("..", "..", "..", ".."), filepath.Join(t.TempDir(), "profile")
	child := exec.Command("go", "test", "-count=1", "-run", "^TestBreadthOfACall$", "-covermode=atomic", "-coverprofile="+profile,
		"-coverpkg="+module+"server/...,"+module+"selector/...,"+module+"supervisor/...,"+module+"adapter/...,"+module+"registry/...,"+module+"internal/...", ".")
	child.Env = append(os.Environ(), breadthVariable+"=child")
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("go test with coverage: %v\n%s", err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string][]int{} // by file, of the blocks that ran once per call
	for block := range strings.Lines(string(text)) {
		var line, column, endLine, endColumn, statements, count int
		file, place, _ := strings.Cut(block, ":")
		if n, _ := fmt.Sscanf(place, "%d.%d,%d.%d %d %d", &line, &column, &endLine, &endColumn, &statements, &count); n == 6 && count >= calls {
			file = strings.TrimPrefix(file, module)
			lines[file] = append(lines[file], line)
		}
	}
	total := 0
	for _, file := range slices.Sorted(maps.Keys(lines)) {
		names := declared(t, filepath.Join(root, file), lines[file])
		total += len(names)
		t.Log(file, strings.Join(names, " "))
	}
	t.Logf("a call runs in %d functions in %d files", total, len(lines))
}

// declared returns the functions of a file that have one of the lines.
func declared(t *testing.T, file string, lines []int) (names []string) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, declaration := range f.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if ok && slices.ContainsFunc(lines, func(line int) bool {
			return set.Position(function.Pos()).Line <= line && line <= set.Position(function.End()).Line
		}) {
			names = append(names, function.Name.Name)
		}
	}
	return names
}

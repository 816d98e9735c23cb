//go:build linux

package telemetry

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// TestDepthOfACall takes the stacks of all goroutines while calls run, until one of them is in
// the write to the server. A function counts even if the compiler inlines it.
func TestDepthOfACall(t *testing.T) {
	layer.Integration(t)
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

// TestBreadthOfACall logs the functions and counts the files of this module in which a call
// runs, outside of package telemetry. It runs this test binary again with coverage: the code that ran at
// least once per call belongs to a call.
func TestBreadthOfACall(t *testing.T) {
	layer.Integration(t)
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
	expect.OK(t, err)
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

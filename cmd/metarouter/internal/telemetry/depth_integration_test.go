//go:build linux

package telemetry

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

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

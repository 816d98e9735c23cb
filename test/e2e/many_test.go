//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// TestTwoHundredServers starts, lists and calls two hundred servers, and edits a quarter of them
// meanwhile. No call fails, and the servers that were not edited keep their processes.
func TestTwoHundredServers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	const all, edited, calls, callers = 200, 50, 1000, 20
	light := lightServer(t)
	server := func(flags ...string) map[string]any {
		_, args := mcptest.Command(append(flags, "-tools", "echo,pid")...)
		return map[string]any{"command": light, "args": args}
	}
	servers := entries{}
	name := func(i int) string { return fmt.Sprintf("s%03d", i%all) }
	for i := range all {
		servers[name(i)] = server()
	}
	own := map[string]any{"listWait": "60s"} // two hundred on few cores
	s := prepare(t, servers, own)
	began := time.Now()
	c := s.serve("--mode", "direct")
	if listed := names(t, c); len(listed) != 2*all {
		t.Fatalf("%d tools are listed, want %d", len(listed), 2*all)
	}
	t.Logf("listed after %v", time.Since(began))
	before := pids(t, c, all, name)

	var group sync.WaitGroup
	var made atomic.Int64
	var reloaded atomic.Bool
	defer group.Wait()
	defer reloaded.Store(true)
	half := make(chan struct{}) // closed when half of the calls are made
	for caller := range callers {
		group.Go(func() {
			for i := 0; i < calls/callers || !reloaded.Load(); i++ {
				if made.Add(1) == calls/2 {
					close(half)
				}
				arguments := fmt.Sprintf(`{"message":"%d of %d"}`, i, caller)
				callee := name(caller*all/callers + i*7)
				raw, err := c.Call(within(t), callee+"__echo", json.RawMessage(arguments))
				if err != nil {
					t.Errorf("call %s: %v", callee, err)
				} else if r := decode(t, raw); r.IsError || r.text() != arguments {
					t.Errorf("%s answered %s", callee, raw)
				}
			}
		})
	}
	<-half
	for i := 0; i < all; i += all / edited {
		servers[name(i)] = server("-version", "2")
	}
	began = time.Now()
	s.write(servers, own)
	for i := 0; i < all; i += all / edited {
		mcptest.WaitFor(t, name(i)+" to be another process", func() bool {
			return mustCall(t, c, name(i)+"__pid", "{}").text() != before[i]
		})
	}
	t.Logf("%d servers were replaced in %v, during %d calls", edited, time.Since(began), made.Load()-calls/2)
	reloaded.Store(true)
	group.Wait()

	after := pids(t, c, all, name)
	for i := range all {
		if i%(all/edited) != 0 && after[i] != before[i] {
			t.Errorf("%s was not edited, and has another process", name(i))
		}
	}
	if slices.Contains(after, "") || len(slices.Compact(slices.Sorted(slices.Values(after)))) != all {
		t.Errorf("some servers share a process: %s", strings.Join(after, " "))
	}
	expect.OK(t, c.Close(), "%s", c.Stderr())
}

// lightServer builds a program that plays the fake server, as this test binary does, but without the
// race detector: two hundred instrumented servers would take a minute to start.
func lightServer(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "server")
	build := exec.Command("go", "build", "-race=false", "-o", program, "github.com/mcp-metarouter/metarouter/test/chaos")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	return program
}

// pids asks every server for its process id.
func pids(t *testing.T, c *mcptest.Client, all int, name func(int) string) []string {
	t.Helper()
	found := make([]string, all)
	for i := range all {
		found[i] = mustCall(t, c, name(i)+"__pid", "{}").text()
	}
	return found
}

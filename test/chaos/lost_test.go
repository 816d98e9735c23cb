//go:build linux

package main

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

const (
	// callsVariable sets how long TestNoCallIsLost runs, then also with the race detector; "0s" skips it.
	callsVariable = "METAROUTER_CALLS"

	// unanswered is how long a call has no answer until it counts as lost.
	unanswered = 20 * time.Second
)

// A way is how clients reach the router in TestNoCallIsLost.
type way struct {
	name  string
	flags []string
	procs int // GOMAXPROCS of the router; 0 is the default
	race  bool
	http  bool
}

var ways = []way{
	{name: "shared"}, {name: "shared, raced", race: true}, {name: "shared, 1 processor", procs: 1}, {name: "shared, 4 processors", procs: 4},
	{name: "standalone", flags: []string{"--standalone"}}, {name: "standalone, 1 processor", flags: []string{"--standalone"}, procs: 1},
	{name: "HTTP", http: true}, {name: "HTTP, raced", http: true, race: true},
}

// Each call is answered: of one caller and of many, with short and long requests and answers in
// turns, by servers made with the official SDK and by others, while processes are stopped for
// moments at random, which shakes the order of all hand-overs.
func TestNoCallIsLost(t *testing.T) {
	lasts := lasting(t, callsVariable, 30*time.Second)
	ways := ways
	bin := t.TempDir()
	build(t, bin, "metarouter", "../../cmd/metarouter")
	build(t, bin, "sdkserver", "../sdkserver")
	if os.Getenv(callsVariable) == "" { // to build with the race detector takes minutes
		ways = slices.DeleteFunc(slices.Clone(ways), func(w way) bool { return w.race })
	} else {
		build(t, bin, "raced", "../../cmd/metarouter", "-race")
	}
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) { w.run(t, bin, lasts/time.Duration(len(ways))) })
	}
}

// build compiles a program into the folder.
func build(t *testing.T, bin, name, source string, flags ...string) {
	t.Helper()
	args := append(append([]string{"build"}, flags...), "-o", filepath.Join(bin, name), source)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
}

// A caller is a client whose calls are counted.
type caller struct {
	t *testing.T
	c interface {
		Call(ctx context.Context, tool string, arguments any) (json.RawMessage, error)
	}
	calls atomic.Int64
}

// call makes a call whose text comes back, or one whose answer alone is long.
func (c *caller) call(server string, size int, long bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), unanswered)
	defer cancel()
	c.calls.Add(1)
	arguments := map[string]any{"text": strings.Repeat("x", size)}
	if long && server == "sdk" {
		arguments = map[string]any{"bytes": size}
	}
	tool := map[string]string{"sdk": "sdk__list_issue", "fake": "fake__echo"}[server]
	raw, err := c.c.Call(ctx, tool, arguments)
	if err != nil || len(raw) < size {
		c.t.Errorf("a call of %s with %d bytes, long answer %v: %v, %d bytes", tool, size, long, err, len(raw))
		return false
	}
	return true
}

// run calls for the time.
func (w way) run(t *testing.T, bin string, lasts time.Duration) {
	dir := t.TempDir()
	fake, args := mcptest.Command("-tools", "echo")
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"sdk":  map[string]any{"command": filepath.Join(bin, "sdkserver")},
		"fake": map[string]any{"command": fake, "args": args},
	}, "metarouter": map[string]any{"mode": "direct"}})
	expect.OK(t, err)
	config := filepath.Join(dir, "mcp.json")
	expect.OK(t, os.WriteFile(config, text, 0o600))
	program := filepath.Join(bin, map[bool]string{false: "metarouter", true: "raced"}[w.race])
	flags := append([]string{"serve", "--config", config, "--data", filepath.Join(dir, "data")}, w.flags...)
	address := mcptest.FreeAddress(t)
	if w.http {
		flags = append(flags, "--http", address)
	}
	env := append(os.Environ(), "GOTRACEBACK=all")
	if w.procs > 0 {
		env = append(env, "GOMAXPROCS="+strconv.Itoa(w.procs))
	}
	t.Cleanup(func() { // a shared router ends, and writes its files, after its client was killed
		mcptest.WaitFor(t, "the end of all processes", func() bool { return len(pidsOf(dir, bin)) == 0 })
	})
	process := mcptest.Start(t, program, flags, dir, env)
	c := &caller{t: t, c: process}
	client := mcptest.Requester(process)
	if w.http {
		mcptest.Listening(t, address)
		over := mcptest.NewHTTPClient(t, "http://"+address+"/mcp")
		defer over.Close()
		c.c, client = over, over
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = client.(interface {
		Initialize(context.Context) (json.RawMessage, error)
	}).Initialize(ctx)
	expect.OK(t, err, "initialize: %s", process.Stderr())
	end := time.Now().Add(lasts)
	stop := make(chan struct{})
	var shaking sync.WaitGroup
	shaking.Go(func() { shake(dir, bin, stop) })
	for round := 0; time.Now().Before(end) && !t.Failed(); round++ {
		c.round(round, end)
	}
	close(stop)
	shaking.Wait()
	t.Logf("%d calls", c.calls.Load())
	if t.Failed() {
		for pid := range pidsOf(dir, bin) {
			syscall.Kill(pid, syscall.SIGQUIT) // which prints the goroutines
		}
		time.Sleep(time.Second)
		crashes, _ := os.ReadFile(filepath.Join(dir, "data", "crashes.log"))
		t.Logf("stderr:\n%s\ncrashes:\n%s", process.Stderr(), crashes)
	}
}

// round makes calls of one kind: of one caller, of 8 or of 64, of some size.
func (c *caller) round(n int, end time.Time) {
	sizes := []int{100, 100, 5_000, 70_000, 1 << 20}
	size := sizes[n%len(sizes)]
	callers := []int{1, 64, 1, 8}[n%4]
	long := n%3 == 0
	calls := max(2, min(200, 4_000_000/size/callers))
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for k := range calls {
				if server := []string{"sdk", "fake"}[(i+k)%2]; time.Now().After(end) || !c.call(server, size, long) {
					return
				}
			}
		})
	}
	all.Wait()
	time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond) // a pause, in which processes rest
}

// shake stops processes of the run for moments until stop is closed.
func shake(dir, bin string, stop <-chan struct{}) {
	for {
		pause := time.Duration(rand.IntN(20)) * time.Millisecond
		select {
		case <-stop:
			return
		case <-time.After(pause):
		}
		for pid := range pidsOf(dir, bin) { // the order is random
			syscall.Kill(pid, syscall.SIGSTOP)
			time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
			syscall.Kill(pid, syscall.SIGCONT)
			break
		}
	}
}

// pidsOf returns the processes of routers and servers of the run.
func pidsOf(dir, bin string) map[int]bool {
	pids := make(map[int]bool)
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, _ := os.ReadFile(file)
		if strings.Contains(string(line), dir) || strings.HasPrefix(string(line), filepath.Join(bin, "sdkserver")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids[pid] = true
		}
	}
	return pids
}

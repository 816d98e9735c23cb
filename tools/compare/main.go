//go:build linux

// Command compare measures the router: next to calls without one, to another build of it, and to other routers. It
// prints tables, and fails only if an answer is wrong. It runs on Linux only.
//
//	go -C tools run ./compare calls            # a call through the router, divided by the same call without it
//	go -C tools run ./compare -peers go peers  # the same, memory and starts, with other routers
//	go -C tools run ./compare -peers go,npm faults
//	go -C tools run ./compare jobs             # ten jobs in modes direct, search and code: tokens, turns, seconds
//	go -C tools run ./compare cluster          # calls of a server on another node, divided by calls of an own one
//	go -C tools run ./compare scripts          # the start of a script, and 1,000 calls by one
//	go -C tools run ./compare memory           # with 14,320 tools, before and after searches
//	go -C tools run ./compare -for 1h page     # the costs of an open page of the dashboard
//
// Ways to make the same calls take turns, so that other work of the machine slows all of them. Only ratios mean anything.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

const module = "github.com/mcp-metarouter/metarouter"

// patience is how long a comparison waits for an event that may never happen.
const patience = 40 * time.Second

var measurements = map[string]func(*T, options){
	"calls": compareCalls, "peers": comparePeers, "faults": compareFaults, "jobs": compareJobs,
	"cluster": compareCluster, "scripts": compareScripts, "memory": compareMemory, "page": comparePage,
}

// options are the flags.
type options struct {
	peers  []string // kinds or names of other routers
	before string   // path of another metarouter
	turns  int
	open   time.Duration
}

func main() {
	mcptest.ServeIfAsked()
	testing.Init() // package external asks whether the tests are short
	var o options
	peers := flag.String("peers", "", "other routers, with commas: their names, or go or npm for all of a kind")
	flag.StringVar(&o.before, "before", "", "path of another metarouter, for a comparison of two versions")
	flag.IntVar(&o.turns, "turns", 5, "in each turn every way is measured once")
	flag.DurationVar(&o.open, "for", 6*time.Second, "how long the page is open")
	flag.Parse()
	o.peers = strings.Split(*peers, ",")
	measure := measurements[flag.Arg(0)]
	if measure == nil || flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "write one of: calls, peers, faults, jobs, cluster, scripts, memory, page")
		os.Exit(2)
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err == nil {
		err = os.Chdir(strings.TrimSpace(string(root))) // whose go.mod has the requirements of the programs
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "find the module "+module+":", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	all := &T{ctx: ctx}
	all.Run(flag.Arg(0), func(t *T) { measure(t, o) })
	if all.failed {
		os.Exit(1)
	}
}

// entries are servers of a configuration by name.
type entries map[string]map[string]any

func writeFile(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }

// encoded returns arguments as a model writes them.
func encoded(t testing.TB, arguments any) []byte {
	t.Helper()
	text, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

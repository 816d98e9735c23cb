//go:build linux

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

type entries map[string]map[string]any

// A node is a router with a user of its own: a home folder, a configuration, data and a key.
type node struct {
	t       testing.TB
	name    string
	dir     string
	key     string // public
	address string // of its HTTP listener

	// The configuration. write puts it into the file.
	entries entries
	cluster map[string]any

	process *mcptest.Client // the last one
}

// newNode makes a node that is not yet running. It shares nothing and uses everything.
func newNode(t testing.TB, name string, urls []string, servers entries) *node {
	t.Helper()
	n := &node{t: t, name: name, dir: filepath.Join(t.TempDir(), "node-"+name), address: mcptest.FreeAddress(t), entries: servers}
	n.cluster = map[string]any{"urls": urls, "name": "test", "node": name, "use": []string{"*"}}
	expect.OK(t, os.MkdirAll(filepath.Join(n.dir, "home"), 0o700))
	n.write()
	n.key = strings.TrimSpace(n.run("nodes", "key"))
	t.Cleanup(func() {
		mcptest.WaitFor(t, "the end of all processes of node "+name, func() bool { return !mcptest.IsNamed(n.dir) })
	})
	return n
}

// trustEachOther lets all nodes trust each other, and writes their configurations.
func trustEachOther(all ...*node) {
	var keys []string
	for _, n := range all {
		keys = append(keys, n.key)
	}
	for _, n := range all {
		n.cluster["trusted"] = keys
		n.write()
	}
}

// write replaces the configuration as an editor does: a new file by rename.
func (n *node) write() {
	n.t.Helper()
	file := map[string]any{"metarouter": map[string]any{"cluster": n.cluster}}
	if n.entries != nil {
		file["mcpServers"] = n.entries
	}
	text, err := json.MarshalIndent(file, "", "  ")
	expect.OK(n.t, err)
	path := n.config()
	expect.OK(n.t, os.WriteFile(path+".new", text, 0o600))
	expect.OK(n.t, os.Rename(path+".new", path))
}

func (n *node) config() string { return filepath.Join(n.dir, "mcp.json") }

func (n *node) environment() []string {
	home := filepath.Join(n.dir, "home")
	return append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, "config"), "XDG_CACHE_HOME="+filepath.Join(home, "cache"), "METAROUTER_KEYRING=off")
}

// flags are the flags of every command of this node.
func (n *node) flags() []string {
	return []string{"--config", n.config(), "--data", filepath.Join(n.dir, "data")}
}

// run runs a command of this node to its end and returns its output.
func (n *node) run(args ...string) string {
	n.t.Helper()
	cmd := exec.CommandContext(within(n.t), metarouter, append(args, n.flags()...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.Env = &out, &errs, n.dir, n.environment()
	if err := cmd.Run(); err != nil {
		n.t.Fatalf("%s: metarouter %v: %v\n%s", n.name, args, err, errs.String())
	}
	return out.String()
}

// start starts the router and waits until it listens.
func (n *node) start() {
	n.t.Helper()
	args := append([]string{"serve", "--mode", "direct", "--http", n.address}, n.flags()...)
	n.process = mcptest.Start(n.t, metarouter, args, n.dir, n.environment())
	p := n.process
	n.t.Cleanup(func() {
		if n.t.Failed() {
			n.t.Logf("the end of node %s's log:\n%s", n.name, tail(p.Stderr(), 4000))
		}
	})
	mcptest.WaitFor(n.t, "node "+n.name+" to listen", func() bool {
		select {
		case <-p.Done:
			n.t.Fatalf("node %s has ended:\n%s", n.name, p.Stderr())
		default:
		}
		conn, err := net.Dial("tcp", n.address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

func tail(text string, most int) string { return text[max(0, len(text)-most):] }

// signal sends a signal to the router. Its servers do not get it.
func (n *node) signal(s syscall.Signal) {
	n.t.Helper()
	expect.OK(n.t, n.process.Cmd.Process.Signal(s), "node %s", n.name)
}

// kill kills the router with SIGKILL.
func (n *node) kill() { n.process.Kill() }

// restart ends the router with SIGTERM and starts it again.
func (n *node) restart() {
	n.t.Helper()
	n.signal(syscall.SIGTERM)
	select {
	case <-n.process.Done:
	case <-time.After(2 * time.Minute):
		n.t.Fatalf("node %s still runs two minutes after SIGTERM:\n%s", n.name, tail(n.process.Stderr(), 4000))
	}
	n.start()
}

// client returns a modern client of the node.
func (n *node) client() *mcptest.HTTPClient {
	n.t.Helper()
	c := mcptest.NewHTTPClient(n.t, "http://"+n.address+"/mcp")
	if _, err := c.Discover(within(n.t)); err != nil {
		n.t.Fatalf("node %s: %v\n%s", n.name, err, tail(n.process.Stderr(), 4000))
	}
	return c
}

// lists waits until the node lists all tools.
func (n *node) lists(tools ...string) {
	n.t.Helper()
	n.awaitNames("to list "+strings.Join(tools, ", "), func(names []string) bool {
		return !slices.ContainsFunc(tools, func(tool string) bool { return !slices.Contains(names, tool) })
	})
}

func (n *node) awaitNames(what string, are func(names []string) bool) {
	n.t.Helper()
	c := n.client()
	mcptest.WaitFor(n.t, "node "+n.name+" "+what, func() bool {
		names, err := mcptest.ToolNames(within(n.t), c)
		expect.OK(n.t, err)
		return are(names)
	})
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// bank returns an entry with a ledger server that carries the name of its node.
func bank(node, ledger string) map[string]any {
	entry := fake("-name", node, "-version", "1", "-tools", read+","+put+","+charge, "-ledger", ledger)
	entry["timeout"] = "20s"
	return entry
}

// fake returns an entry with the fake server.
func fake(flags ...string) map[string]any {
	command, args := mcptest.Command(flags...)
	return map[string]any{"command": command, "args": args}
}

// A result is a CallToolResult.
type result struct {
	Content []struct{ Text string }
	IsError bool
	Meta    struct {
		NodeID        string   `json:"node_id"`
		ExecutionPath []string `json:"execution_path"`
		Verified      bool
	} `json:"_meta"`
}

func (r result) text() string {
	var b strings.Builder
	for _, c := range r.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}

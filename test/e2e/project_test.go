//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A project is a folder whose .mcp.json is found, with the tools to see what becomes of it.
type project struct {
	*testing.T
	dir string
}

// save replaces the file by one with these entries of the bundled server utilities.
func (p project) save(names ...string) {
	p.Helper()
	servers := make(map[string]any)
	for _, name := range names {
		servers[name] = map[string]any{"command": metarouter, "args": []string{"builtin", "utilities"}}
	}
	text, err := json.Marshal(map[string]any{"mcpServers": servers})
	file := filepath.Join(p.dir, ".mcp.json")
	if err == nil {
		err = os.WriteFile(file+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	expect.OK(p, err)
}

// serveHTTP serves the file, which is approved, over HTTP until the test ends. It returns the
// page's URL.
func (p project) serveHTTP() string {
	p.Helper()
	if out, err := p.command("trust").CombinedOutput(); err != nil {
		p.Fatalf("%v\n%s", err, out)
	}
	address := mcptest.FreeAddress(p.T)
	router := p.command("serve", "--http", address)
	expect.OK(p, router.Start())
	p.Cleanup(func() {
		router.Process.Signal(os.Interrupt)
		router.Wait()
	})
	mcptest.Listening(p.T, address) // before that, the command asks no router, and an edit would keep it from starting
	mcptest.WaitFor(p.T, "the router", func() bool {
		out, _ := p.command("servers", "--json").Output()
		return strings.Contains(string(out), `"ready"`)
	})
	return "http://" + address
}

// command returns a subcommand in the folder, with a data folder in it.
func (p project) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // a router lives as long as its test
	p.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, metarouter, append(args, "--data", filepath.Join(p.dir, "data"))...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=1")
	return cmd
}

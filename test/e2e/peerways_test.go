//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A way is one for calls to reach servers: through a router, or none.
type way struct {
	name string // as the table has it
	// start starts it with these servers, and connects a client, until t ends. An
	// error is that the client could not be connected within patience.
	start  func(t *testing.T, servers entries) (route, error)
	faults bool // it starts the servers itself, so that their faults are its affair
	ours   bool
}

// A route is a way that was started. Tools are named s0__say.
type route struct {
	caller
	pid   func() int // returns the id of the router's process; nil without one
	kill  func()     // with SIGKILL, what its user has started
	write func(servers entries)
}

type caller interface {
	Call(ctx context.Context, tool string, arguments any) (json.RawMessage, error)
}

// peerWays are those that can be had here: vmcp is left out where it can't be built.
func peerWays(t *testing.T) []way {
	t.Helper()
	hub := filepath.Join(external.PeerModules(t), "mcp-hub", "dist", "cli.js")
	ways := []way{
		{name: "direct", start: startDirect},
		{name: "direct, HTTP", start: startRemote},
		{name: "metarouter, stdio", start: startOurs, faults: true, ours: true},
		{name: "metarouter, HTTP", start: startOursHTTP, faults: true, ours: true},
		{name: "mcp-hub 4.2.1", start: startHub(external.Program(t, "node"), hub), faults: true},
	}
	const version = "v0.47.0" // v0.58.0 asks for Go 1.27
	vmcp, err := installed("github.com/stacklok/toolhive/cmd/vmcp", version)
	if err != nil {
		t.Logf("vmcp is left out: %v", err)
		return ways
	}
	return append(ways, way{name: "vmcp " + version, start: startVMCP(vmcp)})
}

// installed builds a program in the user's cache, once.
func installed(module, version string) (program string, _ error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	name := filepath.Base(module)
	dir := filepath.Join(cache, "metarouter-test", name+"-"+version)
	program = filepath.Join(dir, name)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "go", "install", module+"@"+version)
	install.Env = append(os.Environ(), "GOBIN="+dir)
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("install %s: %w\n%s", module, err, out)
	}
	return program, nil
}

// directly is a session with each server.
type directly map[string]caller

func (d directly) Call(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	server, tool, _ := strings.Cut(tool, "__")
	return d[server].Call(ctx, tool, arguments)
}

func startDirect(t *testing.T, servers entries) (route, error) {
	d := directly{}
	for name, entry := range servers {
		c := mcptest.Start(t, entry["command"].(string), entry["args"].([]string), t.TempDir(), nil)
		if _, err := c.Initialize(within(t)); err != nil {
			return route{}, err
		}
		d[name] = c
	}
	return route{caller: d}, nil
}

// behindHTTP starts servers of the same flags behind HTTP, and returns their URLs.
func behindHTTP(t *testing.T, servers entries) map[string]string {
	urls := make(map[string]string)
	for name, entry := range servers {
		urls[name], _ = mcptest.Remote(t, "http", entry["args"].([]string)[1:]...)
	}
	return urls
}

func startRemote(t *testing.T, servers entries) (route, error) {
	d := directly{}
	for name, url := range behindHTTP(t, servers) {
		c := mcptest.NewHTTPClient(t, url)
		if _, err := c.Initialize(within(t)); err != nil {
			return route{}, err
		}
		d[name] = c
	}
	return route{caller: d}, nil
}

// ours is the route through our router.
func ours(s *setup, c caller, pid func() int, process *mcptest.Client) route {
	return route{c, pid, process.Kill, func(servers entries) { s.write(servers, nil) }}
}

func startOurs(t *testing.T, servers entries) (route, error) {
	s := prepare(t, servers, nil)
	c := s.serve("--mode", "direct")
	return ours(s, c, s.host, c), nil
}

func startOursHTTP(t *testing.T, servers entries) (route, error) {
	s := prepare(t, servers, nil)
	url, process := s.serveHTTP("--mode", "direct")
	c := mcptest.NewHTTPClient(t, url)
	_, err := c.Initialize(within(t))
	return ours(s, c, pidOf(process), process), err
}

func pidOf(c *mcptest.Client) func() int { return func() int { return c.Cmd.Process.Pid } }

// startPeer starts another router with a home of its own, and tries until its
// client is connected.
func startPeer(t *testing.T, dir string, connect func(context.Context) (caller, error), command string, args ...string) (caller, *mcptest.Client, error) {
	process := mcptest.Start(t, command, args, dir, []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"),
		"TOOLHIVE_USAGE_METRICS_ENABLED=false", "TOOLHIVE_SKIP_UPDATE_CHECK=true"})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		c, err := connect(ctx)
		if err == nil || ctx.Err() != nil {
			return c, process, err
		}
		select {
		case <-process.Done:
			return nil, process, fmt.Errorf("%s has ended: %s", filepath.Base(command), process.Stderr())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// startHub starts mcp-hub, whose clients speak HTTP with SSE.
func startHub(node, script string) func(t *testing.T, servers entries) (route, error) {
	return func(t *testing.T, servers entries) (route, error) {
		s := prepare(t, servers, nil)
		address := mcptest.FreeAddress(t)
		connect := func(ctx context.Context) (caller, error) {
			c, err := mcptest.NewSSEClient(ctx, t, "http://"+address+"/mcp")
			if err != nil {
				return nil, err
			}
			_, err = c.Initialize(ctx)
			return c, err
		}
		_, port, _ := strings.Cut(address, ":")
		c, process, err := startPeer(t, s.dir, connect, node, script, "--port", port, "--config", s.config, "--watch")
		return ours(s, c, pidOf(process), process), err // it reads the same file
	}
}

// startVMCP starts toolhive's vmcp in front of servers behind HTTP: without a
// container engine it starts none.
func startVMCP(program string) func(t *testing.T, servers entries) (route, error) {
	return func(t *testing.T, servers entries) (route, error) {
		config := `name: peers
groupRef: peers
incomingAuth: {type: anonymous}
outgoingAuth: {source: inline, default: {type: unauthenticated}}
aggregation: {conflictResolution: prefix, conflictResolutionConfig: {prefixFormat: "{workload}__"}}
backends:
`
		for name, url := range behindHTTP(t, servers) {
			config += fmt.Sprintf("- {name: %s, url: %q, transport: streamable-http}\n", name, url)
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "vmcp.yaml")
		if err := writeFile(file, config); err != nil {
			return route{}, err
		}
		address := mcptest.FreeAddress(t)
		connect := func(ctx context.Context) (caller, error) {
			c := mcptest.NewHTTPClient(t, "http://"+address+"/mcp")
			_, err := c.Initialize(ctx)
			return c, err
		}
		host, port, _ := strings.Cut(address, ":")
		c, process, err := startPeer(t, dir, connect, program, "serve", "--config", file, "--host", host, "--port", port)
		return route{caller: c, pid: pidOf(process)}, err
	}
}

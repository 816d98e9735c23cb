//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A way is a way for calls to reach servers: through a router, or directly.
type way struct {
	name string // as the table has it
	// startAt starts it with these servers, in a home folder of its own, and connects a
	// client, until t ends.
	startAt func(t testing.TB, home string, servers entries) (route, error)
	version []string // the command that prints the version; nil without a router
	stores  bool     // it keeps a catalog in its home, which a later start uses
	faults  bool     // it starts the servers itself, so that their faults are its affair
	ours    bool
}

func (w way) start(t testing.TB, servers entries) (route, error) {
	return w.startAt(t, t.TempDir(), servers)
}

// A route is a way that was started.
type route struct {
	servers  int
	sessions []mcptest.Requester // one for each server, or one for all
	merged   bool                // the router names the tools of server s0 s0__TOOL
	node     string              // and those of one on another node s0-at-NODE__TOOL; "" is its own
	program  string              // of the router's processes; "" without a router
	home     string              // of the router's processes
	remote   bool                // the servers were started before the router
	more     func() error        // connects a further client; nil if that is a router of its own
	kill     func()              // with SIGKILL, the process that its user has started
	write    func(servers entries)
}

// tool returns the name by which the client calls a tool of a server.
func (r route) tool(server int, tool string) string {
	if !r.merged {
		return tool
	}
	if r.node != "" {
		return fmt.Sprintf("s%d-at-%s__%s", server, r.node, tool)
	}
	return fmt.Sprintf("s%d__%s", server, tool)
}

// peerWays returns the ways that can be had here.
func peerWays(t *T, o options) []way {
	ways := append([]way{
		{name: "direct", startAt: startDirect},
		{name: "direct, HTTP", startAt: startRemote},
		relayWay(built(t, "tools/compare/relay")),
	}, ours(t, o, "direct")...)
	for _, p := range peers() {
		if !slices.Contains(o.peers, p.kind) && !slices.Contains(o.peers, p.name) {
			continue
		}
		w, err := p.install(t)
		if err != nil {
			t.Logf("%s is left out: %v", p.name, err)
			continue
		}
		ways = append(ways, w)
	}
	return ways
}

// ours are the ways through metarouter, and through another version of it if there is one.
func ours(t *T, o options, mode string) (ways []way) {
	if o.before != "" {
		ways = ourWays("before", o.before, mode)
	}
	return append(ways, ourWays("metarouter", built(t, "cmd/metarouter"), mode)...)
}

// A peer is another router.
type peer struct {
	kind, name string
	install    func(t testing.TB) (way, error)
}

// peers are the other routers that public registries have, and that start without a container engine.
func peers() []peer {
	return []peer{
		{"go", "mcp-proxy", installMCPProxy},
		{"go", "vmcp", installVMCP},
		{"npm", "mcp-hub", func(t testing.TB) (way, error) {
			hub := filepath.Join(external.PeerModules(t), "mcp-hub", "dist", "cli.js")
			return way{name: "mcp-hub 4.2.1", startAt: startHub(external.Program(t, "node"), hub), faults: true}, nil
		}},
	}
}

// startDirect starts a session with each server.
func startDirect(t testing.TB, _ string, servers entries) (route, error) {
	r := route{servers: len(servers), sessions: make([]mcptest.Requester, len(servers))}
	var group errgroup.Group
	for i := range len(servers) {
		group.Go(func() (err error) {
			entry := servers[fmt.Sprintf("s%d", i)]
			r.sessions[i], err = newLineClient(t, entry["command"].(string), entry["args"].([]string), t.TempDir(), nil)
			return err
		})
	}
	return r, group.Wait()
}

// startRemote starts the servers behind HTTP, and a session with each.
func startRemote(t testing.TB, _ string, servers entries) (route, error) {
	urls := behindHTTP(t, servers)
	r := route{servers: len(servers), remote: true}
	for i := range len(servers) {
		c, err := newPostClient(t, urls[fmt.Sprintf("s%d", i)], nil)
		if err != nil {
			return route{}, err
		}
		r.sessions = append(r.sessions, c)
	}
	return r, nil
}

// behindHTTP starts the servers behind HTTP, and returns their URLs.
func behindHTTP(t testing.TB, servers entries) map[string]string {
	urls := make(map[string]string)
	for name, entry := range servers {
		file := filepath.Join(t.TempDir(), "url")
		mcptest.Start(t, entry["command"].(string), slices.Concat(entry["args"].([]string), []string{"-http", file}), t.TempDir(), nil)
		mcptest.WaitFor(t, "the server to listen", func() bool {
			url, err := os.ReadFile(file)
			urls[name] = string(url)
			return err == nil
		})
	}
	return urls
}

// environmentIn is the environment of a router whose processes are found by this home.
func environmentIn(home string) []string {
	return append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, "config"), "XDG_CACHE_HOME="+filepath.Join(home, "cache"),
		"METAROUTER_KEYRING=off", "TOOLHIVE_USAGE_METRICS_ENABLED=false", "TOOLHIVE_SKIP_UPDATE_CHECK=true")
}

// writeServers writes the usual configuration into the home and returns its path. At the end of the test it waits for the
// end of all processes that have the path on their command line.
func writeServers(t testing.TB, home string, servers entries, more map[string]any) (file string) {
	t.Helper()
	file = filepath.Join(home, "mcp.json")
	replaceServers(t, file, servers, more)
	t.Cleanup(func() {
		mcptest.WaitFor(t, "the router to end", func() bool { return !mcptest.IsNamed(file) })
	})
	return file
}

// replaceServers writes a configuration as an editor does.
func replaceServers(t testing.TB, file string, servers entries, more map[string]any) {
	t.Helper()
	config := map[string]any{"mcpServers": servers}
	for key, value := range more {
		config[key] = value
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err == nil {
		err = writeFile(file+".new", string(text))
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func relayWay(program string) way {
	start := func(t testing.TB, home string, servers entries) (route, error) {
		c, err := newLineClient(t, program, []string{writeServers(t, home, servers, nil)}, home, environmentIn(home))
		return route{servers: len(servers), sessions: []mcptest.Requester{c}, merged: true, program: program, home: home}, err
	}
	return way{name: "relay (the limit)", startAt: start, version: []string{program, "version"}}
}

// ourWays are a metarouter over stdio and over HTTP, in a mode.
func ourWays(name, program, mode string) []way {
	serve := func(t testing.TB, home string, servers entries, more ...string) ([]string, route) {
		file := writeServers(t, home, servers, nil)
		args := append([]string{"serve", "--mode", mode, "--config", file, "--data", filepath.Join(home, "data")}, more...)
		return args, route{servers: len(servers), merged: true, program: program, home: home,
			write: func(servers entries) { replaceServers(t, file, servers, nil) }}
	}
	stdio := func(t testing.TB, home string, servers entries) (route, error) {
		args, r := serve(t, home, servers)
		connect := func() (*lineClient, error) { return newLineClient(t, program, args, home, environmentIn(home)) }
		c, err := connect()
		if err != nil {
			return route{}, err
		}
		r.sessions = []mcptest.Requester{c}
		r.kill = func() { c.process.Process.Kill() }
		r.more = func() error { _, err := connect(); return err }
		return r, nil
	}
	overHTTP := func(t testing.TB, home string, servers entries) (route, error) {
		address := mcptest.FreeAddress(t)
		args, r := serve(t, home, servers, "--http", address)
		return r.listening(t, "http://"+address+"/mcp", program, args...)
	}
	version := []string{program, "version"}
	return []way{
		{name: name + ", stdio", startAt: stdio, version: version, stores: true, faults: true, ours: true},
		{name: name + ", HTTP", startAt: overHTTP, version: version, stores: true, faults: true, ours: true},
	}
}

// listening starts a router that listens at a URL, and connects a client.
func (r route) listening(t testing.TB, url, program string, args ...string) (route, error) {
	process := mcptest.Start(t, program, args, r.home, environmentIn(r.home))
	connect := func() (*postClient, error) { return newPostClient(t, url, process.Done) }
	c, err := connect()
	if err != nil {
		return route{}, fmt.Errorf("%w\n%s", err, process.Stderr())
	}
	r.program, r.sessions = program, []mcptest.Requester{c}
	r.kill, r.more = process.Kill, func() error { _, err := connect(); return err }
	return r, nil
}

// installMCPProxy is TBXark's, which has an endpoint for each server instead of one for all.
func installMCPProxy(testing.TB) (way, error) {
	const version = "v0.43.2" // the module proxy lists no versions of it
	program, err := installed("github.com/TBXark/mcp-proxy", version, "")
	start := func(t testing.TB, home string, servers entries) (route, error) {
		address := mcptest.FreeAddress(t)
		file := writeServers(t, home, servers, map[string]any{"mcpProxy": map[string]any{
			"baseURL": "http://" + address, "addr": address, "name": "peer", "version": "1", "type": "streamable-http",
			"options": map[string]any{"logEnabled": false},
		}})
		r := route{servers: len(servers), home: home}
		r, err := r.listening(t, "http://"+address+"/s0/mcp", program, "-config", file)
		for i := 1; err == nil && i < len(servers); i++ { // one that never answers has no endpoint
			if c, err := newPostClient(t, fmt.Sprintf("http://%s/s%d/mcp", address, i), nil); err == nil {
				r.sessions = append(r.sessions, c)
			} else {
				r.sessions = append(r.sessions, unreachable{err})
			}
		}
		r.more = nil
		return r, err
	}
	return way{name: "TBXark/mcp-proxy " + version, startAt: start, version: []string{program, "-version"}, faults: true}, err
}

// An unreachable session could not be begun.
type unreachable struct{ err error }

func (u unreachable) Request(context.Context, string, any) (json.RawMessage, error) {
	return nil, u.err
}

// installVMCP is toolhive's. Without a container engine it starts no servers: they run behind HTTP.
func installVMCP(testing.TB) (way, error) {
	const version = "v0.47.0" // later versions need Go 1.27
	program, err := installed("github.com/stacklok/toolhive", version, "/cmd/vmcp")
	start := func(t testing.TB, home string, servers entries) (route, error) {
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
		file := filepath.Join(home, "vmcp.yaml")
		if err := writeFile(file, config); err != nil {
			return route{}, err
		}
		address := mcptest.FreeAddress(t)
		host, port, _ := strings.Cut(address, ":")
		r := route{servers: len(servers), merged: true, home: home, remote: true}
		return r.listening(t, "http://"+address+"/mcp", program, "serve", "--config", file, "--host", host, "--port", port)
	}
	return way{name: "vmcp " + version, startAt: start, version: []string{program, "version"}}, err
}

// installed builds a package of a module in the user's cache, once. It does not ask for the
// module's list of versions, which not every proxy has.
func installed(module, version, folder string) (program string, _ error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	name := filepath.Base(module + folder)
	dir := filepath.Join(cache, "metarouter-test", name+"-"+version)
	program = filepath.Join(dir, name)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := writeFile(filepath.Join(dir, "go.mod"), fmt.Sprintf("module peer\n\ngo 1.26\n\nrequire %s %s\n", module, version)); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-mod=mod", "-o", program, module+folder)
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", module+folder, err, out)
	}
	return program, nil
}

// startHub starts mcp-hub, whose clients speak HTTP with SSE.
func startHub(node, script string) func(t testing.TB, home string, servers entries) (route, error) {
	return func(t testing.TB, home string, servers entries) (route, error) {
		file := writeServers(t, home, servers, nil)
		address := mcptest.FreeAddress(t)
		_, port, _ := strings.Cut(address, ":")
		process := mcptest.Start(t, node, []string{script, "--port", port, "--config", file, "--watch"}, home, environmentIn(home))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for {
			c, err := mcptest.NewSSEClient(ctx, t, "http://"+address+"/mcp")
			if err == nil {
				_, err = c.Initialize(ctx)
			}
			if err == nil {
				return route{servers: len(servers), sessions: []mcptest.Requester{c}, merged: true, program: node, home: home, kill: process.Kill,
					write: func(servers entries) { replaceServers(t, file, servers, nil) }}, nil
			}
			select {
			case <-ctx.Done():
				return route{}, err
			case <-process.Done:
				return route{}, errors.New(process.Stderr())
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}

// killServers kills the processes of fake servers that run.
func killServers(t *T, servers entries) {
	t.Helper()
	for _, pid := range alive(t, servers) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

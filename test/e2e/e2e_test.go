//go:build unix

// Package e2e tests the built program as a client's user would run it.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakedocker"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// metarouter is the path of the program under test.
var metarouter string

// builtVariable is the environment variable with that path if another run of the tests has built
// the program.
const builtVariable = "METAROUTER_E2E_BUILT"

func TestMain(m *testing.M) {
	mcptest.ServeIfAsked()
	fakedocker.ServeIfAsked()
	layer.Package()
	flag.Set("test.parallel", "8") // the tests mostly wait for processes
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "metarouter-e2e")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if metarouter = os.Getenv(builtVariable); metarouter != "" {
		return m.Run()
	}
	metarouter = filepath.Join(dir, "metarouter")
	build := exec.Command("go", "build", "-o", metarouter, "github.com/mcp-metarouter/metarouter/cmd/metarouter")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program under test: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// A setup is a folder with a configuration and data of its own.
type setup struct {
	t      *testing.T
	dir    string
	config string
	home   string   // the user's folder, where logins are kept; "" is the folder of the user who runs the test
	env    []string // variables besides the variables of the test
}

type entries map[string]map[string]any

// prepare creates a setup with the entries and the router's own keys.
func prepare(t *testing.T, servers entries, own map[string]any) *setup {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { // a shared router whose clients were killed may write until it has ended
		mcptest.WaitFor(t, "the router to end", func() bool { return !mcptest.IsNamed(dir) })
	})
	s := &setup{t: t, dir: dir, config: filepath.Join(dir, "mcp.json")}
	s.write(servers, own)
	return s
}

// write replaces the configuration as an editor does: a new file by rename.
func (s *setup) write(servers entries, own map[string]any) {
	s.t.Helper()
	file := make(map[string]any)
	if servers != nil {
		file["mcpServers"] = servers
	}
	if own != nil {
		file["metarouter"] = own
	}
	text, err := json.MarshalIndent(file, "", "  ")
	expect.OK(s.t, err)
	expect.OK(s.t, os.WriteFile(s.config+".new", text, 0o600))
	expect.OK(s.t, os.Rename(s.config+".new", s.config))
}

// fake returns an entry with the fake server.
func fake(flags ...string) map[string]any {
	command, args := mcptest.Command(flags...)
	return map[string]any{"command": command, "args": args}
}

// command returns the arguments of a subcommand with this configuration, and the data of this folder unless there are others.
func (s *setup) command(args ...string) []string {
	if !slices.Contains(args, "--data") {
		args = append(args, "--data", filepath.Join(s.dir, "data"))
	}
	return append(args, "--config", s.config)
}

// serve starts the router for a client, which it initializes.
func (s *setup) serve(args ...string) *mcptest.Client {
	s.t.Helper()
	c := s.start(args...)
	_, err := c.Initialize(within(s.t))
	expect.OK(s.t, err, "initialize: %s", c.Stderr())
	return c
}

// serveHTTP starts the router behind HTTP, and returns its URL.
func (s *setup) serveHTTP(args ...string) (url string, process *mcptest.Client) {
	s.t.Helper()
	address := mcptest.FreeAddress(s.t)
	return "http://" + address + "/mcp", s.serveAt(address, args...)
}

// serveAt starts the router behind HTTP at an address.
func (s *setup) serveAt(address string, args ...string) *mcptest.Client {
	s.t.Helper()
	c := s.start(append([]string{"--http", address}, args...)...)
	mcptest.WaitFor(s.t, "the router to listen", func() bool {
		select {
		case <-c.Done:
			s.t.Fatalf("the router has ended:\n%s", c.Stderr())
		default:
		}
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return c
}

// start starts the router.
func (s *setup) start(args ...string) *mcptest.Client {
	s.t.Helper()
	c := mcptest.Start(s.t, metarouter, s.command(append([]string{"serve"}, args...)...), s.dir, s.environment())
	s.t.Cleanup(func() {
		expect.Equal(s.t, strings.Contains(c.Stderr(), "DATA RACE"), false, "the router has a data race:\n%s", c.Stderr())
		if crash, _ := os.ReadFile(filepath.Join(s.dir, "data", "crashes.log")); len(crash) > 0 {
			s.t.Errorf("the shared router has crashed:\n%s", crash)
		}
	})
	return c
}

// environment returns the environment of the program; nil is the environment of the test.
func (s *setup) environment() []string {
	if s.home == "" {
		return nil
	}
	return slices.Concat(os.Environ(), []string{"HOME=" + s.home, "XDG_CONFIG_HOME=" + filepath.Join(s.home, "config"), "METAROUTER_KEYRING=off"}, s.env)
}

// run runs a subcommand to its end.
func (s *setup) run(args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	cmd := exec.CommandContext(within(s.t), metarouter, s.command(args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Dir, cmd.Env = s.dir, s.environment()
	err := cmd.Run()
	if cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// startPiped starts a program, and returns pipes to its stdin and from its stdout.
func startPiped(t *testing.T, cmd *exec.Cmd) (stdin io.WriteCloser, stdout io.Reader) {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	expect.OK(t, err)
	if stdout, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	expect.OK(t, cmd.Start())
	return stdin, stdout
}

// sendJSON sends a request, and returns the response with its body. A nil transport is the default one.
func sendJSON(t *testing.T, transport http.RoundTripper, method, url string, header http.Header, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(within(t), method, url, strings.NewReader(body))
	expect.OK(t, err)
	r.Header.Set("Content-Type", "application/json")
	maps.Copy(r.Header, header)
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	expect.OK(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	expect.OK(t, err)
	return response, string(answer)
}

// bearer is the header with a token; "" without one.
func bearer(token string) http.Header {
	if token == "" {
		return nil
	}
	return http.Header{"Authorization": {"Bearer " + token}}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A result is a CallToolResult.
type result struct {
	Content []struct{ Type, Text string }
	IsError bool
	Meta    map[string]any `json:"_meta"`
	raw     json.RawMessage
}

func (r result) text() string {
	var b strings.Builder
	for _, c := range r.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}

// call calls a tool; a JSON-RPC error fails the test.
func call(t *testing.T, c *mcptest.Client, tool, arguments string) result {
	t.Helper()
	raw, err := c.Call(within(t), tool, json.RawMessage(arguments))
	expect.OK(t, err, "call %s: %s", tool, c.Stderr())
	return decode(t, raw)
}

func decode(t *testing.T, raw json.RawMessage) result {
	t.Helper()
	r := result{raw: raw}
	expect.OK(t, json.Unmarshal(raw, &r), "%s", raw)
	return r
}

// mustCall calls a tool that must succeed.
func mustCall(t *testing.T, c *mcptest.Client, tool, arguments string) result {
	t.Helper()
	r := call(t, c, tool, arguments)
	if r.IsError {
		t.Fatalf("%s failed: %s\n%s", tool, r.text(), c.Stderr())
	}
	return r
}

func names(t *testing.T, c *mcptest.Client) []string {
	t.Helper()
	all, err := mcptest.ToolNames(within(t), c)
	expect.OK(t, err, "tools/list: %s", c.Stderr())
	return all
}

// count returns how often the file has the text; 0 if there is no file.
func count(path, text string) int {
	b, _ := os.ReadFile(path)
	return strings.Count(string(b), text)
}

func writeFile(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }

// openFiles counts the descriptors of a process.
func openFiles(t *testing.T, pid int) int {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	expect.OK(t, err)
	return len(files)
}

// quote returns a value as JSON.
func quote(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

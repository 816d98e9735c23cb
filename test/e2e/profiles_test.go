//go:build unix

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// Three clients with three profiles use one router at once, over stdio and over HTTP: the
// TypeScript SDK has "work", the Inspector's command line "home", and plain clients of both eras
// "seek", which is in search mode. Each sees and uses its part alone. When "work" loses a tool,
// its client is notified and refused, and the others notice nothing.
func TestProfilesOfRealClients(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	external.Node22(t) // else the test is skipped, before anything starts
	for _, transport := range []string{"stdio", "http"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			testProfiles(t, newProfiled(t, transport == "http"))
		})
	}
}

func testProfiles(t *testing.T, p *profiled) {
	sdk := p.startSDK("a__echo", "a__add", "b__pid", "b__pod")
	sdk.sees(t, "a__add", "a__echo")
	var seekers []*session
	for _, era := range []string{"legacy", "modern"} {
		seeker := p.seeker(era)
		searches(t, seeker)
		seekers = append(seekers, seeker)
	}
	if out, err := p.inspect("--protocol-era", "modern", "--method", "tools/list"); err != nil || !strings.Contains(out, `"b__pid"`) || strings.Contains(out, "a__") {
		t.Errorf("the Inspector lists %s, %v", out, err)
	}
	before := p.pid("legacy")
	if out, err := p.callByInspector("modern", "a__echo"); err == nil || !strings.Contains(out, "'a__echo' not found") {
		t.Errorf("the Inspector calls a hidden tool: %s", out)
	}

	for _, seeker := range seekers {
		for len(seeker.notifications) > 0 { // servers may have listed after the first list
			<-seeker.notifications
		}
	}
	p.write(map[string]any{"servers": []string{"a"}, "tools": map[string]any{"deny": []string{"add"}}, "mode": "direct"})
	sdk.sees(t, "a__echo")
	for _, seeker := range seekers {
		searches(t, seeker)
		if n := len(seeker.notifications); n > 0 {
			t.Errorf("a client of another profile got %d notifications, such as %s", n, (<-seeker.notifications).Method)
		}
	}
	if after := p.pid("modern"); after != before {
		t.Errorf("the server of another profile had process %s and has %s", before, after)
	}
	sdk.ends(t)
	p.oneProcess()
}

// profiled is a router with two servers, "a" and "b", and the profiles "work", which has "a",
// "home", which has "b", and "seek", which has both without "add".
type profiled struct {
	*setup
	node, pids string
	url        string // over HTTP
}

func newProfiled(t *testing.T, overHTTP bool) *profiled {
	t.Helper()
	dir := t.TempDir()
	p := &profiled{setup: &setup{t: t, dir: dir, config: filepath.Join(dir, "mcp.json")}, node: external.Node22(t), pids: filepath.Join(dir, "pids")}
	p.write(map[string]any{"servers": []string{"a"}, "mode": "direct"})
	if overHTTP {
		p.url, _ = p.serveHTTP()
	}
	return p
}

// write replaces the configuration by one with this profile "work".
func (p *profiled) write(work map[string]any) {
	p.t.Helper()
	tokens := []map[string]any{{"token": "token-of-any-profile"}, {"token": "token-of-seek", "profile": "seek"}}
	p.setup.write(entries{
		"a": fake("-tools", "echo,add", "-prompts", "greet", "-resources", "file:///a.txt", "-pid-file", p.pids),
		"b": fake("-tools", "pid", "-prompts", "ring", "-resources", "file:///b.txt", "-pid-file", p.pids),
	}, map[string]any{
		"http":     map[string]any{"tokens": tokens},
		"listWait": "1m", // the first lists have both servers, however busy the machine is
		"profiles": map[string]any{
			"work": work,
			"home": map[string]any{"servers": []string{"b"}, "mode": "direct"},
			"seek": map[string]any{"tools": map[string]any{"deny": []string{"add"}}, "mode": "search"},
		},
	})
}

// seeker opens a session with the profile "seek". Over HTTP, the token alone says so.
func (p *profiled) seeker(era string) *session {
	p.t.Helper()
	if p.url == "" {
		c := p.start("--profile", "seek")
		p.t.Cleanup(func() { // the last client waits for the end of the shared router, which writes to the folder
			if err := c.Close(); err != nil {
				p.t.Errorf("a client's leaving: %v\n%s", err, c.Stderr())
			}
		})
		return open(p.t, c, c.Notifications, era, `{}`, nil)
	}
	c := mcptest.NewHTTPClient(p.t, p.url)
	c.Header.Set("Authorization", "Bearer token-of-seek")
	s := open(p.t, c, c.Notifications, era, `{}`, nil)
	if era == "legacy" {
		if _, err := c.Open(within(p.t)); err != nil {
			p.t.Fatal(err)
		}
	}
	return s
}

// searches checks what a client with the profile "seek" sees and uses.
func searches(t *testing.T, s *session) {
	t.Helper()
	listed, err := mcptest.ToolNames(within(t), s)
	if err != nil || !slices.Contains(listed, "find_tools") || slices.Contains(listed, "a__echo") {
		t.Errorf("tools %q, %v", listed, err)
	}
	for method, member := range map[string]string{"prompts/list": "prompts", "resources/list": "resources"} {
		mcptest.WaitFor(t, "both servers' part of "+method, func() bool { // the second may be starting
			items, err := mcptest.List(within(t), s, method, member)
			if err != nil || len(items) > 2 {
				t.Errorf("%s: %s, %v", method, items, err)
			}
			return len(items) >= 2
		})
	}
	for query, want := range map[string]bool{"return the arguments as text": true, "add two numbers": false} {
		found, err := s.call(within(t), "find_tools", map[string]any{"query": query})
		if err != nil || want && !bytes.Contains(found, []byte("a:echo")) || bytes.Contains(found, []byte("a:add")) {
			t.Errorf("find_tools %q: %s, %v", query, found, err)
		}
	}
	answer, err := s.call(within(t), "call_tool", map[string]any{"tool": "a:echo", "arguments": map[string]any{"message": "hi"}})
	if err != nil || !bytes.Contains(answer, []byte("hi")) {
		t.Errorf("call_tool a:echo: %s, %v", answer, err)
	}
	for _, tool := range []string{"a__%s", "a:%s", "%s"} {
		_, hidden := s.call(within(t), strings.ReplaceAll(tool, "%s", "add"), map[string]any{})
		_, missing := s.call(within(t), strings.ReplaceAll(tool, "%s", "adx"), map[string]any{})
		if hidden == nil || missing == nil || hidden.Error() != strings.ReplaceAll(missing.Error(), "adx", "add") {
			t.Errorf("a hidden tool: %v\none that does not exist: %v", hidden, missing)
		}
	}
}

// inspect runs the Inspector's command line with the profile "home".
func (p *profiled) inspect(args ...string) (out string, err error) {
	p.t.Helper()
	target := []string{"--transport", "http", "--server-url", p.url + "/p/home", "--header", "Authorization: Bearer token-of-any-profile"}
	if p.url == "" {
		environment := map[string]string{} // the same as that of the others, so that the router is shared
		for _, variable := range os.Environ() {
			name, value, _ := strings.Cut(variable, "=")
			environment[name] = value
		}
		client := prepare(p.t, entries{"metarouter": {
			"command": metarouter, "args": p.command("serve", "--profile", "home"), "cwd": p.dir, "env": environment,
		}}, nil)
		target = []string{"--config", client.config, "--server", "metarouter"}
	}
	line := slices.Concat([]string{external.InspectorCLI(p.t), "--cli"}, target, args)
	cmd := exec.CommandContext(within(p.t), p.node, line...)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(p.node)+string(os.PathListSeparator)+os.Getenv("PATH"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil { // its last line on stderr says why, after the logs
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		text = append(text, lines[len(lines)-1]...)
	}
	return string(text), err
}

func (p *profiled) callByInspector(era, tool string) (out string, err error) {
	p.t.Helper()
	return p.inspect("--protocol-era", era, "--method", "tools/call", "--tool-name", tool)
}

// pid calls the tool of "b" with the Inspector, and returns the whole answer's text.
func (p *profiled) pid(era string) string {
	p.t.Helper()
	out, err := p.callByInspector(era, "b__pid")
	for _, pid := range mcptest.PIDs(p.t, p.pids) {
		if text, _ := json.Marshal(fmt.Sprint(pid)); err == nil && bytes.Contains([]byte(out), text) {
			return string(text)
		}
	}
	p.t.Errorf("the Inspector calls b__pid: %s, %v", out, err)
	return ""
}

// oneProcess checks that the clients share one router, and that each of its servers has one process.
// Another one may have been started to find out which revisions the server speaks.
func (p *profiled) oneProcess() {
	p.t.Helper()
	if p.url == "" && p.host() == 0 { // which fails if there are several
		p.t.Error("the clients over stdio share no router")
	}
	mcptest.WaitFor(p.t, "one process of each server", func() bool {
		return len(slices.DeleteFunc(mcptest.PIDs(p.t, p.pids), func(pid int) bool { return !mcptest.Alive(pid) })) == 2
	})
}

// An sdk is the TypeScript SDK with the profile "work".
type sdk struct {
	cmd    *exec.Cmd
	lines  *bufio.Reader
	stderr bytes.Buffer
}

func (p *profiled) startSDK(tools ...string) *sdk {
	p.t.Helper()
	target := map[string]any{"url": p.url + "/p/work", "token": "token-of-any-profile"}
	if p.url == "" {
		target = map[string]any{"command": append([]string{metarouter}, p.command("serve", "--profile", "work")...)}
	}
	encoded, err := json.Marshal(target)
	if err != nil {
		p.t.Fatal(err)
	}
	c := &sdk{cmd: exec.CommandContext(within(p.t), p.node, append([]string{sdkProgram(p.t, "profiles.mjs"), string(encoded)}, tools...)...)}
	c.cmd.Dir, c.cmd.Stderr = p.dir, &c.stderr
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	c.lines = bufio.NewReader(out)
	return c
}

// sees checks the next line of the SDK: that it lists these tools, and how its calls end.
func (c *sdk) sees(t *testing.T, tools ...string) {
	t.Helper()
	type answer struct {
		Result *result
		Error  struct {
			Code    int
			Message string
		}
	}
	var seen struct {
		Tools, Prompts, Resources      []string
		Allowed, Lost, Hidden, Missing answer
	}
	line, err := c.lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &seen)
	}
	if err != nil {
		c.cmd.Process.Kill()
		t.Fatalf("the SDK printed %s, %v\n%s", line, err, c.ended())
	}
	slices.Sort(seen.Tools)
	if !slices.Equal(seen.Tools, tools) || !slices.Equal(seen.Prompts, []string{"a__greet"}) || !slices.Equal(seen.Resources, []string{"file:///a.txt"}) {
		t.Errorf("the SDK lists %s", line)
	}
	if r := seen.Allowed.Result; r == nil || r.IsError {
		t.Errorf("the SDK calls a__echo: %s", line)
	}
	hidden, missing := seen.Hidden.Error, seen.Missing.Error
	if slices.Contains(tools, "a__add") {
		if seen.Lost.Result == nil {
			t.Errorf("the SDK calls a__add: %s", line)
		}
	} else if lost := seen.Lost.Error; lost.Code != missing.Code || strings.ReplaceAll(lost.Message, "a__add", "b__pod") != missing.Message {
		t.Errorf("the SDK calls a__add, which its profile has lost: %s", line)
	}
	if hidden.Code == 0 || hidden.Code != missing.Code || strings.ReplaceAll(hidden.Message, "b__pid", "b__pod") != missing.Message {
		t.Errorf("the SDK calls a hidden tool: %+v\nand one that does not exist: %+v", hidden, missing)
	}
}

// ends waits for the end of the SDK.
func (c *sdk) ends(t *testing.T) {
	t.Helper()
	if stderr := c.ended(); c.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("the SDK ends with %v\n%s", c.cmd.ProcessState, stderr)
	}
}

func (c *sdk) ended() string {
	io.Copy(io.Discard, c.lines)
	c.cmd.Wait()
	return c.stderr.String()
}

// sdkProgram returns the path of a program in testdata, in a folder where it finds the TypeScript SDK.
func sdkProgram(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		err = os.WriteFile(program, text, 0o600)
	}
	if err == nil {
		err = os.Symlink(external.NPM(t), filepath.Join(filepath.Dir(program), "node_modules"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return program
}

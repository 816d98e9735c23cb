package fakeserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeserver"
	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// fake starts the fake server and, if handshake, initializes it.
func fake(t *testing.T, handshake bool, flags ...string) *mcptest.Client {
	t.Helper()
	command, args := mcptest.Command(flags...)
	c := mcptest.Start(t, command, args, t.TempDir(), nil)
	if handshake {
		_, err := c.Initialize(deadline(t))
		expect.OK(t, err, "initialize: stderr: %s", c.Stderr())
	}
	return c
}

func mustCall(t *testing.T, c *mcptest.Client, tool string, arguments any) string {
	t.Helper()
	result, err := c.Call(deadline(t), tool, arguments)
	expect.OK(t, err, "call %s", tool)
	return string(result)
}

func mustList(t *testing.T, c *mcptest.Client) []string {
	t.Helper()
	names, err := mcptest.ToolNames(deadline(t), c)
	expect.OK(t, err)
	return names
}

// modernMeta is the member _meta of a modern request.
const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// code returns the code of a JSON-RPC error, 0 for any other error.
func code(err error) int {
	var e *mcptest.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

func TestLegacy(t *testing.T) {
	c := fake(t, false, "-name", "n", "-version", "7", "-instructions", "read me")
	_, err := c.Request(deadline(t), "server/discover", nil)
	expect.Equal(t, code(err), -32601, "server/discover: %v", err)
	got, err := c.Initialize(deadline(t))
	want := `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"n","version":"7"},"instructions":"read me"}`
	if string(got) != want || err != nil {
		t.Errorf("initialize: %s, %v", got, err)
	}
	expect.List(t, mustList(t, c), []string{"echo"}, "tools")
	expect.Equal(t, mustCall(t, c, "echo", json.RawMessage(`{"b":1, "a":"\u00e9"}`)), `{"content":[{"type":"text","text":"{\"b\":1, \"a\":\"\\u00e9\"}"}]}`, "echo")
	_, err = c.Call(deadline(t), "unknown", nil)
	expect.Equal(t, code(err), -32602, "unknown tool: %v", err)
	expect.OK(t, c.Close())
}

func TestModern(t *testing.T) {
	c := fake(t, false, "-era", "modern", "-tools", "raw,grow")
	_, err := c.Request(deadline(t), "tools/list", nil)
	expect.Equal(t, code(err), -32602, "without _meta: %v", err)
	_, err = c.Request(deadline(t), "tools/list", json.RawMessage(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"}}`))
	expect.Equal(t, code(err), -32022, "another version: %v", err)
	got, err := c.Discover(deadline(t))
	if err != nil || !strings.HasPrefix(string(got), `{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{`) ||
		!strings.Contains(string(got), `"supportedVersions":["2026-07-28"]`) {
		t.Errorf("discover: %s, %v", got, err)
	}
	_, err = c.Request(deadline(t), "initialize", nil)
	expect.Equal(t, code(err), -32601, "initialize: %v", err)
	expect.Equal(t, mustCall(t, c, "raw", nil), `{"resultType":"complete",`+fakeserver.RawResult[1:], "raw")

	listening, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := c.Request(listening, "subscriptions/listen", json.RawMessage(`{"notifications":{"toolsListChanged":true}}`))
		ended <- err
	}()
	if n := <-c.Notifications; n.Method != "notifications/subscriptions/acknowledged" || !strings.Contains(string(n.Params), protocol.KeySubscription) {
		t.Errorf("first notification %s %s", n.Method, n.Params)
	}
	mustCall(t, c, "grow", nil)
	if n := <-c.Notifications; n.Method != "notifications/tools/list_changed" || !strings.Contains(string(n.Params), protocol.KeySubscription) {
		t.Errorf("second notification %s %s", n.Method, n.Params)
	}
	expect.List(t, mustList(t, c), []string{"raw", "grow", "grown_1"}, "tools")
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	mustCall(t, c, "grow", nil)
	if err := c.Close(); err != nil || len(c.Notifications) > 0 {
		t.Errorf("%v, and %d notifications after the subscription", err, len(c.Notifications))
	}
}

func TestBothEras(t *testing.T) {
	c := fake(t, true, "-era", "both")
	_, err := c.Discover(deadline(t))
	expect.OK(t, err)
	c = fake(t, false, "-era", "both", "-one-era")
	_, err = c.Request(deadline(t), "server/discover", json.RawMessage("{"+modernMeta+"}"))
	expect.OK(t, err)
	var e *mcptest.Error
	if _, err := c.Initialize(deadline(t)); !errors.As(err, &e) || e.Code != 0 {
		t.Errorf("initialize after discover: %v", err)
	}
}

func TestUnknownMethod(t *testing.T) {
	c := fake(t, false, "-exit-on-unknown")
	if _, err := c.Discover(deadline(t)); !errors.Is(err, mcptest.ErrEnded) || c.Close() == nil || c.Cmd.ProcessState.ExitCode() != 5 {
		t.Errorf("%v, %v", err, c.Cmd.ProcessState)
	}
	for _, flags := range [][]string{{"-silent-on-unknown"}, {"-mute"}, {"-hang", "x,server/discover"}} {
		c := fake(t, false, flags...)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := c.Request(ctx, "server/discover", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v: %v", flags, err)
		}
	}
}

func TestLists(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tools.json")
	recorded := "{\"tools\": [{\"name\":\"z\", \"x\" : 9007199254740993,\n \"inputSchema\":{ }}, {\"name\":\"a\"}]}"
	expect.OK(t, os.WriteFile(file, []byte(recorded), 0o600))
	c := fake(t, true, "-list", file)
	tools, err := mcptest.Tools(deadline(t), c)
	if err != nil || len(tools) != 2 || string(tools[0]) != `{"name":"z", "x" : 9007199254740993, "inputSchema":{ }}` {
		t.Errorf("replayed %s, %v", tools, err)
	}
	mustCall(t, c, "z", nil)

	trace := filepath.Join(t.TempDir(), "trace")
	c = fake(t, true, "-n", "250", "-page", "100", "-trace", trace)
	if got := mustList(t, c); len(got) != 250 || got[249] != "tool_0250" {
		t.Errorf("%d tools", len(got))
	}
	lines, _ := os.ReadFile(trace)
	expect.Equal(t, bytes.Count(lines, []byte(`"method":"tools/list"`)), 3, "requests for 3 pages: %s", lines)

	c = fake(t, true, "-tools", "pid,cwd", "-tool", "x: does x", "-tool", `{"name":"crash","annotations":{"readOnlyHint":true}}`, "-duplicate")
	expect.List(t, mustList(t, c), []string{"pid", "cwd", "x", "crash", "pid"}, "tools")
	expect.Contains(t, mustCall(t, c, "pid", nil), fmt.Sprintf(`"%d"`, c.Cmd.Process.Pid), "pid")
	expect.Contains(t, mustCall(t, c, "cwd", nil), filepath.Base(c.Cmd.Dir), "cwd")

	c = fake(t, true, "-bad-schemas")
	if got := mustList(t, c); len(got) != len(fakeserver.BadTools)+1 || got[0] != "fine" {
		t.Errorf("tools %q", got)
	}
	c = fake(t, true, "-no-tools")
	_, err = mcptest.Tools(deadline(t), c)
	expect.Equal(t, code(err), -32601, "no tools: %v", err)
}

func TestCalls(t *testing.T) {
	c := fake(t, true, "-tools", "raw,error,fail,big,progress,grow,shrink,sleep,hang,crash")
	expect.Equal(t, mustCall(t, c, "raw", nil), fakeserver.RawResult, "raw")
	var e *mcptest.Error
	if _, err := c.Call(deadline(t), "error", nil); !errors.As(err, &e) || string(e.Object) != fakeserver.RawError || e.Code != -31999 {
		t.Errorf("error: %v", err)
	}
	expect.Contains(t, mustCall(t, c, "fail", nil), `"isError":true`, "fail")
	if got := mustCall(t, c, "big", json.RawMessage(`{"bytes":30000000}`)); len(got) < 30_000_000 {
		t.Errorf("big: %d bytes", len(got))
	}
	_, err := c.Request(deadline(t), "tools/call", json.RawMessage(`{"name":"progress","arguments":{"n":3},"_meta":{"progressToken":"p"}}`))
	expect.OK(t, err)
	for i := range 3 {
		if n := <-c.Notifications; string(n.Params) != fmt.Sprintf(`{"progressToken":"p","progress":%d,"total":3}`, i+1) {
			t.Errorf("progress: %s", n.Params)
		}
	}
	mustCall(t, c, "grow", nil)
	mustCall(t, c, "shrink", nil)
	for range 2 {
		if n := <-c.Notifications; n.Method != "notifications/tools/list_changed" {
			t.Errorf("%s", n.Method)
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, "sleep", json.RawMessage(`{"ms":600000}`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sleep: %v", err)
	}
	hanging := make(chan error)
	go func() {
		_, err := c.Call(t.Context(), "hang", nil)
		hanging <- err
	}()
	if _, err := c.Call(deadline(t), "crash", nil); !errors.Is(err, mcptest.ErrEnded) {
		t.Errorf("crash: %v", err)
	}
	if err := <-hanging; !errors.Is(err, mcptest.ErrEnded) {
		t.Errorf("hang: %v", err)
	}
	if c.Close() == nil || c.Cmd.ProcessState.ExitCode() != 7 || !strings.Contains(c.Stderr(), "crash was called") {
		t.Errorf("%v, stderr %q", c.Cmd.ProcessState, c.Stderr())
	}
}

func TestEnv(t *testing.T) {
	command, args := mcptest.Command("-tools", "env")
	c := mcptest.Start(t, command, args, t.TempDir(), []string{"B=2", "A=1"})
	_, err := c.Initialize(deadline(t))
	expect.OK(t, err)
	expect.Contains(t, mustCall(t, c, "env", nil), `"A=1\nB=2`, "env")
}

func TestNoise(t *testing.T) {
	c := fake(t, true, "-noise", "-stderr-flood", "1000000")
	mustCall(t, c, "echo", nil)
	// Before everything and before two answers, all but the empty line; and two
	// huge ones.
	if err := c.Close(); err != nil || c.Stray() != 3*(strings.Count(fakeserver.Stray, "\n")-1)+2 {
		t.Errorf("%d stray lines, error %v", c.Stray(), err)
	}
	expect.Equal(t, len(c.Stderr()), 1_000_000, "bytes on stderr")
}

func TestStarts(t *testing.T) {
	c := fake(t, false, "-exit")
	if <-c.Done; c.Cmd.ProcessState.ExitCode() != 3 || c.Stderr() == "" {
		t.Errorf("-exit: %v", c.Cmd.ProcessState)
	}
	state := filepath.Join(t.TempDir(), "state")
	for i, want := range []int{3, 3, 0} {
		c := fake(t, false, "-crash-at-start-times", "2", "-state", state)
		if c.Close(); c.Cmd.ProcessState.ExitCode() != want {
			t.Errorf("start %d: %v", i+1, c.Cmd.ProcessState)
		}
	}
	c = fake(t, true, "-exit-after", "2", "-start-delay", "200ms")
	mustCall(t, c, "echo", nil)
	mustCall(t, c, "echo", nil)
	if <-c.Done; c.Cmd.ProcessState.ExitCode() != 4 {
		t.Errorf("-exit-after: %v", c.Cmd.ProcessState)
	}
	file := filepath.Join(t.TempDir(), "profile")
	first := fake(t, true, "-exclusive", file)
	second := fake(t, false, "-exclusive", file)
	if <-second.Done; second.Cmd.ProcessState.ExitCode() != 6 {
		t.Errorf("-exclusive: %v", second.Cmd.ProcessState)
	}
	first.Kill()
	fake(t, true, "-exclusive", file)
	c = fake(t, false, "-lifetime", "300ms", "-ignore-eof", "-mute")
	expect.OK(t, c.Close(), "-lifetime")
}

func TestStubborn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	c := fake(t, true, "-ignore-eof", "-ignore-term", "-grandchild", "-grandchild-setsid", "-pid-file", file)
	pids := mcptest.PIDs(t, file)
	if len(pids) != 3 || pids[0] != c.Cmd.Process.Pid {
		t.Fatalf("pids %v", pids)
	}
	c.CloseInput()
	c.SignalGroup(syscall.SIGTERM)
	time.Sleep(200 * time.Millisecond) // nothing may happen
	for _, pid := range pids {
		if !mcptest.Alive(pid) {
			t.Errorf("%d has ended", pid)
		}
	}
	c.SignalGroup(syscall.SIGKILL)
	mcptest.WaitFor(t, "the group to be gone", func() bool { return !mcptest.Alive(pids[0]) && !mcptest.Alive(pids[1]) })
	if !mcptest.Alive(pids[2]) {
		t.Error("the grandchild of its own session was in the group")
	}
	if p, err := os.FindProcess(pids[2]); err == nil {
		p.Kill()
	}
	mcptest.WaitFor(t, "the last to be gone", func() bool { return !mcptest.Alive(pids[2]) })
}

// Each execution has a line when it begins and one before its answer.
func TestLedger(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "ledger")
	c := fake(t, true, "-name", "bank", "-tools", "ledger_charge,ledger_read", "-ledger", ledger)
	expect.Contains(t, mustCall(t, c, "ledger_charge", map[string]any{"id": "c1", "ms": 20}), `"c1"`, "the answer")
	ctx, cancel := context.WithCancel(deadline(t))
	defer cancel()
	go c.Call(ctx, "ledger_read", map[string]any{"id": "r1", "ms": 60_000})
	lines := func() (all []fakeserver.LedgerLine) {
		b, err := os.ReadFile(ledger)
		expect.OK(t, err)
		for line := range strings.Lines(string(b)) {
			var l fakeserver.LedgerLine
			expect.OK(t, json.Unmarshal([]byte(line), &l), "%s", line)
			all = append(all, l)
		}
		return all
	}
	mcptest.WaitFor(t, "the call that hangs", func() bool { return len(lines()) == 3 })
	cancel()
	mustCall(t, c, "ledger_charge", map[string]any{"id": "c2"})
	var got []string
	for _, l := range lines() {
		if l.Name != "bank" || l.PID != c.Cmd.Process.Pid || time.Since(l.At) > time.Minute {
			t.Errorf("%+v", l)
		}
		got = append(got, fmt.Sprint(l.Tool, " ", l.ID, " ", l.Ended))
	}
	want := []string{"ledger_charge c1 false", "ledger_charge c1 true", "ledger_read r1 false", "ledger_charge c2 false", "ledger_charge c2 true"}
	expect.List(t, got, want, "the ledger")
}

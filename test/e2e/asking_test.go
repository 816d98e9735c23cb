//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// askingFirst prepares a router whose profile "default" asks before each call of "echo".
func askingFirst(t *testing.T) *setup {
	t.Helper()
	return prepare(t, entries{"s": fake("-tools", "echo,add")}, map[string]any{
		"profiles": map[string]any{"default": map[string]any{"tools": map[string]any{"ask": []string{"echo"}}}},
	})
}

const (
	asked    = `the tool echo of the server s`
	hello    = `{"message":"hello"}`
	personal = `{"elicitation":{"form":{}}}`
)

// outcome returns the text of a result, and whether the tool ran.
func outcome(t *testing.T, raw json.RawMessage) (text string, ran bool) {
	t.Helper()
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) == 0 {
		t.Fatalf("no result of a tool: %s", raw)
	}
	return r.Content[0].Text, !r.IsError && strings.Contains(r.Content[0].Text, "hello")
}

// If the router is killed while a person is asked, the next router asks again: the answer to the first
// question, which comes after that, runs nothing.
func TestAskingRouterIsKilled(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := prepare(t, entries{"s": fake("-tools", "echo,add")}, map[string]any{
		"profiles":  map[string]any{"default": map[string]any{"ask": "always"}},
		"accessLog": "access.log",
	})
	c := s.start()
	c.Declare(personal)
	var questions atomic.Int32
	c.OnRequest(func(string, json.RawMessage) (json.RawMessage, *mcptest.Error) {
		if questions.Add(1) > 1 {
			return json.RawMessage(`{"action":"decline"}`), nil
		}
		s.kill(syscall.SIGKILL)
		return json.RawMessage(`{"action":"accept"}`), nil
	})
	_, err := c.Initialize(within(t))
	expect.OK(t, err)
	result, err := c.Call(within(t), "s__echo", json.RawMessage(hello))
	expect.OK(t, err)
	if text, ran := outcome(t, result); ran || !strings.Contains(text, "declined") || questions.Load() != 2 {
		t.Errorf("after %d questions: %s", questions.Load(), text)
	}
	c.OnRequest(func(string, json.RawMessage) (json.RawMessage, *mcptest.Error) {
		return json.RawMessage(`{"action":"accept"}`), nil
	})
	if result, err := c.Call(within(t), "s__add", json.RawMessage(`{"a":1,"b":2}`)); err != nil {
		t.Errorf("a call after that: %s, %v", result, err)
	}
	mcptest.WaitFor(t, "the access log", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.dir, "access.log"))
		for line := range bytes.Lines(text) {
			if bytes.Contains(line, []byte(`"tool":"echo"`)) && bytes.Contains(line, []byte(`"outcome":"ok"`)) {
				t.Fatalf("the call that was declined has run:\n%s", text)
			}
		}
		return bytes.Contains(text, []byte(`"tool":"add"`))
	})
}

// A command asks at the terminal, if a running router carries it out too. Without a terminal it
// fails, unless --yes was typed.
func TestAskingCommands(t *testing.T) {
	t.Parallel()
	s := askingFirst(t)
	check := func(t *testing.T) {
		for _, command := range [][]string{{"call", "s:echo", "message=hello"}, {"route", "echo a message", "message=hello"}} {
			if stdout, stderr, code := s.run(command...); code != 1 || !strings.Contains(stderr, asked) || !strings.Contains(stderr, "--yes") {
				t.Errorf("%s: exit code %d\n%s%s", command[0], code, stdout, stderr)
			}
			if stdout, stderr, code := s.run(append(command, "--yes")...); code != 0 || !strings.Contains(stdout, "hello") {
				t.Errorf("%s --yes: exit code %d\n%s%s", command[0], code, stdout, stderr)
			}
		}
		script := filepath.Join(t.TempDir(), "s.js")
		expect.OK(t, os.WriteFile(script, []byte(`return await call("s:echo", {message: "hello"})`), 0o600))
		for _, typed := range []struct {
			command []string
			answer  string
			want    int
		}{{[]string{"call", "s:echo", "message=hello"}, "y\n", 0}, {[]string{"call", "s:echo", "message=hello"}, "n\n", 1}, {[]string{"script", script}, "y\n", 0}, {[]string{"script", script}, "n\n", 1}} {
			p := openPTY(t, 200, 40)
			cmd := exec.CommandContext(within(t), metarouter, s.command(typed.command...)...)
			var stdout bytes.Buffer
			cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.dir, p.slave, &stdout, p.slave
			expect.OK(t, cmd.Start())
			mcptest.WaitFor(t, "the question", func() bool { return strings.Contains(p.shown(), "[y/N]") })
			if shown := p.shown(); !strings.Contains(shown, asked) || !strings.Contains(shown, `"message": "hello"`) {
				t.Errorf("the question is %q", shown)
			}
			p.master.WriteString(typed.answer)
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != typed.want || strings.Contains(stdout.String(), "hello") != (typed.want == 0) {
				t.Errorf("%+v: exit code %d\n%s\n%s", typed, code, stdout.String(), p.shown())
			}
		}
	}
	t.Run("a router of its own", check)
	s.serve()
	t.Run("a running router", check)
}

package external_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Each real server connects, lists what it should, and answers its call in the
// same bytes by two processes of it.
func TestRealServers(t *testing.T) {
	dir := t.TempDir()
	for _, s := range external.RealServers(t, dir) {
		t.Run(s.Name, func(t *testing.T) {
			ctx := deadline(t)
			var first json.RawMessage
			for range 2 {
				c := s.Start(t, dir)
				if _, err := c.Initialize(ctx); err != nil {
					t.Fatalf("initialize: %v; stderr: %s", err, c.Stderr())
				}
				names, err := mcptest.ToolNames(ctx, c)
				if err != nil || len(names) != s.Tools || !slices.Contains(names, s.Call.Tool) {
					t.Errorf("%d tools %q, error %v; want %d with %s", len(names), names, err, s.Tools, s.Call.Tool)
				}
				result, err := c.Call(ctx, s.Call.Tool, s.Call.Arguments)
				if err != nil {
					t.Fatalf("call: %v; stderr: %s", err, c.Stderr())
				}
				if first != nil && !bytes.Equal(result, first) {
					t.Errorf("another answer: %s", result)
				}
				first = result
				var failed struct{ IsError bool }
				if err := json.Unmarshal(result, &failed); err != nil || failed.IsError != s.Fails {
					t.Errorf("isError %v, error %v: %s", failed.IsError, err, result)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestRealServersEra(t *testing.T) {
	dir := t.TempDir()
	for _, s := range external.RealServers(t, dir) {
		t.Run(s.Name, func(t *testing.T) {
			c := s.Start(t, dir)
			_, err := c.Discover(deadline(t))
			if e := (*mcptest.Error)(nil); s.Modern != (err == nil) || err != nil && !errors.As(err, &e) {
				t.Errorf("server/discover: %v, want modern %v", err, s.Modern)
			}
			if !s.Modern {
				return
			}
			if names, err := mcptest.ToolNames(deadline(t), c); err != nil || len(names) != s.Tools {
				t.Errorf("%d tools, error %v", len(names), err)
			}
		})
	}
}

func TestTypeScriptClient(t *testing.T) {
	dir := t.TempDir()
	s := external.RealServers(t, dir)[0]
	cmd := exec.CommandContext(deadline(t), external.Node22(t), external.TypeScriptClient(t),
		string(protocol.Encode(append([]string{s.Command}, s.Args...))), s.Call.Tool, string(s.Call.Arguments))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err, string(err.(*exec.ExitError).Stderr))
	}
	var answer struct {
		ProtocolVersion string
		ServerInfo      struct{ Name string }
		Tools           []string
		Result          struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatal(err)
	}
	if answer.ProtocolVersion != "2025-11-25" || answer.ServerInfo.Name == "" || len(answer.Tools) != s.Tools ||
		len(answer.Result.Content) != 1 || answer.Result.Content[0].Text != "Echo: hello" {
		t.Errorf("got %s", out)
	}
}

func TestInspector(t *testing.T) {
	s := external.RealServers(t, t.TempDir())[0]
	args := append([]string{external.InspectorCLI(t), "--cli", s.Command}, s.Args...)
	out, err := exec.CommandContext(deadline(t), external.Node22(t), append(args, "--method", "tools/list", "--format", "json")...).Output()
	if err != nil {
		t.Fatal(err, string(err.(*exec.ExitError).Stderr))
	}
	var answer struct {
		Result struct{ Tools []json.RawMessage }
	}
	if err := json.Unmarshal(out, &answer); err != nil || len(answer.Result.Tools) < s.Tools { // it has capabilities, and is shown more
		t.Errorf("%d tools, error %v: %.500s", len(answer.Result.Tools), err, out)
	}
}

package adapter

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A router that is opened follows its file, and leaves nothing behind.
func TestOpen(t *testing.T) {
	layer.Integration(t)
	dir := t.TempDir()
	file, pids := filepath.Join(dir, "mcp.json"), filepath.Join(dir, "pids")
	begin := filepath.Join(dir, "begin")
	served := entry("-tools", "echo", "-pid-file", pids, "-ignore-eof", "-grandchild", "-start-with", begin)
	write(t, file, map[string]any{"s": served})
	r, err := Open(t.Context(), Options{Name: "local", Log: zaptest.NewLogger(t)}, file)
	expect.OK(t, err)
	if h := r.Health(t.Context()); h.Name != "local" || len(h.Parts) != 1 || h.Tools != 0 {
		t.Errorf("%+v", h)
	}
	expect.OK(t, os.WriteFile(begin, nil, 0o600))
	settled(t, r)
	mcptest.WaitFor(t, "the server", func() bool { return r.Health(t.Context()).State != Starting }) // its tools are known a moment before
	if h := r.Health(t.Context()); h.State != Up || h.Parts[0].Name != "s" || h.Tools != 1 {
		t.Errorf("%+v", h)
	}
	result, err := Execute(t.Context(), r, "s:echo", map[string]string{"message": "hello"})
	if err != nil || result.Text() != `{"message":"hello"}` || result.Tool.ID != "s:echo" || result.Err != nil {
		t.Errorf("%s, %v", result.JSON, err)
	}
	write(t, file, map[string]any{"s": served, "bad": entry("-exit")})
	mcptest.WaitFor(t, "the edit", func() bool { return len(r.Health(t.Context()).Parts) == 2 })
	if err := r.Run(t.Context(), nil); err == nil {
		t.Error("it runs twice")
	}
	tool, _ := Tool(r, "s:echo")
	expect.OK(t, r.Close())
	mcptest.Gone(t, pids, 2)
	if h := r.Health(t.Context()); h.State != Down || h.Reason != "it is closed" {
		t.Errorf("%+v", h)
	}
	if result, err := r.Execute(t.Context(), selector.Call{Tool: tool}); err != nil || !errors.Is(result.Err, session.ErrNotSent) {
		t.Errorf("after Close: %s, %v", result.JSON, err)
	}
	expect.OK(t, r.Close())
}

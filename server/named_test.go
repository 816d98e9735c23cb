package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// find_tools names the servers, and the text changes only when servers come or go.
func TestFindToolsNamesServers(t *testing.T) {
	r := newFake(tool("files", "read"), tool("git", "log"))
	r.servers = []adapter.ServerInfo{info("git", "ready", 1), info("files", "failed", 1), info("off", "disabled", 0)}
	s := newAlone(r, Options{Mode: exposure.Search})
	described := func() string {
		page, _ := s.catalog.View().Tools.Page("")
		text := ""
		_ = wire.Elements(wire.Member(page, "tools"), func(tool []byte) bool {
			if name, _ := wire.String(wire.Member(tool, "name")); name == "find_tools" {
				text, _ = wire.String(wire.Member(tool, "description"))
			}
			return true
		})
		return text
	}
	if got := described(); !strings.HasSuffix(got, "(prompts/get). The servers: files, git.") {
		t.Errorf("described as %s", got)
	}
	options := s.display.catalogOptions()
	r.servers[1] = info("files", "ready", 7)
	r.replace("files", tool("files", "read"), tool("files", "write"))
	if described(); s.display.catalogOptions() != options {
		t.Error("another tool changes what is shown of our own")
	}
	r.servers = nil
	for i := range 200 {
		r.servers = append(r.servers, info(fmt.Sprintf("server-%03d", i), "ready", 1))
	}
	r.replace("files", tool("files", "read"))
	got := described()
	if n := len([]rune(got)); n > maxFindTools || n < maxFindTools-30 || !strings.Contains(got, "The servers: server-000, ") || !strings.HasSuffix(got, " more.") {
		t.Errorf("%d characters: %s", n, got)
	}
	r.servers = r.servers[:199]
	r.replace("files", tool("files", "write"))
	if described() == got {
		t.Error("the text stays after a server has gone")
	}
	// A profile names its own servers: they are those of its router.
	own := newAlone(newFake(registry.NormalizedTool{ID: "a:b", Server: "a", Name: "b", Definition: json.RawMessage(`{"name":"b"}`), InputSchema: json.RawMessage(`{"type":"object"}`)}), Options{Mode: exposure.Search})
	if page, _ := own.catalog.View().Tools.Page(""); strings.Contains(string(page), "The servers:") {
		t.Errorf("%s", page)
	}
}

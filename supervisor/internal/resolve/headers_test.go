package resolve

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The headers that a command prints win, it runs for each connection, and it knows the server.
func TestHeadersHelper(t *testing.T) {
	var ran []process.Command
	run := func(_ context.Context, c process.Command, _ *process.Tail, _ *process.LogFile) ([]byte, string, error) {
		ran = append(ran, c)
		return []byte(`{"authorization": "Bearer hunter2-hunter2", "X-New": "n"}` + "\n"), "", nil
	}
	entry := config.Server{
		Name: "docs", URL: "https://docs.example/mcp", Headers: map[string]string{"Authorization": "Bearer old", "X-Old": "o"},
		References: []reference.Reference{{Text: "headersHelper", Kind: reference.Headers, Body: "./print", Dir: t.TempDir()}},
	}
	s := New(nil, run).Server(nil, nil)
	for range 2 {
		resolved, err := s.Resolve(t.Context(), entry)
		expect.OK(t, err)
		want := map[string]string{"authorization": "Bearer hunter2-hunter2", "X-New": "n", "X-Old": "o"}
		if !maps.Equal(resolved.Headers, want) {
			t.Errorf("headers %q", resolved.Headers)
		}
	}
	expect.Equal(t, len(ran), 2, "the command ran … times for two connections")
	for _, variable := range []string{"CLAUDE_CODE_MCP_SERVER_NAME=docs", "CLAUDE_CODE_MCP_SERVER_URL=https://docs.example/mcp"} {
		if !slices.Contains(ran[0].Env, variable) {
			t.Errorf("it does not get %s", variable)
		}
	}
	if got := s.Hide("I got Bearer hunter2-hunter2."); strings.Contains(got, "hunter2") {
		t.Errorf("a server may print %q", got)
	}
	if len(entry.Headers) != 2 || entry.Headers["Authorization"] != "Bearer old" {
		t.Errorf("the entry was changed: %q", entry.Headers)
	}
}

func TestParseHeaders(t *testing.T) {
	for _, printed := range []string{
		"", "null", "[]", `{"A": 1}`, `{"A": "hunter2"} hunter2`, `{"A B": "hunter2"}`, `{"A": "hunter2\r\nB: c"}`, `{"content-length": "7"}`,
		`{"A": "` + strings.Repeat("hunter2", 40_000) + `"}`, `{` + strings.Repeat(`"A": "x",`, 1) + `"B": null, "": "hunter2"}`,
	} {
		headers, err := parseHeaders(printed)
		if err == nil {
			t.Errorf("%.50s gives %d headers", printed, len(headers))
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error quotes what was printed: %v", err)
		}
	}
}

package builtin

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// connect runs a bundled server and returns a client's session with it.
func connect(t *testing.T, name string, args ...string) *mcp.ClientSession {
	t.Helper()
	server, err := New(name, args)
	expect.OK(t, err)
	st, ct := mcp.NewInMemoryTransports()
	ss, err := server.Connect(t.Context(), st, nil)
	expect.OK(t, err)
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), ct, nil)
	expect.OK(t, err)
	t.Cleanup(func() {
		cs.Close()
		ss.Wait()
	})
	return cs
}

// call calls a tool with arguments as JSON.
func call(t *testing.T, cs *mcp.ClientSession, tool, args string) *mcp.CallToolResult {
	t.Helper()
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	expect.OK(t, err, "%s %s", tool, args)
	return res
}

// answer is the structured content of a call that succeeds, which is also its
// text.
func answer[T any](t *testing.T, cs *mcp.ClientSession, tool, args string) T {
	t.Helper()
	res := call(t, cs, tool, args)
	text := resultText(t, res)
	if res.IsError {
		t.Fatalf("%s %s: %s", tool, args, text)
	}
	var fromText any
	expect.OK(t, json.Unmarshal([]byte(text), &fromText), "%s: text is not JSON: %s", tool, text)
	expect.Deep(t, fromText, res.StructuredContent, "%s: text %s differs from structuredContent", tool, text)
	var out T
	expect.OK(t, json.Unmarshal([]byte(text), &out))
	return out
}

// refuse checks that a call is a tool error whose text has all the words.
func refuse(t *testing.T, cs *mcp.ClientSession, tool, args string, words ...string) {
	t.Helper()
	res := call(t, cs, tool, args)
	text := resultText(t, res)
	if !res.IsError {
		t.Errorf("%s %s: no error: %s", tool, args, text)
	}
	for _, w := range words {
		expect.Contains(t, text, w, "%s %s: error", tool, args)
	}
}

func resultText(t *testing.T, res *mcp.CallToolResult) string {
	t.Helper()
	if len(res.Content) != 1 {
		t.Fatalf("%d content blocks, want 1", len(res.Content))
	}
	text, ok := res.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("content is %T, want text", res.Content[0])
	}
	return text.Text
}

func TestNewRefuses(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"nope", nil, "files, utilities"},
		{"", nil, "files, utilities"},
		{"utilities", []string{"x"}, "no arguments"},
		{"files", []string{"a", "b"}, "one root folder"},
		{"files", []string{t.TempDir() + "/missing"}, "missing"},
	} {
		_, err := New(test.name, test.args)
		expect.Error(t, err, test.want, "New(%q, %q)", test.name, test.args)
	}
}

func TestToolList(t *testing.T) {
	want := map[string][]string{
		"utilities": {"jsonschema_validate", "unit_convert"},
		"files":     {"list_directory", "read_file"},
	}
	for _, name := range Names() {
		cs := connect(t, name)
		list, err := cs.ListTools(t.Context(), nil)
		expect.OK(t, err)
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
			checkTool(t, tool)
		}
		slices.Sort(names)
		expect.List(t, names, want[name], "%s", name)
	}
}

func checkTool(t *testing.T, tool *mcp.Tool) {
	t.Helper()
	a := tool.Annotations
	if a == nil || !a.ReadOnlyHint || !a.IdempotentHint || a.DestructiveHint == nil || *a.DestructiveHint || a.OpenWorldHint == nil || *a.OpenWorldHint {
		t.Errorf("%s: annotations %+v", tool.Name, a)
	}
	if tool.Title == "" || len(tool.Description) < 60 {
		t.Errorf("%s: title %q, description %q", tool.Name, tool.Title, tool.Description)
	}
	for side, schema := range map[string]any{"input": tool.InputSchema, "output": tool.OutputSchema} {
		s, ok := schema.(map[string]any)
		if !ok || s["type"] != "object" || s["additionalProperties"] != false {
			t.Errorf("%s: %s schema %v is not a closed object", tool.Name, side, schema)
			continue
		}
		for name, p := range s["properties"].(map[string]any) {
			if _, ok := p.(map[string]any); !ok {
				t.Errorf("%s: %s property %s is %v; some clients refuse sub-schemas that are not objects", tool.Name, side, name, p)
			}
		}
	}
}

// Over stdio a message is one line, whatever the schemas look like here.
func TestOneLineAMessage(t *testing.T) {
	server, err := New("utilities", nil)
	expect.OK(t, err)
	stdin, toServer := io.Pipe()
	fromServer, stdout := io.Pipe()
	done := make(chan error)
	go func() { done <- server.Run(t.Context(), &mcp.IOTransport{Reader: stdin, Writer: stdout}) }()
	lines := bufio.NewScanner(fromServer)
	for _, request := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
	} {
		io.WriteString(toServer, request+"\n")
		if !lines.Scan() || !json.Valid(lines.Bytes()) {
			t.Fatalf("answer to %s: %q, %v", request, lines.Text(), lines.Err())
		}
	}
	toServer.Close()
	<-done
}

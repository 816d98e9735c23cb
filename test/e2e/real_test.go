//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// declaredByRouter is what servers are told that their client can do: what they
// offer depends on it.
const declaredByRouter = `{"roots":{"listChanged":true},"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}}}`

// realEntries are the published servers as entries of a configuration.
func realEntries(servers []external.RealServer) entries {
	all := entries{}
	for _, s := range servers {
		all[s.Name] = map[string]any{"command": s.Command, "args": s.Args, "env": s.Env}
	}
	return all
}

// Seven published servers at once: every tool is listed as the server itself
// lists it, and a call's result is the server's own, byte for byte, but for
// _meta.
func TestRealServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	servers := external.RealServers(t, dir)
	s := prepare(t, realEntries(servers), map[string]any{"listWait": "150s"})
	s.dir = dir // the servers' working directory
	c := s.serve("--mode", "direct")
	listed := definitions(t, c)
	states := s.states()
	total := 0
	for _, server := range servers {
		t.Run(server.Name, func(t *testing.T) {
			direct := server.Start(t, dir)
			direct.Declare(declaredByRouter)
			if era := states[server.Name].Era; era != "legacy" && !server.Modern { // that of our client, if it came before the start
				t.Errorf("connected in the %s era", era)
			}
			open := direct.Initialize
			if server.Modern {
				open = direct.Discover
			}
			_, err := open(within(t))
			expect.OK(t, err)
			own, err := mcptest.Tools(within(t), direct)
			if err != nil || len(own) == 0 {
				t.Fatalf("the server itself lists %d tools, %v", len(own), err)
			}
			total += len(own)
			for _, definition := range own {
				name := member(t, definition, "name")
				exposed := server.Name + "__" + name
				ours, ok := listed[exposed]
				if !ok {
					t.Errorf("%s is not listed", exposed)
					continue
				}
				want := bytes.Replace(definition, []byte(`"name":"`+name+`"`), []byte(`"name":"`+exposed+`"`), 1)
				for _, key := range []string{"inputSchema", "outputSchema"} { // clients with a checker of 2020-12 refuse an older dialect
					if schema := wire.Member(want, key); bytes.Contains(wire.Member(schema, "$schema"), []byte("draft-07")) {
						want = wire.SetMember(want, key, wire.DeleteMember(schema, "$schema"))
					}
				}
				if !bytes.Equal(ours, want) {
					t.Errorf("%s is listed as\n%s\nand not as\n%s", exposed, ours, want)
				}
			}
			want, err := direct.Call(within(t), server.Call.Tool, server.Call.Arguments)
			expect.OK(t, err, "the direct call")
			got := call(t, c, server.Name+"__"+server.Call.Tool, string(server.Call.Arguments))
			expect.Equal(t, got.IsError, server.Fails, "isError is …: %s", got.text())
			// This client is a legacy one, which knows no resultType.
			want = bytes.Replace(want, []byte(`"resultType":"complete",`), nil, 1)
			if a, b := withoutMeta(t, got.raw), withoutMeta(t, want); !bytes.Equal(a, b) {
				t.Errorf("through the router\n%s\ndirectly\n%s", a, b)
			}
			if got.Meta["server"] != server.Name || got.Meta["tool_name"] != server.Call.Tool {
				t.Errorf("_meta is %v", got.Meta)
			}
		})
	}
	expect.Equal(t, len(listed), total, "tools are listed")
}

// definitions returns the listed tools by name.
func definitions(t *testing.T, c *mcptest.Client) map[string]json.RawMessage {
	t.Helper()
	all, err := mcptest.Tools(within(t), c)
	expect.OK(t, err, "tools/list: %s", c.Stderr())
	byName := make(map[string]json.RawMessage)
	for _, definition := range all {
		byName[member(t, definition, "name")] = definition
	}
	return byName
}

func member(t *testing.T, object json.RawMessage, key string) string {
	t.Helper()
	var m map[string]json.RawMessage
	var value string
	expect.OK(t, json.Unmarshal(object, &m))
	expect.OK(t, json.Unmarshal(m[key], &value), "%s of %s", key, object)
	return value
}

// withoutMeta cuts the member _meta out of an object, and leaves the rest as it
// is, byte for byte.
func withoutMeta(t *testing.T, object json.RawMessage) []byte {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(object))
	out := []byte{'{'}
	d.Token() // {
	for d.More() {
		key, err := d.Token()
		expect.OK(t, err)
		var value json.RawMessage
		expect.OK(t, d.Decode(&value))
		if key != "_meta" {
			out = append(fmt.Appendf(out, "%q:", key), value...)
			out = append(out, ',')
		}
	}
	return out
}

// A state is a server's as the servers command prints it.
type state struct {
	Name, State, Era string
	Tools, PID       int
	LastError        string `json:"last_error"`
}

// states asks the running router.
func (s *setup) states() map[string]state {
	s.t.Helper()
	out, stderr, code := s.run("servers", "--json")
	var all []state
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 0 {
		s.t.Fatalf("servers: %v, exit code %d\n%s", err, code, stderr)
	}
	byName := make(map[string]state)
	for _, st := range all {
		byName[st.Name] = st
	}
	return byName
}

// The official TypeScript client, whose schemas are strict.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	servers := external.RealServers(t, dir)
	for _, mode := range []string{"direct", "search"} {
		s := prepare(t, realEntries(servers[:3]), map[string]any{"listWait": "55s"})
		router, err := json.Marshal(append([]string{metarouter}, s.command("serve", "--mode", mode)...))
		expect.OK(t, err)
		tool, arguments := "everything__echo", `{"message":"from TypeScript"}`
		if mode == "search" {
			tool, arguments = "call_tool", `{"tool":"everything:echo","arguments":{"message":"from TypeScript"}}`
		}
		cmd := exec.CommandContext(within(t), external.Node22(t), external.TypeScriptClient(t), string(router), tool, arguments)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		expect.OK(t, err, "%s: %s", mode, stderr.String())
		var answer struct {
			Tools  []string
			Result json.RawMessage
		}
		expect.OK(t, json.Unmarshal(out, &answer))
		if r := decode(t, answer.Result); r.text() != "Echo: from TypeScript" {
			t.Errorf("%s: answered %s", mode, answer.Result)
		}
		// server-everything has four more tools for clients that can be asked things,
		// as the router says it can.
		want := servers[0].Tools + 4 + servers[1].Tools + servers[2].Tools
		if mode == "search" {
			want = 5
		}
		if len(answer.Tools) != want || !slices.Contains(answer.Tools, tool) {
			t.Errorf("%s: %d tools listed, want %d: %v", mode, len(answer.Tools), want, answer.Tools)
		}
	}
}

// The MCP Inspector's command line, in each way that it opens a session.
func TestInspector(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	dir := t.TempDir()
	servers := external.RealServers(t, dir)
	s := prepare(t, realEntries(servers[:2]), map[string]any{"listWait": "150s"})
	// The client's own configuration: one entry, ours.
	client := prepare(t, entries{"metarouter": {"command": metarouter, "args": s.command("serve", "--mode", "direct")}}, nil)
	node := external.Node22(t)
	inspect := func(args ...string) string {
		t.Helper()
		line := []string{external.InspectorCLI(t), "--cli", "--config", client.config, "--server", "metarouter"}
		cmd := exec.CommandContext(within(t), node, append(line, args...)...)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(node)+string(os.PathListSeparator)+os.Getenv("PATH"))
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		expect.OK(t, err, "inspector %v: %s%s", args, out, stderr.String())
		return string(out)
	}
	for _, era := range []string{"legacy", "auto", "modern"} {
		if out := inspect("--protocol-era", era, "--method", "tools/list"); !strings.Contains(out, `"everything__echo"`) || !strings.Contains(out, `"filesystem__read_text_file"`) {
			t.Errorf("%s: tools/list printed %s", era, out)
		}
		expect.Contains(t, inspect("--protocol-era", era, "--method", "tools/call", "--tool-name", "everything__echo", "--tool-arg", "message=hi"), "Echo: hi", "%s: tools/call printed", era)
	}
}

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
	"time"

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
			if _, err := open(within(t)); err != nil {
				t.Fatal(err)
			}
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
				} else if want := bytes.Replace(definition, []byte(`"name":"`+name+`"`), []byte(`"name":"`+exposed+`"`), 1); !bytes.Equal(ours, want) {
					t.Errorf("%s is listed as\n%s\nand not as\n%s", exposed, ours, want)
				}
			}
			want, err := direct.Call(within(t), server.Call.Tool, server.Call.Arguments)
			if err != nil {
				t.Fatalf("the direct call: %v", err)
			}
			got := call(t, c, server.Name+"__"+server.Call.Tool, string(server.Call.Arguments))
			if got.IsError != server.Fails {
				t.Errorf("isError is %v, want %v: %s", got.IsError, server.Fails, got.text())
			}
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
	if len(listed) != total {
		t.Errorf("%d tools listed, the servers have %d", len(listed), total)
	}
}

// definitions returns the listed tools by name.
func definitions(t *testing.T, c *mcptest.Client) map[string]json.RawMessage {
	t.Helper()
	all, err := mcptest.Tools(within(t), c)
	if err != nil {
		t.Fatalf("tools/list: %v\n%s", err, c.Stderr())
	}
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
	if err := json.Unmarshal(object, &m); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(m[key], &value); err != nil {
		t.Fatalf("%s of %s: %v", key, object, err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
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

// The task of choosing a tool, on the published Playwright server.
func TestTakeAScreenshot(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	dir := t.TempDir()
	all := realEntries(external.RealServers(t, dir))
	var routed struct{ Tool string }
	for server, tools := range map[string]string{"playwright": "", "fake": "browser_navigate,browser_screenshot,browser_click"} {
		only := entries{server: all[server]}
		want := server + ":browser_take_screenshot"
		if tools != "" {
			only[server], want = fake("-tools", tools), server+":browser_screenshot"
		}
		s := prepare(t, only, nil)
		out, stderr, code := s.run("route", "--dry-run", "--json", "-c", "browser", "-c", "screenshot", "Take a screenshot")
		if err := json.Unmarshal([]byte(out), &routed); err != nil || code != 0 || routed.Tool != want {
			t.Errorf("chosen %q, want %s; exit code %d\n%s", routed.Tool, want, code, stderr)
		}
		out, _, _ = s.run("tools", "--json", "-c", "browser")
		if !strings.Contains(out, server+":browser_navigate") {
			t.Errorf("found by the capability browser: %s", out)
		}
	}
}

// The official TypeScript client, whose schemas are strict.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	servers := external.RealServers(t, dir)
	for _, mode := range []string{"direct", "search"} {
		s := prepare(t, realEntries(servers[:3]), map[string]any{"listWait": "55s"})
		router, err := json.Marshal(append([]string{metarouter}, s.command("serve", "--mode", mode)...))
		if err != nil {
			t.Fatal(err)
		}
		tool, arguments := "everything__echo", `{"message":"from TypeScript"}`
		if mode == "search" {
			tool, arguments = "call_tool", `{"tool":"everything:echo","arguments":{"message":"from TypeScript"}}`
		}
		cmd := exec.CommandContext(within(t), external.Node22(t), external.TypeScriptClient(t), string(router), tool, arguments)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", mode, err, stderr.String())
		}
		var answer struct {
			Tools  []string
			Result json.RawMessage
		}
		if err := json.Unmarshal(out, &answer); err != nil {
			t.Fatal(err)
		}
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
		if err != nil {
			t.Fatalf("inspector %v: %v\n%s%s", args, err, out, stderr.String())
		}
		return string(out)
	}
	for _, era := range []string{"legacy", "auto", "modern"} {
		if out := inspect("--protocol-era", era, "--method", "tools/list"); !strings.Contains(out, `"everything__echo"`) || !strings.Contains(out, `"filesystem__read_text_file"`) {
			t.Errorf("%s: tools/list printed %s", era, out)
		}
		if out := inspect("--protocol-era", era, "--method", "tools/call", "--tool-name", "everything__echo", "--tool-arg", "message=hi"); !strings.Contains(out, "Echo: hi") {
			t.Errorf("%s: tools/call printed %s", era, out)
		}
	}
}

// Tool lists of real servers, a JSON file each with the array "tools", replayed
// by the fake server: METAROUTER_REAL_LISTS names their folder.
func TestRealLists(t *testing.T) {
	layer.Full(t)
	folder := os.Getenv("METAROUTER_REAL_LISTS")
	if folder == "" {
		t.Skip("METAROUTER_REAL_LISTS names no folder of tool lists")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no lists in %s: %v", folder, err)
	}
	servers, want := entries{}, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Tools []json.RawMessage }
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		name := strings.NewReplacer("@", "", "+", "-").Replace(strings.TrimSuffix(filepath.Base(file), ".json"))
		servers[name] = fake("-list", file)
		want += len(list.Tools)
	}
	s := prepare(t, servers, map[string]any{"listWait": "60s"})
	began := time.Now()
	c := s.serve("--mode", "direct")
	all := definitions(t, c)
	t.Logf("%d servers, %d tools listed after %v", len(files), len(all), time.Since(began))
	if len(all) != want {
		t.Errorf("%d tools listed, the files have %d", len(all), want)
	}
	for name := range all {
		if len(name) > 47 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			t.Errorf("exposed name %q", name)
		}
	}
	// Any tool can be called by the name that the client sees.
	for name := range all {
		if r := call(t, c, name, "{}"); r.IsError && !strings.Contains(r.text(), "do not fit the schema") {
			t.Errorf("%s: %s", name, r.text())
		}
	}
	found := mustCall(t, c, "find_tools", `{"query":"take a screenshot of the page","capabilities":["browser"]}`).text()
	if !strings.Contains(found, "screenshot") {
		t.Errorf("find_tools: %s", found)
	}
	for query, want := range map[string]string{
		"create a GitHub issue":              "issue",
		"send an SMS text message":           "twilio",
		"list the pods of my cluster":        "kubernetes",
		"search the web":                     "search",
		"find the coordinates of an address": "map",
	} {
		out, stderr, code := s.run("search", "--json", "-k", "5", query)
		if code != 0 || !strings.Contains(strings.ToLower(out), want) {
			t.Errorf("search %q: exit code %d, %s%s", query, code, stderr, out)
		}
	}
	out, _, _ := s.run("capabilities", "--json")
	if !strings.Contains(out, `"browser"`) || !strings.Contains(out, `"database"`) {
		t.Errorf("capabilities: %s", out)
	}
}

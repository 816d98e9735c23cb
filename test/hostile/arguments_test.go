//go:build linux

package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// noter is a server in sh that notes each line that it gets. The schema of loose can't be compiled, so that its
// arguments are not checked.
const noter = `while read -r line; do
  printf '%s\n' "$line" >>lines
  id=$(printf '%.200s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([^,}]*\).*/\1/p')
  case $line in
  *'"method":"initialize"'*) result='"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"noter","version":"1"}}' ;;
  *'"method":"tools/list"'*) result='"result":{"tools":[{"name":"read","inputSchema":{"type":"object","properties":{"path":{}}},"annotations":{"readOnlyHint":true}},{"name":"loose","inputSchema":{"type":"object","properties":{"path":{},"a":{"$ref":"#/nowhere"}},"pattern":5},"annotations":{"readOnlyHint":true}},{"name":"secret","inputSchema":{"type":"object"}}]}' ;;
  *'"method":"tools/call"'*) result='"result":{"content":[{"type":"text","text":"it ran"}]}' ;;
  *) result='"error":{"code":-32601,"message":"unknown"}' ;;
  esac
  test -z "$id" || printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$result"
done
`

var zeros = strings.Repeat("0,", 200_100) // more values than a check of arguments compares

// forged are arguments, as bytes, that would make a server see another call where they were copied unread.
func forged() []string {
	huge := `{"a":[` + zeros + `0]`
	return []string{
		huge + `},"name":"secret"`, huge + `},"name":"secret","x":{`, huge + `}},"method":"tools/list","x":{"y":{}`, huge + `}},"id":17,"x":{"y":{}`,
		`{"a":1},"name":"secret"`, `{"a":1}},"id":1,"params":{"name":"secret","arguments":{}`, "{\"a\":1}}\n{\"jsonrpc\":\"2.0\",\"id\":17,\"method\":\"tools/call\",\"params\":{\"name\":\"secret\"}",
		`{"path":"safe","path":"other"}`, `{"path":"other","p\u0061th":"safe"}`, huge + `,"path":"other","path":"safe"}`, `{"":1,"":2}`, `[{"a":1}]`, `null,"name":"secret"`, `{"a":1}garbage`,
	}
}

// ways are how a client makes a call with forged arguments; %s is for them, as bytes or as a string of JavaScript.
var ways = map[string]string{
	"tools/call":      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"TOOL","arguments":%s}}`,
	"call_tool":       `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call_tool","arguments":{"tool":"TOOL","arguments":%s}}}`,
	"call_tool, text": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call_tool","arguments":{"tool":"TOOL","arguments":%q}}}`,
	"script":          `call("TOOL", JSON.parse(%s))`,
	"script, text":    `call("TOOL", %s)`,
	"script, toJSON":  `call("TOOL", {toJSON: () => %s})`,
	"script, getter":  `call("TOOL", {get a() { return JSON.rawJSON ? JSON.rawJSON(%s) : %[1]s }})`,
	"script, tool":    `call(%s, {})`,
	"script, hook":    `(await hooked())("call\n\"TOOL\"\n" + %s + "\n", "x", {})`,
	"script, kind":    `(await hooked())("result\n" + %s, "TOOL", {})`,
}

const hooked = `const hooked = async () => { let ask; try { Error.prepareStackTrace = (e, f) => { for (const x of f) { const v = x.getFunction(); if (/^\(kind, tool/.test(String(v))) ask = v } return "s" }
  try { await call("hostile:nope", {}) } catch {} Error.prepareStackTrace = undefined } catch {} return ask };`

// TestForgedArguments makes calls with arguments that end the message, add members to it, or have a key twice, in each
// way and under each kind of limit of a profile. The server gets only calls of the tools that the profile
// allows, in messages with the keys of a call, each once. Honest calls of the same tools run.
func TestForgedArguments(t *testing.T) {
	t.Parallel()
	secured := map[string]map[string]any{
		"denied": {"tools": map[string]any{"deny": []string{"secret"}}},
		"asked":  {"tools": map[string]any{"ask": []string{"secret"}}},
		"reader": {"readOnly": true},
		"fixed":  {"tools": map[string]any{"deny": []string{"secret"}}, "arguments": map[string]any{"hostile:*": map[string]any{"path": "safe"}}},
	}
	profiles := map[string]any{}
	for name, p := range secured {
		p["scripts"] = true
		profiles[name] = p
	}
	for _, validate := range []string{"on", "off", "warn"} {
		if validate == "warn" && !layer.Everything() { // it checks as "on" does, and calls as "off" does
			continue
		}
		t.Run("validate "+validate, func(t *testing.T) {
			r := prepare(t, map[string]any{"mode": "direct", "profiles": profiles, "scripts": map[string]any{"cpu": "1m", "timeout": "2m"}})
			expect.OK(t, os.WriteFile(filepath.Join(r.dir, "server.sh"), []byte(noter), 0o600))
			r.configure(map[string]any{"command": "sh", "args": []string{"server.sh"}, "cwd": r.dir, "validate": validate})
			r.address = mcptest.FreeAddress(t)
			r.process = mcptest.Start(t, r.binary, []string{"serve", "--http", r.address, "--config", r.config, "--data", r.data()}, r.dir, nil)
			mcptest.Listening(t, r.address)
			read := 0 // bytes of the server's notes
			for profile := range secured {
				for way, call := range ways {
					for i, arguments := range forged() {
						if (i+len(way)+len(profile))%2 == len(validate)%2 && !layer.Everything() { // each is made with "on" or "off"
							continue
						}
						r.post(profile, forge(call, way, []string{"hostile:read", "hostile:loose"}[i%2], arguments))
					}
				}
				for _, honest := range []string{
					forge(ways["tools/call"], "", "hostile:read", `{"a":1}`), forge(ways["call_tool"], "", "hostile:loose", `{"a":1}`),
					forge(ways["script"], "script", "hostile:loose", `{"a":[`+zeros+`0]}`),
				} {
					expect.Contains(t, r.post(profile, honest), "it ran", "%s: %s did not run", profile, honest)
				}
				notes, err := os.ReadFile(filepath.Join(r.dir, "lines"))
				expect.OK(t, err)
				calls := 0
				for line := range strings.Lines(string(notes[read:])) {
					calls += checkCall(t, line, profile == "fixed")
				}
				if read = len(notes); calls < 3 {
					t.Errorf("%s: the server got %d calls, the honest ones are 3", profile, calls)
				}
			}
		})
	}
}

// post sends a plain request under a profile, and returns its answer.
func (r *router) post(profile, body string) string {
	response, err := http.Post(r.url()+"/p/"+profile, "application/json", strings.NewReader(body))
	expect.OK(r.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 500 {
		r.t.Errorf("%.200s: %d %.500s, %v", body, response.StatusCode, answer, err)
	}
	return string(answer)
}

// forge returns the request that makes a call in a way.
func forge(call, way, tool, arguments string) string {
	if strings.Contains(way, "script") {
		quoted, _ := json.Marshal(arguments)
		quoted = bytes.ReplaceAll(quoted, []byte(zeros), []byte(`" + "0,".repeat(200100) + "`))
		code, _ := json.Marshal(hooked + "return await " + strings.ReplaceAll(fmt.Sprintf(call, quoted), "TOOL", tool))
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_script","arguments":{"code":` + string(code) + `}}}`
	}
	return strings.ReplaceAll(fmt.Sprintf(call, arguments), "TOOL", tool)
}

// checkCall checks a line that the server got, and returns how many calls it is: of a tool that is allowed, with each
// key once, also where a server takes the first of two, and with the path that the profile fixes, if it does. Other
// parameters are the parameters of the client.
func checkCall(t *testing.T, line string, fixed bool) (calls int) {
	t.Helper()
	keys := func(text string, allowed string) map[string]string {
		members := map[string]string{}
		d := json.NewDecoder(strings.NewReader(text))
		_, err := d.Token()
		expect.OK(t, err, "the server got %.300s", text)
		for d.More() {
			key, _ := d.Token()
			var value json.RawMessage
			expect.OK(t, d.Decode(&value), "the server got %.300s", text)
			name := key.(string)
			if _, twice := members[name]; twice || allowed != "" && !strings.Contains(allowed, " "+name+" ") {
				t.Errorf("the server got %.300s with %q", text, name)
			}
			members[name] = string(value)
		}
		d.Token()
		if d.More() {
			t.Errorf("the server got more after the value: %.300s", text)
		}
		return members
	}
	message := keys(line, " jsonrpc id method params ")
	if message["method"] != `"tools/call"` {
		return 0
	}
	params := keys(message["params"], "")
	if params["name"] != `"read"` && params["name"] != `"loose"` {
		t.Errorf("the server got a call of %s: %.300s", params["name"], line)
	}
	if arguments := keys(params["arguments"], ""); fixed && arguments["path"] != `"safe"` {
		t.Errorf("the server got the path %s", arguments["path"])
	}
	return 1
}

//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// payHeader makes a script a tool that pays a bill.
const payHeader = `/* Pays the bill of a customer and notes the payment in the books.
 * {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]} */
`

// pay charges twice the same between two calls that need no approval.
const pay = payHeader + `const a = await call("s:ledger_read", {id: input.id + "before"});
for (const i of [1, 2]) await call("s:ledger_charge", {id: input.id});
return [a, await call("s:ledger_read", {id: input.id + "after"})].join();`

// store writes a script for the key "folder", as an editor does.
func (s *setup) store(name, code string) {
	s.t.Helper()
	folder := filepath.Join(s.dir, "scripts")
	temporary := filepath.Join(s.dir, "script.new")
	expect.OK(s.t, os.MkdirAll(folder, 0o700))
	expect.OK(s.t, os.WriteFile(temporary, []byte(code), 0o600))
	expect.OK(s.t, os.Rename(temporary, filepath.Join(folder, name+".js")))
}

// stores returns the router's keys for a folder of scripts, with others.
func stores(others map[string]any) map[string]any {
	all := map[string]any{"scripts": map[string]any{"folder": "scripts"}}
	maps.Copy(all, others)
	return all
}

// tryTool asks for a tool. Its error is the error of the request.
func tryTool(ctx context.Context, c mcptest.Requester, name string, arguments, more map[string]any) (a scriptAnswer, err error) {
	params := map[string]any{"name": name, "arguments": arguments}
	maps.Copy(params, more)
	raw, err := c.Request(ctx, "tools/call", params)
	if err == nil {
		a.raw, err = raw, json.Unmarshal(raw, &a)
	}
	return a, err
}

func runTool(t *testing.T, c mcptest.Requester, name string, arguments, more map[string]any) scriptAnswer {
	t.Helper()
	a, err := tryTool(within(t), c, name, arguments, more)
	expect.OK(t, err)
	return a
}

// A stored script is a tool as any other: it is found, listed and called, its arguments are checked, it counts as writing, and
// calls what its client may call. An edit takes effect.
func TestStoredScript(t *testing.T) {
	t.Parallel()
	s := newScripting(t, stores(map[string]any{"mode": "search", "profiles": map[string]any{
		"narrow": map[string]any{"tools": map[string]any{"deny": []string{"ledger_charge"}}},
		"closed": map[string]any{"servers": []string{"s"}},
	}, "accessLog": "access.log"}))
	s.store("pay-bill", pay)
	s.store("other", payHeader+`return await callSafe("scripts:pay-bill", input)`)
	s.store("fails", "// Fails.\n"+`await call("s:ledger_read", {id: "failed"}); throw new TypeError("no")`)
	url, _ := s.serveHTTP()
	c := s.overHTTP(url)
	const id = "scripts__pay-bill"
	for tool, arguments := range map[string]map[string]any{
		"find_tools": {"query": "pay the bill of a customer"},
		"route_task": {"task": "pay the bill of a customer", "arguments": map[string]any{"id": "routed"}},
	} {
		if a := runTool(t, c, tool, arguments, nil); !strings.Contains(a.text(), "pay-bill") {
			t.Errorf("%s: %s", tool, a.raw)
		}
	}
	s.executed()
	runTool(t, c, id, map[string]any{"id": 7}, nil).fails(t, "id")
	runTool(t, c, "call_read_only_tool", map[string]any{"tool": id, "arguments": map[string]any{"id": "x"}}, nil).fails(t, "does not declare that it only reads")
	s.executed()
	runTool(t, c, id, map[string]any{"id": "one"}, nil).gives(t, "onebefore,oneafter")
	runTool(t, c, "call_tool", map[string]any{"tool": id, "arguments": map[string]any{"id": "two"}}, nil).gives(t, "twobefore,twoafter")
	if got := s.executions(); !maps.Equal(got, map[string]int{"onebefore": 1, "one": 2, "oneafter": 1, "twobefore": 1, "two": 2, "twoafter": 1}) {
		t.Errorf("executions %v", got)
	}
	runTool(t, c, "scripts__fails", nil, nil).fails(t, "TypeError: no\nat line 2, column", "No call succeeded that may change something.")
	if a := runTool(t, c, "scripts__other", map[string]any{"id": "x"}, nil); !strings.Contains(a.text(), "a stored script can't call another one") {
		t.Errorf("a stored script calls another one: %s", a.raw)
	}

	narrow := s.overHTTP(strings.TrimSuffix(url, "/mcp") + "/mcp/p/narrow")
	runTool(t, narrow, id, map[string]any{"id": "three"}, nil).fails(t, `unknown tool "s:ledger_charge"`, "line 4")
	closed := s.overHTTP(strings.TrimSuffix(url, "/mcp") + "/mcp/p/closed")
	if a, err := tryTool(within(t), closed, id, map[string]any{"id": "x"}, nil); err == nil || !strings.Contains(err.Error(), "unknown tool") {
		t.Errorf("a hidden script: %s, %v", a.raw, err)
	}

	ids := make(map[string]bool)
	mcptest.WaitFor(t, "the access log", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.dir, "access.log"))
		outer := 0
		for line := range strings.Lines(string(text)) {
			var e struct{ Script, Server, Tool, Outcome string }
			_ = json.Unmarshal([]byte(line), &e)
			if e.Tool == "ledger_charge" {
				ids[e.Script] = true
			}
			if e.Server == "scripts" && e.Tool == "pay-bill" && e.Outcome == "ok" {
				outer++
			}
		}
		return outer == 2 && len(ids) >= 2
	})
	if len(ids) != 2 || ids[""] {
		t.Errorf("the ids of scripts are %v, want two", ids)
	}

	s.store("pay-bill", payHeader+`return "edited"`)
	mcptest.WaitFor(t, "the edit", func() bool {
		a, err := tryTool(within(t), c, id, map[string]any{"id": "three"}, nil)
		return err == nil && a.text() == "edited"
	})
}

// check says where a stored script does not compile, and runs nothing.
func TestCheckStoredScripts(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := prepare(t, entries{}, stores(nil))
	s.store("typed", "// Adds.\nconst n: number = input.a;\nreturn n + 1;")
	if out, _, code := s.run("check"); code != 0 {
		t.Errorf("exit %d: %s", code, out)
	}
	s.store("bad", "// Adds.\nreturn a b;")
	if out, _, code := s.run("check"); code != 2 || !strings.Contains(out, filepath.Join("scripts", "bad.js")+":2:10: ") || strings.Contains(out, "typed.js") {
		t.Errorf("exit %d: %s", code, out)
	}
}

//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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
	if err := os.MkdirAll(folder, 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(temporary, []byte(code), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(temporary, filepath.Join(folder, name+".js")); err != nil {
		s.t.Fatal(err)
	}
}

// stores returns the router's keys for a folder of scripts, with others.
func stores(others map[string]any) map[string]any {
	all := map[string]any{"scripts": map[string]any{"folder": "scripts"}}
	maps.Copy(all, others)
	return all
}

// tryTool asks for a tool. Its error is that of the request.
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
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// asks fails the test unless the answer is one question that has the texts.
func (a scriptAnswer) asks(t *testing.T, texts ...string) scriptAnswer {
	t.Helper()
	for _, text := range append(texts, `"resultType":"input_required"`) {
		if len(a.InputRequests) != 1 || !strings.Contains(string(a.raw), text) {
			t.Fatalf("%s lacks %q, or is not one question", a.raw, text)
		}
	}
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
		"find_tools": {"task": "pay the bill of a customer"},
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
	runTool(t, c, "scripts__fails", nil, nil).fails(t, "TypeError: no\nat line 2, column", "These calls took effect:\nline 2: s:ledger_read")
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

// A stored script that waits for a person survives its router, also where the script itself needs approval: each question is
// asked once, and each approved call is made once.
func TestStoredScriptSurvivesItsRouter(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	asks := map[string]any{"tools": map[string]any{"ask": []string{"ledger_charge", "pay-bill"}}}
	for _, transport := range []string{"http", "stdio"} {
		for way, params := range map[string]map[string]any{
			"direct":     {"name": "scripts__pay-bill", "arguments": map[string]any{"id": "x"}},
			"call_tool":  {"name": "call_tool", "arguments": map[string]any{"tool": "scripts:pay-bill", "arguments": map[string]any{"id": "x"}}},
			"run_script": {"name": "run_script", "arguments": map[string]any{"code": "\n\n" + `return await call("scripts:pay-bill", {id: "x"})`}},
		} {
			t.Run(fmt.Sprint(transport, " ", way), func(t *testing.T) {
				t.Parallel()
				s, c, restart := newStoring(t, transport, pay, map[string]any{"mode": "search", "profiles": map[string]any{"default": merged(asks, map[string]any{"scripts": true})}})
				kills := 0
				kill := func(signal syscall.Signal) {
					if kills++; transport == "http" || kills <= 2 { // after a third one, the client's process would serve it alone
						restart(signal)
					}
				}
				next := func(more map[string]any) scriptAnswer {
					t.Helper()
					return runTool(t, c, params["name"].(string), params["arguments"].(map[string]any), more)
				}
				a := next(nil).asks(t, "pay-bill of the server scripts")
				s.executed()
				kill(syscall.SIGKILL)
				first := next(a.answers("accept")).asks(t, "ledger_charge of the server s", "line 4 of a script")
				s.executed("xbefore")
				kill(syscall.SIGKILL)
				second := next(first.answers("accept")).asks(t, "ledger_charge of the server s", "line 4 of a script")
				if maps.Equal(first.InputRequests, second.InputRequests) {
					t.Errorf("the same question again: %s", second.raw)
				}
				s.executed("xbefore", "x")
				kill(syscall.SIGKILL)
				if again := next(first.answers("accept")); !maps.Equal(again.InputRequests, second.InputRequests) {
					t.Errorf("the first answer again: %s, want %s", again.raw, second.raw)
				}
				for range 2 { // also again, after the end
					next(second.answers("accept")).gives(t, "xbefore,xafter")
					kill(syscall.SIGTERM)
				}
				if got := s.executions(); !maps.Equal(got, map[string]int{"xbefore": 1, "x": 2, "xafter": 1}) {
					t.Errorf("executions %v", got)
				}
			})
		}
	}
}

// merged returns the members of both.
func merged(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// newStoring is newRestarting with the script pay-bill.
func newStoring(t *testing.T, transport, code string, own map[string]any) (*scripting, mcptest.Requester, func(syscall.Signal)) {
	t.Helper()
	s := newScripting(t, stores(own))
	s.store("pay-bill", code)
	return s.restarting(transport)
}

// A call under way in a stored script, when the router ends, is not made again; the script ends, as the script that has called it.
func TestStoredScriptWithCallUnderWay(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	for way, code := range map[string]string{
		"direct":     "",
		"run_script": `await callSafe("scripts:pay-bill", {id: "x"}); return await call("s:ledger_read", {id: "after"})`,
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s, c, restart := newStoring(t, "http", strings.Replace(pay, "{id: input.id});", "{id: input.id, ms: 60_000});", 1), map[string]any{"mode": "code"})
			try := func(ctx context.Context, more map[string]any) (scriptAnswer, error) {
				if code != "" {
					return tryScript(ctx, c, code, more)
				}
				return tryTool(ctx, c, "scripts__pay-bill", map[string]any{"id": "x"}, more)
			}
			a, err := try(within(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			a.asks(t, "ledger_charge")
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = try(within(t), a.answers("accept"))
			}()
			mcptest.WaitFor(t, "the approved call", func() bool { return s.executions()["x"] == 1 })
			restart(syscall.SIGKILL)
			<-done
			last, err := try(within(t), a.answers("accept"))
			if err != nil {
				t.Fatal(err)
			}
			last.fails(t, "the result of scripts:pay-bill was lost, so that its effect is unknown", "the result of s:ledger_charge was lost")
			s.executed("xbefore", "x")
		})
	}
}

// A suspended script that is edited meanwhile does not go on.
func TestStoredScriptEditedWhileItWaits(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s, c, restart := newStoring(t, "http", pay, map[string]any{"mode": "code"})
	arguments := map[string]any{"id": "x"}
	a := runTool(t, c, "scripts__pay-bill", arguments, nil).asks(t, "ledger_charge")
	s.store("pay-bill", pay+" ")
	restart(syscall.SIGKILL)
	if last, err := tryTool(within(t), c, "scripts__pay-bill", arguments, a.answers("accept")); err == nil || !strings.Contains(err.Error(), "the script can't go on") {
		t.Errorf("%s, %v", last.raw, err)
	}
	s.executed("xbefore")
}

// Two questions of scripts that run at once are one answer, with a question for each call.
func TestStoredScriptsAtOnce(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s, c, _ := newStoring(t, "http", pay, map[string]any{"mode": "code"})
	code := `const both = [1, 2].map(() => call("scripts:pay-bill", {id: "x"})); return (await Promise.all(both)).join(" ")`
	a := runScript(t, c, code, nil)
	if len(a.InputRequests) != 2 {
		t.Errorf("two questions are expected: %s", a.raw)
	}
	asked := make(map[string]bool)
	for a.ResultType == "input_required" {
		for key := range a.InputRequests {
			asked[key] = true
		}
		a = runScript(t, c, code, a.answers("accept"))
	}
	a.gives(t, "xbefore,xafter xbefore,xafter")
	if n := s.executions()["x"]; n != 4 || len(asked) != 4 {
		t.Errorf("%d executions, %d questions", n, len(asked))
	}
}

// A suspended script does not go on if a stored script that it has called was edited meanwhile: nobody has approved the call of the new text.
func TestStoredScriptEditedWhileItsCallerWaits(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s, c, restart := newStoring(t, "http", pay, map[string]any{"mode": "code", "profiles": map[string]any{"default": map[string]any{"scripts": true, "tools": map[string]any{"ask": []string{"ledger_charge", "pay-bill"}}}}})
	const code = `return await call("scripts:pay-bill", {id: "x"})`
	a := runScript(t, c, code, nil).asks(t, "pay-bill of the server scripts")
	a = runScript(t, c, code, a.answers("accept")).asks(t, "ledger_charge")
	s.store("pay-bill", strings.Replace(pay, `"after"`, `"edited"`, 1))
	restart(syscall.SIGKILL)
	if last, err := tryScript(within(t), c, code, a.answers("accept")); err == nil || !strings.Contains(err.Error(), "the script can't go on") {
		t.Errorf("%s, %v", last.raw, err)
	}
	s.executed("xbefore")
}

// A stored script that waits for a person leaves its memory to others, and goes on after the answer.
func TestStoredScriptLeavesItsMemory(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	code := payHeader + `const a = new Uint8Array(5 << 20).fill(1); await call("s:ledger_charge", {id: input.id}); return String(a.length)`
	_, c, _ := newStoring(t, "http", code, map[string]any{"mode": "code", "scripts": map[string]any{"folder": "scripts", "memory": "8MiB"}})
	ids := []string{"one", "two", "three"}
	var waiting []scriptAnswer
	for _, id := range ids {
		waiting = append(waiting, runTool(t, c, "scripts__pay-bill", map[string]any{"id": id}, nil).asks(t, "ledger_charge"))
	}
	for i, id := range ids {
		runTool(t, c, "scripts__pay-bill", map[string]any{"id": id}, waiting[i].answers("accept")).gives(t, fmt.Sprint(5<<20))
	}
}

package adapter

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/script/stored"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// withScripts is the server of stored scripts, by their names.
func withScripts(code map[string]string) config.Server {
	s := config.Server{Name: "scripts", Transport: config.Scripts, StartTimeout: 30 * time.Second}
	for _, name := range slices.Sorted(maps.Keys(code)) {
		input := json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"}}}`)
		s.Scripts = append(s.Scripts, stored.Script{Name: name, Code: code[name], Description: "Says hello.", Input: input})
	}
	return s
}

// A program runs a stored script as any other tool. An edit of its text alone makes it another tool.
func TestStoredScript(t *testing.T) {
	const code = `const said = await call("s:echo", {message: "hello " + input.to}); return said.message`
	s := fake("s", "-tools", "echo")
	r, edits := running(t, Options{}, s, withScripts(map[string]string{"greet": code, "again": `return await callSafe("scripts:greet", {to: "you"})`}))
	settled(t, r)
	call := func(id, args string) string {
		t.Helper()
		tool, ok := r.Tool(id)
		if !ok {
			t.Fatalf("no tool %s among %s", id, idsOf(r))
		}
		result, err := r.Execute(t.Context(), selector.Call{Tool: tool, Arguments: json.RawMessage(args)})
		if err != nil {
			return err.Error()
		}
		return result.Text()
	}
	for args, want := range map[string]string{`{"to":"you"}`: "hello you", `{"to":[]}`: "to"} {
		expect.Contains(t, call("scripts:greet", args), want, "%s", args)
	}
	expect.Contains(t, call("scripts:again", "{}"), "a stored script can't call another one")

	before, _ := r.Tool("scripts:greet")
	if reads := before.Reads(); reads || before.Repeatable() {
		t.Error("a stored script counts as reading")
	}
	edits <- config.Config{Servers: []config.Server{s, withScripts(map[string]string{"greet": code + " "})}}
	for {
		changed := r.Changed()
		if now, ok := r.Tool("scripts:greet"); ok && string(now.Definition) != string(before.Definition) && idsOf(r) == "s:echo scripts:greet" {
			break
		}
		<-changed
	}
	expect.Equal(t, call("scripts:greet", `{"to":"you"}`), "hello you")
	_, err := r.Execute(t.Context(), selector.Call{Tool: before, Arguments: json.RawMessage("{}")})
	expect.Error(t, err, "was edited just now", "the edited script runs for a client that knows another one")
}

// A script is run once, whatever the name of the error that it throws.
func TestStoredScriptThrowsOurErrors(t *testing.T) {
	data := t.TempDir() // keeps the compiled interpreter
	for _, name := range []string{"BusyError", "LostError"} {
		code := fmt.Sprintf(`await call("s:echo", {message: "x"}); throw Object.assign(new Error("mine"), {name: %q})`, name)
		var seen executions
		r, _ := running(t, Options{Observer: &seen, DataDir: data}, fake("s", "-tools", "echo"), withScripts(map[string]string{"throws": code}))
		settled(t, r)
		tool, _ := r.Tool("scripts:throws")
		result, err := r.Execute(t.Context(), selector.Call{Tool: tool, Arguments: json.RawMessage("{}")})
		if n := len(seen.all()); n != 2 || err != nil || !strings.Contains(result.Text(), "mine") || !result.IsError {
			t.Errorf("%s: %v, %s; with the script itself, %d calls", name, err, result.Text(), n)
		} else if x := seen.all()[0]; x.Script == "" {
			t.Errorf("the call of a script is %+v", x)
		}
	}
}

// Other nodes can't use stored scripts.
func TestStoredScriptsAreNotShared(t *testing.T) {
	c := inCluster(config.Config{Servers: []config.Server{fake("s"), withScripts(map[string]string{"x": ""})}}, "*")
	if shared := sharedServers(c); !maps.Equal(shared, map[string]bool{"s": true}) {
		t.Errorf("shared are %v", shared)
	}
}

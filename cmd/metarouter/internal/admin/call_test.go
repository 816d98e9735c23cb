package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// --yes is named where it helps, and where it does not help alone, also the missing arguments.
func TestWhyNotRun(t *testing.T) {
	tool := &registry.NormalizedTool{ID: "a:b", InputSchema: json.RawMessage(`{"properties":{"path":{"type":"string"}},"required":["path"]}`)}
	const unsure = "the confidence 0.34 is below 0.50"
	for _, test := range []struct {
		routed    selector.Routed
		sure, yes bool
		want      string
	}{
		{selector.Routed{Unsure: unsure}, true, false, "a:b was not run: " + unsure + "; --yes permits it"},
		{selector.Routed{Unsure: unsure, Missing: []string{"path"}}, true, false, "a:b was not run: it needs the argument path; " + unsure + "; --yes permits it. Write:\n  metarouter call a:b path=TEXT"},
		{selector.Routed{Unsure: unsure, Missing: []string{"path"}}, true, true, "a:b was not run: it needs the argument path. Write:\n  metarouter call a:b path=TEXT"},
		{selector.Routed{Unsure: unsure}, false, false, "a:b was not run: " + unsure},
		{selector.Routed{Unsure: unsure, Ambiguous: true}, true, false, "a:b was not run: several servers have this tool (a, c), and neither"},
	} {
		test.routed.Selection = selector.Selection{Tool: tool, Sure: test.sure, Places: []*registry.NormalizedTool{{Server: "a"}, {Server: "c"}}}
		got := whyNotRun(test.routed, test.yes)
		if got != test.want && !(test.routed.Ambiguous && strings.HasPrefix(got, test.want) && !strings.Contains(got, "--yes")) {
			t.Errorf("%+v: %q, want %q", test.routed, got, test.want)
		}
	}
}

func TestMergeIsBounded(t *testing.T) {
	var pairs []string
	for i := range 8000 {
		pairs = append(pairs, fmt.Sprintf("a%d=1", i))
	}
	if merged, err := Merge(json.RawMessage(`{}`), json.RawMessage(`{}`), pairs[:200]); err != nil || len(merged) < 200 {
		t.Errorf("200 pairs: %s, %v", merged, err)
	}
	_, err := Merge(json.RawMessage(`{}`), json.RawMessage(`{}`), pairs)
	expect.Error(t, err, "8000 KEY=VALUE pairs are too many; give at most 200")
}

func TestUsage(t *testing.T) {
	for input, want := range map[string]string{
		`{}`: "metarouter call a:b",
		`{"properties":{"--config=x":{"type":"string"}},"required":["--config=x"]}`:                                                                   "metarouter call a:b --args JSON",
		`{"properties":{"path":{"type":["string","null"]},"n":{"type":"integer"},"more":{"type":"string"},"it's":{}},"required":["path","n","it's"]}`: `metarouter call a:b path=TEXT n=NUMBER 'it'\''s=JSON'`,
	} {
		expect.Equal(t, Usage("a:b", json.RawMessage(input)), want, "%s", input)
	}
}

// script runs a script as a command does.
func (s *site) script(profile string, asked ScriptRequest) (Scripted, []string) {
	s.t.Helper()
	body, err := json.Marshal(asked)
	expect.OK(s.t, err)
	var ran Scripted
	status, notes := s.command("POST", "/dashboard/script?profile="+profile, string(body), &ran)
	if status != http.StatusOK {
		s.t.Fatalf("%s: status %d", asked.Code, status)
	}
	return ran, notes
}

// A command's script calls tools that do no harm, others with --yes, and those of its profile alone.
func TestScript(t *testing.T) {
	legacy, modern := fake("legacy", "ask"), fake("modern", "ask")
	legacy.Args, modern.Args = append(legacy.Args, "-era", "legacy"), append(modern.Args, "-era", "modern")
	s := open(t, fake("a", "echo,browser_click"), fake("b", "echo"), legacy, modern)
	c := s.router.Configured()
	c.Router.Profiles = map[string]config.Profile{"narrow": {Allow: []string{"a:*"}}, "careful": {AskFor: []string{"a:echo"}}}
	edited := s.router.Edited()
	s.edits <- c
	<-edited
	const echo, click, ask = `return await call("a:echo", {message: input})`, `console.log("x")
await tools.b.echo({message: "m"}); await tools.a.browser_click({})`, `await Promise.all([call("legacy:ask", input), call("modern:ask", input)])`
	question := json.RawMessage(`{"method":"elicitation/create"}`)
	for _, test := range []struct {
		profile, code string
		input         json.RawMessage
		yes           bool
		value, says   string // in the value, and the error or a note
		line          int    // of the error
	}{
		{code: echo, input: json.RawMessage(`"hello"`), value: "hello"},
		{code: echo, input: json.RawMessage(`"` + strings.Repeat("<", 1<<17) + `"`), value: "<<<"}, // larger than the body of a page
		{code: click, says: "a:browser_click was not run: its server does not say that it is harmless", line: 2},
		{code: click, yes: true},
		{code: `return (await describe("a:browser_click")) + JSON.stringify(await search("click in a browser"))`, value: `"tool\":\"a:browser_click\"`},
		{profile: "narrow", code: `return await callSafe("b:echo", {})`, value: `unknown tool \"b:echo\"`},
		{profile: "careful", code: echo, input: json.RawMessage(`"hello"`), says: "nobody has agreed; run the command on a terminal and answer y, or add --yes", line: 1},
		{profile: "careful", code: echo, input: json.RawMessage(`"hello"`), yes: true, value: "hello"},
		{code: ask, input: question, yes: true, says: `which a command can't answer; call the tool from an MCP client`, line: 1},
		{code: `return await call("legacy:ask", input)`, input: question, yes: true, says: `server "legacy" asked its user a question (elicitation)`},
		{code: `return await call("modern:ask", input)`, input: json.RawMessage(`{"method":"sampling/createMessage"}`), yes: true, says: `server "modern" needs an answer of a model (sampling) or of its user (elicitation), which a command can't answer`, line: 1},
		{code: `return 1 +`, says: "SyntaxError", line: 1},
		{code: `for (;;);`, says: "took longer than 50ms"},
	} {
		asked := ScriptRequest{Code: test.code, Input: test.input, Yes: test.yes}
		if strings.HasPrefix(test.code, "for") {
			asked.Timeout = 50e6
		}
		answer, notes := s.script(test.profile, asked)
		ran := answer.Script
		said, line := strings.Join(notes, "\n"), 0
		if ran.Err != nil {
			said, line = ran.Err.Name+": "+ran.Err.Message+"\n"+said, ran.Err.Line
		}
		if !strings.Contains(string(ran.Value), test.value) || !strings.Contains(said, test.says) || line != test.line || (test.says == "") != (said == "") {
			t.Errorf("%+v:\n%.200s\n%s", test, ran.Value, said)
		}
	}
	careful, _ := s.script("careful", ScriptRequest{Code: echo, Input: json.RawMessage(`"hello"`)})
	if len(careful.Refused) != 1 || !strings.Contains(careful.Refused[0], "echo") {
		t.Errorf("a profile asks: refused %q", careful.Refused)
	}
	answer, _ := s.script("", ScriptRequest{Code: click})
	ran := answer.Script
	expect.List(t, answer.Refused, []string{"a:browser_click: its server does not say that it is harmless (readOnlyHint true, or destructiveHint false)"}, "refused")
	if ran.Log != "x\n" || string(wire.Marshal(ran.Calls)) != `[{"tool":"b:echo","line":2,"ok":true,"reads":true},{"tool":"a:browser_click","line":2,"ok":false}]` {
		t.Errorf("%+v", ran)
	}
	expect.Equal(t, s.ask(http.MethodPost, "/dashboard/script", `{"code":"return 1"}`, nil), http.StatusForbidden, "a page runs a script")
	var refused Refusal
	if status, _ := s.command("POST", "/dashboard/script", `{"code":"`+strings.Repeat(" ", int(maxBody[onCommand]))+`"}`, &refused); status != http.StatusBadRequest {
		t.Errorf("too long a body: %d %s", status, refused.Error)
	}
}

package server

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/script/host"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// echoScripts answers with the scripts that are run.
type echoScripts struct{}

func (echoScripts) RunScript(_ context.Context, run host.Run) script.Outcome {
	return script.Outcome{Value: wire.Marshal(fmt.Sprint(run.Code, string(run.Input), run.Timeout))}
}

func (echoScripts) IsScript(*registry.NormalizedTool) bool { return false }

func TestCodeMode(t *testing.T) {
	codeTools := []string{"describe_tools", "find_tools", "read_result", "run_script"}
	for name, test := range map[string]struct {
		options Options
		mode    string
		listed  []string
	}{
		"code":                       {Options{Mode: exposure.Code, Scripts: true, Runner: echoScripts{}, Pinned: []string{"a:one"}, Classifies: true}, exposure.Code, codeTools},
		"code, not allowed":          {Options{Mode: exposure.Code, Runner: echoScripts{}}, exposure.Search, searchTools},
		"code, not built in":         {Options{Mode: exposure.Code, Scripts: true}, exposure.Search, searchTools},
		"search, allowed":            {Options{Mode: exposure.Search, Scripts: true, Runner: echoScripts{}}, exposure.Search, []string{"call_read_only_tool", "call_tool", "describe_tools", "find_tools", "read_result", "route_task", "run_script"}},
		"direct, allowed":            {Options{Mode: exposure.Direct, Scripts: true, Runner: echoScripts{}}, exposure.Direct, []string{"a__one", "read_result", "run_script"}},
		"search, allowed, no runner": {Options{Mode: exposure.Search, Scripts: true}, exposure.Search, searchTools},
		"direct":                     {Options{Mode: exposure.Direct, Runner: echoScripts{}}, exposure.Direct, []string{"a__one"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFake(tool("a", "one"))
			s := newAlone(r, test.options)
			expect.Equal(t, s.mode(), test.mode, "mode")
			c := connect(t, r, test.options)
			greeted := c.ask(initializing)
			if strings.Contains(greeted, "call them in scripts") != (test.mode == exposure.Code) || test.mode != exposure.Direct && !strings.Contains(greeted, "Search before you say") {
				t.Errorf("the instructions: %s", greeted)
			}
			expect.List(t, c.listed(), test.listed, "listed")
			for _, own := range []string{"call_tool", "call_read_only_tool", "route_task", "list_categories", "classify_text", "run_script"} {
				_, err := perform(t.Context(), s, fmt.Appendf(nil, `{"name":%q,"arguments":{}}`, own))
				mayCall := test.mode != exposure.Code
				if own == "run_script" {
					mayCall = slices.Contains(test.listed, own)
				}
				if unknown := err != nil && strings.Contains(err.Error(), "unknown tool"); unknown == mayCall {
					t.Errorf("%s: %v", own, err)
				}
			}
		})
	}
}

// An edit of the mode, and of the permission, is in force at once.
func TestCodeModeIsLive(t *testing.T) {
	now := &Options{Mode: exposure.Code, Scripts: true}
	s := newAlone(newFake(tool("a", "one")), Options{Runner: echoScripts{}, Live: func() (*Options, <-chan struct{}) { return now, nil }})
	expect.Equal(t, calls[any](t, s, "run_script", `{"code":"return 1","input":{"a":1},"timeout":1.5}`).Content[0].Text, `return 1{"a":1}1.5s`)
	if empty := calls[any](t, s, "run_script", `{"input":1}`); !empty.IsError || !strings.Contains(empty.Content[0].Text, `"code" is missing`) {
		t.Errorf("without code: %+v", empty)
	}
	now = &Options{Mode: exposure.Code}
	if _, err := perform(t.Context(), s, []byte(`{"name":"run_script","arguments":{"code":"1"}}`)); err == nil || s.mode() != exposure.Search {
		t.Errorf("%v, mode %q", err, s.mode())
	}
}

func TestFindInCodeMode(t *testing.T) {
	r := newFake(tool("a", "one"), tool("a", "two"))
	r.ranking.Sure, r.ranking.Candidates = true, candidates(r.Snapshot().Tools()...)
	s := newAlone(r, Options{Mode: exposure.Code, Scripts: true, Runner: echoScripts{}})
	raw := calls[found](t, s, "find_tools", `{"query":"x"}`).Content[0].Text
	want := `"tools":[{"id":"a:one","declaration":"/** Does one. And more. */\ndeclare function call(tool: \"a:one\", args?: { n?: number }): Promise<any>;",`
	if !strings.Contains(raw, want) || strings.Contains(raw, "input_schema") || strings.Contains(raw, "signature") || strings.Count(raw, `"declaration"`) != 2 {
		t.Errorf("got %s, want %s", raw, want)
	}
	for _, budget := range []int{1, 30, 60, 100} {
		answer := calls[found](t, s, "find_tools", fmt.Sprintf(`{"query":"x","budget_tokens":%d}`, budget))
		items := wire.Member([]byte(answer.Content[0].Text), "tools")
		if n := len(answer.StructuredContent.Tools); n == 0 || n > 1 && len(items) > budget*content.TokenBytes+2 || n+answer.StructuredContent.Omitted != 2 {
			t.Errorf("budget %d: %s", budget, items)
		}
	}
	raw = calls[any](t, s, "describe_tools", `{"ids":["a:two","a:none"]}`).Content[0].Text
	if !strings.Contains(raw, `{"id":"a:two","declaration":"/** Does two. And more. */\ndeclare function call(tool: \"a:two\", args?: { n?: number }): Promise<any>;"}`) || strings.Contains(raw, "definition") || !strings.Contains(raw, `"error":`) {
		t.Error(raw)
	}
}

// The rest of a script's long result can be read, as long as the client may run scripts.
func TestLongResultOfScript(t *testing.T) {
	now := &Options{Scripts: true}
	s := newAlone(newFake(), Options{Runner: echoScripts{}, Live: func() (*Options, <-chan struct{}) { return now, nil }})
	const last = "the end"
	first := calls[any](t, s, "run_script", fmt.Sprintf(`{"code":%q}`, strings.Repeat("x", 60_000)+last))
	note := regexp.MustCompile(`read_result (\{.*?\})`).FindStringSubmatch(first.Content[1].Text)
	if note == nil || len(first.Content[0].Text) > 50_000 {
		t.Fatalf("%d bytes, and %s", len(first.Content[0].Text), first.Content[1].Text)
	}
	next := regexp.MustCompile(`"offset": \d+`).ReplaceAllString(note[1], `"offset": 59900`)
	if rest := calls[any](t, s, "read_result", next); !strings.Contains(rest.Content[0].Text, last) {
		t.Errorf("%.200v", rest)
	}
	now = &Options{}
	if result := calls[any](t, s, "read_result", note[1]); !result.IsError {
		t.Errorf("without scripts: %+v", result)
	}
}

// realScripts runs scripts with the tools of a router.
type realScripts struct {
	engine *script.Engine
	router Router
}

func (realScripts) IsScript(*registry.NormalizedTool) bool { return false }

func (s realScripts) RunScript(ctx context.Context, run host.Run) script.Outcome {
	return host.Do(ctx, s.engine, s.router, script.Limits{}, run)
}

// newEngine returns an engine that has loaded its interpreter, which takes longer than a client of a test waits.
func newEngine(t *testing.T) *script.Engine {
	t.Helper()
	e := script.New("")
	t.Cleanup(func() { e.Close() })
	if o := e.Run(t.Context(), script.Script{Code: "1"}, nil, script.Options{}); o.Err != nil {
		t.Fatal(o.Err)
	}
	return e
}

// A token that may only read runs scripts that read: other tools are not known to them.
func TestScopeOfScript(t *testing.T) {
	engine := newEngine(t)
	f := newFakeIssuer()
	f.proofs["rita"] = f.proof("rita", clientauth.Principal{Reads: true}, "tools.read")
	w := serveIssuedWith(t, f.options(), func(r Router) Options {
		return Options{Mode: exposure.Code, Scripts: true, Runner: realScripts{engine, r}}
	})
	for token, want := range map[string]string{"ann": `"text":"a:read a:write"`, "rita": `"text":"a:read -"`} {
		code := `const tried = []; for (const t of ["a:read", "a:write"]) tried.push((await callSafe(t)).ok ? t : "-"); return tried.join(" ")`
		status, answer := w.text(http.MethodPost, "/mcp", rpc("tools/call", `"name":"run_script","arguments":{"code":`+string(wire.Marshal(code))+`}`), bearer(token)...)
		if status != http.StatusOK || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s, want %s", token, status, answer, want)
		}
	}
}

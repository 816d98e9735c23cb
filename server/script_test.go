package server

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// realScripts runs scripts with the tools of a router.
type realScripts struct {
	engine *script.Engine
	router Router
}

func (realScripts) IsScript(*registry.NormalizedTool) (bool, string) { return false, "" }

func (s realScripts) RunScript(ctx context.Context, run selector.ScriptRun) selector.ScriptOutcome {
	return selector.RunScript(ctx, s.engine, s.router, script.Limits{}, run)
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

package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
)

// TestWalkOfUnions walks over a router with the token of a union of profiles, and with one that is
// for reading only, where one tool may write. Both see two tools of three.
func TestWalkOfUnions(t *testing.T) {
	all := walkedParams(t)
	of := func(servers ...config.Server) *walkRouter {
		return runWalk(t, exposure.Search, config.Config{Servers: servers, Router: config.Router{Profiles: walkProfiles}})
	}
	full := of(
		walkServer("open", "-tools", "echo,pid", "-tool", "zzmark_delete: Deletes zzmark things", "-prompts", "zzmark_prompt", "-resources", "doc://zzmark/a", "-templates", "doc://zzmark/t/{x}", "-complete", "-logging"),
		walkServer("zzmark-server", "-tools", "zzmark_x,echo,pid", "-prompts", "zzmark_prompt", "-resources", "doc://zzmark/b,doc://x", "-skills", "zzmark"),
	)
	only := of(walkServer("open", "-tools", "echo,pid", "-complete", "-logging"))
	for name, chosen := range map[string][]string{"union": {"gone|one|pid"}, "reader": {"nothing|tools", "@read"}} {
		list := rpc("tools/call", `"name":"describe_tools","arguments":{"ids":["open:echo","open:pid"]}`)
		described := full.tokens.ask(probe{"", http.MethodPost, "/mcp", list, []string{"Authorization", "Bearer " + walkToken(name)}})
		if !strings.Contains(described, "Return the arguments as text.") || !strings.Contains(described, "Return the process id of this server.") {
			t.Fatalf("%s does not see both tools: %s", name, described)
		}
		for _, p := range withToken(all, name) {
			compareWalks(t, name+", "+p.name+": "+p.method+" "+p.path+" "+p.body, full.tokens.ask(p), only.tokens.ask(p))
		}
		want := only.overStdio(all, chosen...)
		for request, got := range full.overStdio(all, chosen...) {
			compareWalks(t, name+", stdio: "+request, got, want[request])
		}
	}
	for _, path := range []string{"/mcp/p/gone%7Cone%7Cpid", "/mcp/p/one|pid", "/mcp/p/@read", "/mcp/p/%40read", "/mcp/p/one+pid"} {
		for _, w := range []*web{full.web, full.tokens} {
			header := []string{"Authorization", "Bearer " + walkToken("union")}
			unknown, _ := w.text(http.MethodPost, "/mcp/p/unknown", rpc("tools/list", ""), header...)
			if status, body := w.text(http.MethodPost, path, rpc("tools/list", ""), header...); status != http.StatusNotFound || status != unknown {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
	}
}

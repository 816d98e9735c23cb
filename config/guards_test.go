package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The place of the only error is marked with § in the text.
func TestGuards(t *testing.T) {
	entry := func(s string) string { return `{"mcpServers": {"a": {"command": "x", ` + s + `}}}` }
	for _, tt := range []struct{ name, text, says string }{
		{"a wrong type", `{§"metarouter": [{"http": {}}]}`, `"metarouter" must be an object; write {…}`},
		{"another case", `{"mcpServers": {}, §"Metarouter": {"http": {}}}`, `the key "Metarouter" is not known; did you mean "metarouter"?`},
		{"in another client's settings", `{"theme": "x", "mcpServers": {}, §"meta-router": {}}`, `did you mean "metarouter"?`},
		{"without a root", `{"a": {"command": "x"}, §"metaruter": {"http": {}}}`, `the key "metaruter" is that of no server; write "metarouter" at the top level of the file`},
		{"in an entry", entry(`§"metarouter": {}`), `it belongs at the top level of the file; write "metarouter": {…}`},
		{"among servers", `{"mcpServers": {§"metarouter": {"mode": "search"}}}`, `write "metarouter" at the top level of the file`},
		{"twice", `{"metarouter": {}, §"metarouter": {}}`, `"metarouter" is here twice; remove one`},
		{"null", `{§"mcpServers": null}`, `"mcpServers" must not be null; remove it`},
		{"no servers", `{§"MCPServers": {}}`, `did you mean "mcpServers"?`},
		{"http among servers", `{"mcpServers": {§"http": {"addr": "127.0.0.1:1"}}}`, `write "metarouter": {"http": {…}}`},
		{"http is null", `{"metarouter": {§"http": null}}`, `"http" must not be null; remove it, or write its value`},
		{"a rate at the top", `{"metarouter": {§"rate": "1/s"}}`, `it belongs in "http"; write "metarouter": {"http": {"rate": "1/s"}}`},
		{"a server's key for all", `{"metarouter": {§"retry": "never"}}`, `it belongs in the entry of a server`},

		{"tokens at the top", `{"mcpServers": {}, §"tokens": "abcdefghijklmnop"}`, `it belongs in "http", so no token of the file lets a client in until it is corrected; write "metarouter": {"http": {"tokens": "…"}}`},
		{"tokens in an entry", entry(`§"tokens": []`), `it belongs in "http", so no token of the file lets a client in until it is corrected`},
		{"hosts", `{"metarouter": {"http": {§"alowedHosts": []}}}`, `so only the hosts and origins of the default are allowed until it is corrected; did you mean "allowedHosts"?`},
		{"tools", entry(`"tools": {§"alow": ["x"]}`), `the key "alow" is not known, so the server is not started until it is corrected; did you mean "allow"?`},
		{"deny in an entry", entry(`§"deny": ["x"]`), `so the server is not started until it is corrected; write "mcpServers": {"a": {"tools": {"deny": […]}}}`},
		{"readOnly in an entry", entry(`§"readOnly": true`), `so the server is not started until it is corrected; write`},
		{"a server's key among servers", `{"mcpServers": {"a": {"command": "x"}, §"excludeTools": ["x"]}}`, `it belongs in the entry of a server; write "mcpServers": {"a name": {"excludeTools": […]}}`},
		{"profiles", `{"metarouter": {§"Profiles": {}}}`, `so no profile allows anything until it is corrected; did you mean "profiles"?`},
		{"the default profile", `{"metarouter": {"profiles": {§"defualt": {}}}}`, `"defualt" is near to "default", so clients without a profile see nothing until it is corrected; did you mean "default"?`},
		{"a profile's key among profiles", `{"metarouter": {"profiles": {§"readOnly": true}}}`, `can't be the name of a profile, since profiles have a key of that name, so no profile allows anything until it is corrected; write it into a profile`},
		{"no scripts for all", `{"metarouter": {"mode": "code", §"scripts": false}}`, `"scripts" must be an object, so no profile allows anything until it is corrected; write {"timeout": "1m"} here, and true or false into a profile`},
		{"scripts for all", `{"metarouter": {§"scripts": true}}`, `"scripts" must be an object; write {…}`},
		{"scripts in http", `{"metarouter": {"http": {§"scripts": false}}}`, `so no profile allows anything until it is corrected`},
		{"scripts among profiles", `{"metarouter": {"profiles": {§"scripts": false}}}`, `can't be the name of a profile, since profiles have a key of that name, so no profile allows anything`},
		{"a cluster", `{"metarouter": {§"Cluster": {}}}`, `so the router joins no cluster until it is corrected; did you mean "cluster"?`},
		{"a public URL", `{"metarouter": {"http": {§"publicUrl": 7}}}`, `"publicUrl" must be a string, so no client is let in without a token until it is corrected; put it in quotes`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, p := marked(t, tt.text, tt.says)
			expect.Equal(t, p.Severity, severityError)
		})
	}
}

// A key that is far from all guards closes nothing, and neither do names of servers and keys of
// other programs.
func TestNoGuards(t *testing.T) {
	for _, text := range []string{
		`{"mcpServers": {"a": {"command": "x", "colour": 1, "default": true}}, "colour": {"http": {}}, "metarouter": {"colour": 1, "http": {"colour": 1}}}`,
		`{"mcpServers": {"metarouter": {"note": 1}, "http": {"command": "x"}, "tokens": {"url": "https://x"}, "metarouter-2": {"command": "x"}}}`,
		`{"http": {"command": "x"}, "metarouter2": {"command": "y"}}`,
		`{"mcpServers": {"a": {"command": "x"}}, "tools": ["x"], "deny": [], "server": {}}`,
		`{"theme": "x", "context_servers": {"a": {"source": "extension", "settings": {}}, "http": {"source": "extension", "command": "x"}}, "profiles": {"a": {}}, "tokens": 7}`,
		`{"mcpServers": {"a": {"command": "x", "tools": {"ask": {"name": "b"}}}}, "metarouter": {"profiles": {"tokens": {}, "rate": {"readOnly": true}}}}`,
	} {
		c := loadText(t, text)
		for _, s := range c.Servers {
			if s.Name != "a" && s.Name != "metarouter" && s.Misconfigured != "" || strings.Contains(s.Misconfigured, "corrected") {
				t.Errorf("%s: %s", text, s.Misconfigured)
			}
		}
		if i := slices.IndexFunc(c.Problems, func(p Problem) bool { return strings.Contains(p.Message, "corrected") }); i >= 0 || !c.Router.HTTP.isPublic() {
			t.Errorf("%s: %v", text, c.Problems)
		}
		if _, closed := c.Router.Profiles[DefaultProfile]; closed {
			t.Errorf("%s: clients without a profile see nothing", text)
		}
	}
}

package config

import (
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The place of the only error is marked with § in the text.
func TestMistakenKeys(t *testing.T) {
	const good = `"good": {"command": "x"}`
	entry := func(s string) string { return `{"mcpServers": {"a": {"command": "x", ` + s + `}}}` }
	for _, tt := range []struct{ name, text, says string }{
		{"a wrong type", `{§"metarouter": [{"http": {}}]}`, `"metarouter" must be an object; write {…}`},
		{"another case", `{"mcpServers": {}, §"Metarouter": {"http": {}}}`, `the key "Metarouter" is not known; did you mean "metarouter"?`},
		{"in another client's settings", `{"theme": "x", "mcpServers": {}, §"meta-router": {}}`, `did you mean "metarouter"?`},
		{"without a root", `{"a": {"command": "x"}, §"metaruter": {"http": {}}}`, `the key "metaruter" is that of no server; write "metarouter" at the top level of the file`},
		{"in an entry", entry(`§"metarouter": {}`), `write it at the top level of the file`},
		{"among servers", `{"mcpServers": {§"metarouter": {"mode": "search"}}}`, `write "metarouter" at the top level of the file`},
		{"twice", `{"metarouter": {}, §"metarouter": {}}`, `"metarouter" is here twice; remove one`},
		{"null", `{§"mcpServers": null}`, `"mcpServers" must not be null; remove it`},
		{"no servers", `{§"MCPServers": {}}`, `did you mean "mcpServers"?`},
		{"http among servers", `{"mcpServers": {§"http": {"addr": "127.0.0.1:1"}}}`, `write it in metarouter`},
		{"http is null", `{"metarouter": {§"http": null}}`, `"http" must not be null; remove it, or write its value`},
		{"a rate at the top", `{"metarouter": {§"rate": "1/s"}}`, `write it in metarouter.http`},
		{"a server's key for all", `{"metarouter": {§"retry": "never"}}`, `write it in mcpServers.NAME`},
		{"http port", `{"metarouter": {"http": {§"port": 80}}}`, `did you mean "addr"?`},
		{"router key in the file", `{"mcpServers": {}, §"mode": "search"}`, `write it in metarouter`},
		{"router key without a root", `{"a": {"command": "x"}, §"mode": "search"}`, `write it in metarouter`},
		{"router key in an entry", entry(`§"toolBudget": 5`), `write it in metarouter`},
		{"router key among servers", `{"mcpServers": {` + good + `, §"timeout": "5m"}}`, `write it in metarouter`},
		{"servers among servers", `{"mcpServers": {` + good + `, §"mcpServers": {"a": {"command": "x"}}}}`, `write it at the top level of the file`},
		{"servers in the router", `{"metarouter": {§"mcpServers": {"a": {"command": "x"}}}}`, `write it at the top level of the file`},
		{"entry without a name", `{"mcpServers": {§"command": "npx"}}`, `write it in mcpServers.NAME`},
		{"env among servers", `{"mcpServers": {` + good + `, §"env": {"A": "b"}}}`, `write it in mcpServers.NAME`},
		{"entry key in tools", entry(`"tools": {§"lazy": true}`), `write it in mcpServers.NAME`},
		{"http key in the router", `{"metarouter": {§"addr": "127.0.0.1:1"}}`, `write it in metarouter.http`},
		{"router key in http", `{"metarouter": {"http": {§"timeout": "1s"}}}`, `write it in metarouter`},
		{"a condition of a rule", `{"metarouter": {"classification": {"rules": [{§"min_word": 5, "model": "m"}]}}}`, `did you mean "min_words"?`},

		{"tokens at the top", `{"mcpServers": {}, §"tokens": "abcdefghijklmnop"}`, `write it in metarouter.http`},
		{"tokens in an entry", entry(`§"tokens": []`), `write it in metarouter.http`},
		{"hosts", `{"metarouter": {"http": {§"alowedHosts": []}}}`, `did you mean "allowedHosts"?`},
		{"tools", entry(`"tools": {§"alow": ["x"]}`), `the key "alow" is not known; did you mean "allow"?`},
		{"deny in an entry", entry(`§"deny": ["x"]`), `write it in mcpServers.NAME.tools`},
		{"readOnly in an entry", entry(`§"readOnly": true`), `write it in metarouter.profiles.NAME`},
		{"a server's key among servers", `{"mcpServers": {"a": {"command": "x"}, §"excludeTools": ["x"]}}`, `write it in mcpServers.NAME`},
		{"profiles", `{"metarouter": {§"Profiles": {}}}`, `did you mean "profiles"?`},
		{"the default profile", `{"metarouter": {"profiles": {§"defualt": {}}}}`, `"defualt" is near to "default"; did you mean "default"?`},
		{"a profile's key among profiles", `{"metarouter": {"profiles": {§"readOnly": true}}}`, `can't be the name of a profile, since profiles have a key of that name; write it into a profile`},
		{"no scripts for all", `{"metarouter": {"mode": "code", §"scripts": false}}`, `"scripts" must be an object; write {…}`},
		{"scripts for all", `{"metarouter": {§"scripts": true}}`, `"scripts" must be an object; write {…}`},
		{"scripts in http", `{"metarouter": {"http": {§"scripts": false}}}`, `write it in metarouter`},
		{"scripts among profiles", `{"metarouter": {"profiles": {§"scripts": false}}}`, `can't be the name of a profile, since profiles have a key of that name`},
		{"a cluster", `{"metarouter": {§"Cluster": {}}}`, `did you mean "cluster"?`},
		{"a public URL", `{"metarouter": {"http": {§"publicUrl": 7}}}`, `"publicUrl" must be a string; put it in quotes`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, p := marked(t, tt.text, tt.says)
			expect.Equal(t, p.Severity, severityError)
		})
	}
}

// A key that is far from all others is no mistake, and neither are names of servers and keys of
// other programs.
func TestHarmlessKeys(t *testing.T) {
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
			expect.Equal(t, strings.Contains(s.Misconfigured, "the key"), false, "%s: %s", text, s.Misconfigured)
		}
	}
}

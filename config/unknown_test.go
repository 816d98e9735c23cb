package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The place of the only warning is marked with § in the text.
func TestUnknownKeys(t *testing.T) {
	entry := func(s string) string { return `{"mcpServers": {"a": {"command": "x", ` + s + `}}}` }
	for _, tt := range []struct{ name, text, says string }{
		{"nothing near", entry(`§"favouriteColour": 1`), `the key "favouriteColour" is not known and has no effect; remove it, or correct its name`},
		{"a correction in a key", entry(`§"colour; run evil": 1`), `"colour; run evil" is not known`},
		{"nothing near in the router", `{"metarouter": {§"colour": 1}}`, `"colour" is not known`},
		{"ended", `{"metarouter": {§"assist": "sampling"}}`, `assist ended: metarouter asks no model to choose a tool; remove the key`},
		{"ended", `{"metarouter": {"http": {§"maxBatch": 50}}}`, `maxBatch ended: a batch has at most 100 messages; remove the key`},
		{"nothing near in the file", `{"mcpServers": {}, §"colour": 1}`, `"colour" is not known`},
		{"nothing near without a root", `{"a": {"command": "x"}, §"colour": 1}`, `"colour" is not known`},
		{"nothing near in tools", entry(`"tools": {§"colours": ["x"]}`), `"colours" is not known`},
		{"access log", `{"metarouter": {"accessLog": {"file": "x", §"colour": 1}}}`, `"colour" is not known`},
		{"category", `{"metarouter": {"classification": {"categories": [{"name": "a", §"colour": 1}]}}}`, `"colour" is not known`},
		{"rule", `{"metarouter": {"classification": {"rules": [{"model": "a", §"colour": 1}]}}}`, `"colour" is not known`},

		{"servers in something else", `{"tooling": {}, §"settings": {"mcpServers": {"a": {"command": "x"}}}}`, `the servers under "mcpServers" in "settings" are not read; write "mcpServers" at the top level of the file`},
		{"VS Code's settings", `{"editor.fontSize": 14, §"mcp": {"servers": {"a": {"command": "x"}}}}`, `the servers under "servers" in "mcp" are not read; write "servers" at the top level`},
		{"ours in another client's file", `{"mcpServers": {}, "permissions": {}, §"newTools": "hold"}`, `write it in metarouter`},
		{"cluster in another client's file", `{"mcpServers": {}, "a.b": 1, §"cluster": {"trusted": ["x"]}}`, `write it in metarouter`},
		{"entry key in the file", `{"mcpServers": {}, §"command": "npx"}`, `write it in mcpServers.NAME`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, p := marked(t, strings.Replace(tt.text, `"tooling": {}, `, "", 1), tt.says)
			if p.Severity != severityWarning || p.Fix == "" || strings.Contains(p.Fix, "evil") {
				t.Errorf("severity %s, fix %q", p.Severity, p.Fix)
			}
			for _, s := range c.Servers {
				expect.Equal(t, s.Misconfigured, "", "server %q is misconfigured", s.Name)
			}
		})
	}
}

// legitimate are files as the clients' documentation and their users have them.
var legitimate = map[string]string{
	"Claude Code": `{"mcpServers": {
		"a": {"type": "stdio", "command": "npx", "args": ["-y", "pkg"], "env": {}, "timeout": 60000},
		"b": {"type": "http", "url": "https://x/mcp", "headers": {"A": "b"}, "headersHelper": "/opt/x.sh", "alwaysLoad": true,
			"oauth": {"clientId": "c", "callbackPort": 8080, "authServerMetadataUrl": "https://x", "scopes": "a b"}}}}`,
	"Claude Code's settings": `{"permissions": {"allow": []}, "env": {"A": "b"}, "model": "opus", "hooks": {}, "mcpServers": {"a": {"command": "x"}}}`,
	"a plug-in":              `{"name": "p", "version": "1.0.0", "description": "d", "author": {"name": "n"}, "commands": "./c", "mcpServers": {"a": {"command": "x"}}}`,
	"VS Code": `{"inputs": [{"type": "promptString", "id": "k", "password": true}], "servers": {
		"a": {"type": "stdio", "command": "node", "args": ["x.js"], "envFile": ".env", "dev": {"watch": "x", "debug": {"type": "node"}}, "sandboxEnabled": true,
			"sandbox": {"filesystem": {"allowWrite": ["${workspaceFolder}"]}}},
		"b": {"type": "http", "url": "https://x/mcp", "headers": {}, "gallery": true, "version": "1", "oauth": {"clientId": "c"}}},
		"sandbox": {"network": {"allowedDomains": ["x"]}}}`,
	"Cursor":        `{"mcpServers": {"a": {"url": "https://x", "auth": {"CLIENT_ID": "c", "CLIENT_SECRET": "s", "scopes": ["a"]}}, "b": {"type": "stdio", "command": "x", "envFile": ".env"}}}`,
	"Windsurf":      `{"mcpServers": {"a": {"serverUrl": "https://x", "headers": {}, "disabled": false, "disabledTools": ["y"], "alwaysAllow": []}}}`,
	"Cline":         `{"mcpServers": {"a": {"command": "x", "disabled": false, "autoApprove": ["y"], "alwaysAllow": [], "timeout": 60, "networkTimeout": 5, "transportType": "stdio"}}}`,
	"Roo":           `{"mcpServers": {"a": {"type": "streamable-http", "url": "https://x", "alwaysAllow": ["y"], "disabledTools": [], "watchPaths": ["/x"]}}}`,
	"Gemini":        `{"general": {}, "ui": {}, "tools": {"core": []}, "model": {"name": "g"}, "mcp": {"allowed": ["a"]}, "mcpServers": {"a": {"httpUrl": "https://x", "trust": true, "includeTools": ["y"], "description": "d", "authProviderType": "dynamic_discovery", "oauth": {"enabled": true}, "targetAudience": "t"}}}`,
	"Gemini of old": `{"theme": "x", "excludeTools": ["y"], "sandbox": "docker", "mcpServers": {"a": {"command": "x", "cwd": "/", "timeout": 5000}}}`,
	"an extension":  `{"name": "e", "version": "1", "contextFileName": "X.md", "excludeTools": [], "mcpServers": {"a": {"command": "x"}}}`,
	"Zed":           `{"theme": "x", "vim_mode": true, "lsp": {}, "context_servers": {"a": {"source": "custom", "enabled": true, "command": "x", "settings": {}}, "b": {"source": "extension", "command": {"path": "x", "args": []}}}}`,
	"Copilot":       `{"mcpServers": {"a": {"type": "local", "command": "x", "args": [], "tools": ["*"], "isDefaultServer": true, "filterMapping": {}}}}`,
	"Kiro":          `{"mcpServers": {"a": {"command": "x", "disabled": false, "autoApprove": ["y"], "disabledTools": ["z"]}, "b": {"url": "https://x", "oauthScopes": ["s"], "oauth": {"redirectUri": "r"}}}}`,
	"Amazon Q":      `{"$schema": "s", "name": "n", "description": "d", "prompt": "p", "tools": ["*"], "allowedTools": [], "resources": [], "hooks": {}, "toolsSettings": {}, "mcpServers": {"a": {"command": "x", "timeout": 1000}}}`,
	"LM Studio":     `{"mcpServers": {"a": {"url": "https://x", "headers": {}}}}`,
	"FastMCP":       `{"mcpServers": {"a": {"transport": "http", "url": "https://x", "auth": "oauth", "description": "d", "icon": "i", "tools": {"y": {"name": "z", "enabled": true}}, "include_tags": ["t"]}}}`,
	"comments":      `{"$schema": "x", "//": "mine", "_note": 1, "mcpServers": {"//": "these", "a": {"command": "x", "_disabledBy": "me", "//args": ["old"], "x-team": "t", "comment": "c"}}}`,
}

// The other clients' files give no warning.
func TestLegitimateFiles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "cmd", "metarouter", "internal", "clients", "testdata", "*.json"))
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	all := make(map[string]string)
	for _, path := range files {
		if filepath.Base(path) == "vscode-settings.json" {
			continue // its servers are not where they are read
		}
		text, err := os.ReadFile(path)
		expect.OK(t, err)
		all[path] = string(text)
	}
	for name, text := range legitimate {
		all[name] = text
	}
	for name, text := range all {
		c, err := readExpanded("/project/.mcp.json", []byte(text))
		if err != nil {
			t.Fatal(name, err)
		}
		for _, p := range c.Problems {
			if p.Severity == severityWarning && !strings.Contains(p.Message, "in clear text") || strings.Contains(p.Message, "until it is corrected") {
				t.Errorf("%s: %v", name, p)
			}
		}
	}
}

// Errors are not hidden among warnings, and both are counted.
func TestManyUnknownKeys(t *testing.T) {
	c, err := readExpanded("/p/.mcp.json", []byte(`{"mcpServers": {"a": {"command": 1,`+repeat(20_000, func(i int) string { return fmt.Sprintf("\"colour%d\": 1,\n", i) })+`"args": 1}}}`))
	expect.OK(t, err)
	if n := len(c.Problems); n != maxProblems+maxWarnings+2 || !strings.Contains(fmt.Sprint(c.Problems[n-2:]), "more problems") || c.Servers[0].Misconfigured == "" {
		t.Errorf("%d problems, %v", n, c.Problems[n-2:])
	}
}

// Each level that the code names is one of the schema.
func TestLevels(t *testing.T) {
	for _, level := range []string{"", atEntry, atTools, atRouter, "metarouter.http", "metarouter.classification.rules", "mcpServers.*.command"} {
		if len(nodeAt(level).Keys) == 0 {
			t.Errorf("the schema has no keys at %q", level)
		}
	}
}

// Files of clients that are not read as they are name the command that imports them.
func TestFilesOfOtherClients(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"config.toml", "model = 1\n\n[mcp_servers.a]\ncommand = 'x'\n", "metarouter import codex --file "},
		{"config.yaml", "A: b\nextensions:\n  a:\n    cmd: x\n", `the file is not JSON; write it in JSON`},
		{"opencode.json", `{"theme": "x", "mcp": {"a": {"type": "local", "command": ["x"]}}}`, "metarouter import opencode --file "},
		{"mcp.json", `{"mcp": {"servers": {"a": {"type": "stdio", "command": "x"}}}}`, `the servers under "servers" in "mcp" are not read`},
		{"mcp.json", "[other]\na = 1\n", "write keys and strings in double quotes"},
	} {
		path := filepath.Join(t.TempDir(), tt.name)
		write(t, path, tt.text)
		c, err := Load(path)
		expect.Contains(t, fmt.Sprint(c.Problems, err), tt.want, "%s", tt.text)
	}
}

// Files that could be meant to restrict are refused, whatever else is in them.
func TestRestrictionsAreNotLost(t *testing.T) {
	for text, says := range map[string]string{
		`{"metarouter": {"deny": ["*"]}}`:                                  `the key "deny" has no effect here; write it in metarouter.profiles.NAME`,
		`{"metarouter": {"http": {"allow": ["x"]}}}`:                       `the key "allow" has no effect here`,
		`{"mcpServers": {}, "readOnly": true}`:                             `the key "readOnly" has no effect here`,
		`{"mcpServers": {}, "permissions": {}, "http": {"tokens": ["a"]}}`: `the key "http" has no effect here`,
		`{"metarouter": {"http": {"oauth": {"issuers": [{"url": "https://a.example"}, {"url": "https://a.example"}], "issuers": 5}}}}`:    `"issuers" must be an array`,
		`{"metarouter": {"http": {"oauth": {"issuers": [{"url": "https://a.example"}, {"url": "https://a.example"}], "issuers": [{}]}}}}`: `"issuers" is here twice`,
		`{"metarouter": {"cluster": {"urls": ["nats://a.example", "nats://b.example"], "urls": 5}}}`:                                      `"urls" must be an array`,
	} {
		c, err := ReadText("/x/.mcp.json", []byte(text))
		if err == nil || !strings.Contains(fmt.Sprint(c.Problems), says) {
			t.Errorf("%s: %v, %v", text, err, c.Problems)
		}
	}
}

package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The folders, logs, certificates and addresses that only a look at the system shows to be
// wrong. The text is not looked up before it is trusted.
func TestExamine(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GONE", filepath.Join(dir, "gone"))
	write(t, filepath.Join(dir, "file"), "x")
	expect.OK(t, os.Mkdir(filepath.Join(dir, "there"), 0o700))
	q := func(path string) string { b, _ := json.Marshal(filepath.Join(dir, path)); return string(b) }
	fs := func(folders string) string {
		return `"a": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem@2025.1.1", ` + folders + `]}`
	}
	for _, tt := range []struct{ servers, router, severity, says string }{
		{fs(q("there")), ``, "", ""},
		{fs(q("there") + `, ` + q("none")), ``, "warning", `does not exist; correct the path, or make the folder`},
		{fs(`"${GONE}"`), ``, "warning", `the folder "${GONE}" does not exist`},
		{fs(q("file")), ``, "warning", `is not a folder; write the path of a folder`},
		{fs(`"relative"`), ``, "warning", `the folder "relative" does not exist`},
		{`"a": {"command": "npx", "args": ["@modelcontextprotocol/server-filesystem", "none"], "cwd": "there"}`, ``, "warning", `the folder "none" does not exist`},
		{`"a": {"command": "npx", "args": ["@modelcontextprotocol/server-filesystem", ` + q("none") + `], "disabled": true}`, ``, "", ""},
		{`"a": {"command": "npx", "args": ["some-other-server", ` + q("none") + `]}`, ``, "", ""},
		{`"a": {"command": "uvx", "args": ["mcp-server-git", "--repository", ` + q("none") + `]}`, ``, "warning", `does not exist`},
		{`"a": {"command": "uv", "args": ["--directory", ` + q("none") + `, "run", "x"]}`, ``, "warning", `does not exist`},
		{`"a": {"command": "docker", "args": ["run", "-i", "--mount", "type=bind,src=` + filepath.ToSlash(filepath.Join(dir, "none")) + `,dst=/projects/x", "mcp/filesystem", "/projects"]}`, ``, "warning", `none" does not exist`},
		{`"a": {"command": "docker", "args": ["run", "--mount", "type=bind,src=` + filepath.ToSlash(filepath.Join(dir, "file")) + `,dst=/projects/x,ro", "mcp/filesystem", "/projects"]}`, ``, "", ""},
		{`"a": {"command": "metarouter", "args": ["builtin", "files", ` + q("none") + `]}`, ``, "warning", `does not exist`},

		{``, `"accessLog": "access.log"`, "", ""},
		{``, `"accessLog": "new/folder/access.log"`, "", ""},
		{``, `"accessLog": "there"`, "error", `'metarouter serve' does not start with this "accessLog": it is a folder; write the path`},
		{``, `"accessLog": {"file": "file/access.log"}`, "error", `not a directory`},
		{``, `"http": {"tlsCert": "file", "tlsKey": "file"}`, "error", `does not start with this "tlsCert" and "tlsKey"`},
		{``, `"http": {"tlsCert": "none", "tlsKey": "file"}`, "error", `no such file`},
		{``, `"http": {"addr": "0.0.0.0:8787"}`, "warning", `needs a token, and the configuration has none`},
		{``, `"http": {"addr": ":8787", "tokens": [{"token": "0123456789abcdef"}]}`, "", ""},
		{``, `"http": {"tokens": ["0123456789abcdef"]}`, "warning", `write {"token": "${CI_TOKEN}", "name": "NAME", "role": "admin"}`},
		{``, `"http": {"tokens": ["short"]}`, "warning", `write {"token": "${CI_TOKEN}", "name": "NAME", "role": "admin"}`},
		{``, `"http": {"addr": "localhost:8787"}`, "", ""},
	} {
		path := filepath.Join(dir, "c.json")
		write(t, path, `{"mcpServers": {`+tt.servers+`}, "metarouter": {`+tt.router+`}}`)
		text, err := LoadText(path)
		expect.OK(t, err)
		if said := text.Examine().Problems; len(said) > 0 {
			t.Errorf("%s%s: not trusted, and it says %v", tt.servers, tt.router, said)
		}
		c, err := text.Expand()
		expect.OK(t, err)
		examined := c.Examine()
		if !examined.Examine().Equal(examined) {
			t.Errorf("%s%s: the second time it says something else", tt.servers, tt.router)
		}
		if tt.says == "" {
			if len(examined.Problems) > 0 {
				t.Errorf("%s%s: %v", tt.servers, tt.router, examined.Problems)
			}
			continue
		}
		if len(examined.Problems) != 1 || examined.Problems[0].Severity != tt.severity || !strings.Contains(examined.Problems[0].Message, tt.says) ||
			examined.Problems[0].Line != 1 || strings.Contains(tt.servers, "GONE") && strings.Contains(examined.Problems[0].Message, dir) {
			t.Errorf("%s%s: %+v, want %s %q", tt.servers, tt.router, examined.Problems, tt.severity, tt.says)
		}
	}
	for _, name := range []string{"access.log", "new"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was created", name)
		}
	}
}

// A variable that the environment lacks and the entry's envFile has is set.
func TestVariablesOfEnvFile(t *testing.T) {
	s := only(t, `{"mcpServers": {"a": {"command": "x", "args": ["${FROM_FILE}", "${HOST}"], "env": {"K": "${BOTH}"}, "envFile": ".env"}}}`)
	if !slices.Equal(s.Args, []string{"file", "example.com"}) || s.Env["K"] != "file" {
		t.Errorf("args %q, env %q", s.Args, s.Env)
	}
	c := loadText(t, `{"mcpServers": {"a": {"command": "x", "envFile": ".env"}, "b": {"command": "x", "args": ["${FROM_FILE}"]}}}`)
	if len(c.Problems) != 1 || c.Problems[0].Server != "b" {
		t.Errorf("problems %v", c.Problems)
	}
	c = loadText(t, `{"mcpServers": {"a": {"command": "x", "envFile": "${FROM_FILE}"}}}`)
	if len(c.Problems) != 1 {
		t.Errorf("problems %v", c.Problems)
	}
}

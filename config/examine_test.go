package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The logs, certificates and addresses that only a look at the system shows to be
// wrong. The text is not looked up before it is trusted.
func TestExamine(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "x")
	expect.OK(t, os.Mkdir(filepath.Join(dir, "there"), 0o700))
	for _, tt := range []struct{ router, severity, says string }{
		{`"accessLog": "access.log"`, "", ""},
		{`"accessLog": "new/folder/access.log"`, "", ""},
		{`"accessLog": "there"`, "error", `'metarouter serve' does not start with this "accessLog": it is a folder; write the path`},
		{`"accessLog": {"file": "file/access.log"}`, "error", `not a directory`},
		{`"http": {"tlsCert": "file", "tlsKey": "file"}`, "error", `does not start with this "tlsCert" and "tlsKey"`},
		{`"http": {"tlsCert": "none", "tlsKey": "file"}`, "error", `no such file`},
		{`"http": {"addr": "0.0.0.0:8787"}`, "warning", `needs a token, and the configuration has none`},
		{`"http": {"addr": ":8787", "tokens": [{"token": "0123456789abcdef"}]}`, "", ""},
		{`"http": {"tokens": ["0123456789abcdef"]}`, "warning", `write {"token": "${CI_TOKEN}", "name": "NAME", "role": "admin"}`},
		{`"http": {"tokens": ["short"]}`, "warning", `write {"token": "${CI_TOKEN}", "name": "NAME", "role": "admin"}`},
		{`"http": {"addr": "localhost:8787"}`, "", ""},
	} {
		path := filepath.Join(dir, "c.json")
		write(t, path, `{"metarouter": {`+tt.router+`}}`)
		text, err := LoadText(path)
		expect.OK(t, err)
		expect.List(t, text.Examine().Problems, nil, "%s: not trusted", tt.router)
		c, err := text.Expand()
		expect.OK(t, err)
		examined := c.Examine()
		if !examined.Examine().Equal(examined) {
			t.Errorf("%s: the second time it says something else", tt.router)
		}
		if tt.says == "" {
			expect.List(t, examined.Problems, nil, "%s", tt.router)
			continue
		}
		if len(examined.Problems) != 1 || examined.Problems[0].Severity != tt.severity || !strings.Contains(examined.Problems[0].Message, tt.says) ||
			examined.Problems[0].Line != 1 {
			t.Errorf("%s: %+v, want %s %q", tt.router, examined.Problems, tt.severity, tt.says)
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
	expect.Equal(t, len(c.Problems), 1, "problems %v", c.Problems)
}

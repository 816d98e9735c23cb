package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestMoveSecret(t *testing.T) {
	const github, random = "ghp_0123456789abcdefghijABCDEFGHIJ012345", "a1b2c3d4e5f6g7h8i9j0"
	for _, tt := range []struct{ entry, name, want, value string }{ // want is an error if value is ""
		{`"env": {"A": "1", "TOKEN": "short" /* c */}`, "TOKEN", `"env": {"A": "1", "TOKEN": "${keyring:TOKEN}" /* c */}`, "short"},
		{`"env": {"a-key": "x"}`, "A_KEY", `"env": {"a-key": "${keyring:A_KEY}"}`, "x"},
		{`"env": {"T": "` + github + `"}, "args": ["` + github + `", "b"]`, "OTHER", `"env": {"T": "${keyring:OTHER}"}, "args": ["${keyring:OTHER}", "b"]`, github},
		{`"headers": {"Authorization": "Bearer ` + random + `", "X-Version": "1"}`, "MY_SERVER_TOKEN", `"headers": {"Authorization": "Bearer ${keyring:MY_SERVER_TOKEN}", "X-Version": "1"}`, random},
		{`"headers": {"X-Key": "v", "X-Version": "1"}`, "X-Key", `"headers": {"X-Key": "${keyring:X-Key}", "X-Version": "1"}`, "v"},
		{`"args": ["--api-key", "k", "--api-key2=v"]`, "API_KEY", `"args": ["--api-key", "${keyring:API_KEY}", "--api-key2=v"]`, "k"},
		{`"args": ["-y", "pkg"], "env": {"TOKEN": "` + github + `"}`, "MY_SERVER_TOKEN", `"args": ["-y", "pkg"], "env": {"TOKEN": "${keyring:MY_SERVER_TOKEN}"}`, github},
		{`"args": ["--api-key=k"]`, "API_KEY", `"args": ["--api-key=${keyring:API_KEY}"]`, "k"},
		{`"command": {"path": "x", "env": {"T": "v"}}`, "T", `"command": {"path": "x", "env": {"T": "${keyring:T}"}}`, "v"},
		{`"env": {"T": "${keyring:T}", "U": "v"}`, "T", `Name the secret like the variable, option or header that has the value as text: U`, ""},
		{`"env": {"T": "` + github + `", "KEY": "` + random + `"}`, "OTHER", "as text: T, KEY", ""},
		{`"headers": {"X-Foo": "Bearer 12345678", "X-Version": "1"}`, "MY_SERVER_TOKEN", `"headers": {"X-Foo": "Bearer ${keyring:MY_SERVER_TOKEN}", "X-Version": "1"}`, "12345678"},
		{`"headers": {"Cookie": "id=` + github + `; a=b"}`, "MY_SERVER_TOKEN", "as text: Cookie", ""},
		{`"command": "x", "args": ["` + github + `=="]`, "T", "as text: " + github, ""},
		{`"command": "x", "args": ["a"]`, "T", "none has one, so run 'metarouter secret set T', and write ${keyring:T} where it belongs", ""},
	} {
		text, value, err := MoveSecret("f", []byte(`{"mcpServers": {"my server": {`+tt.entry+`}}}`), "my server", tt.name)
		if want := `{"mcpServers": {"my server": {` + tt.want + `}}}`; tt.value != "" && (err != nil || string(text) != want || value != tt.value) {
			t.Errorf("%s: %s, %q, %v", tt.entry, text, value, err)
		} else if tt.value == "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v", tt.entry, err)
		}
	}
}

func TestHolding(t *testing.T) {
	home := t.TempDir()
	p := System{OS: "linux", Home: home, Env: func(string) string { return "" }, Glob: func(string) []string { return nil }}
	ours, cursor := filepath.Join(home, "mcp.json"), filepath.Join(home, ".cursor", "mcp.json")
	for _, path := range []string{ours, cursor} {
		if f, err := Read(path); err != nil {
			t.Fatal(err)
		} else if _, err := f.Write([]byte(`{"a": "pass\"word"}`), 0o600, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Read(ours)
	expect.OK(t, err)
	backup, err := f.Write([]byte("{}"), 0o600, time.Now())
	expect.OK(t, err)
	expect.OK(t, os.WriteFile(backup+".txt", f.Data, 0o600)) // no copy of ours
	expect.List(t, Holding(p, []string{ours, ours}, `pass"word`), []string{backup, cursor})
	if got := Holding(p, []string{ours}, "word"); got != nil {
		t.Errorf("a short value: %q", got)
	}
}

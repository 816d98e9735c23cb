package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/vault"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestReferences(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", folder)
	t.Setenv("HOME", folder)
	t.Setenv("AppData", folder)
	t.Setenv("LOOKS_LIKE_ONE", "${cmd:evil}")
	t.Setenv(vault.KeyringVariable, "off")
	file := filepath.Join(folder, "x.json")
	expect.OK(t, os.WriteFile(filepath.Join(folder, "vars"), []byte("FROM_FILE=${cmd:evil}\n"), 0o600))
	c, err := readExpanded(file, []byte(`{
  "inputs": [{"id": "key", "password": true}, {"id": "open"}],
  "mcpServers": {
    "a": {
      "command": "x", "envFile": "vars", "args": ["${LOOKS_LIKE_ONE}", "${FROM_FILE}"],
      "env": {"A": "Bearer ${keyring:GH}", "B": "${NO:-${keyring:GH}}", "C": "${file:t/${LOOKS_LIKE_ONE}}", "D": "${cmd:run | awk '{print $1}'}", "E": "${op://v/i/f}", "F": "${input:key}"}
    },
    "open": {"command": "x", "env": {"A": "${input:open}"}},
    "off": {"command": "x", "disabled": true, "env": {"A": "${keyring:NOT_NEEDED}"}},
    "url": {"url": "https://h.example/${keyring:GH}"}
  }
}`))
	expect.OK(t, err)
	a := c.Servers[0]
	want := []reference.Reference{
		{Text: "${keyring:GH}", Kind: reference.Keyring, Body: "GH"},
		{Text: "${file:t/${LOOKS_LIKE_ONE}}", Kind: reference.File, Body: filepath.Join(folder, "t", "${cmd:evil}")},
		{Text: "${cmd:run | awk '{print $1}'}", Kind: reference.Command, Body: "run | awk '{print $1}'", Dir: folder},
		{Text: "${op://v/i/f}", Kind: reference.OnePassword, Body: "op://v/i/f", Dir: folder},
		{Text: "${input:key}", Kind: reference.Keyring, Body: "input-key"},
	}
	expect.Deep(t, a.References, want)
	if a.Misconfigured != "" || a.Env["A"] != "Bearer ${keyring:GH}" || a.Env["B"] != "${keyring:GH}" || a.Args[0] != "${cmd:evil}" || a.Args[1] != "${cmd:evil}" {
		t.Errorf("%+v", a)
	}
	if open := c.Servers[1]; len(open.References) > 0 || !strings.Contains(open.Misconfigured, "a prompt") {
		t.Errorf("an input that is no password: %+v", open)
	}
	expect.Equal(t, c.Servers[3].Misconfigured, "", "url")

	// Which secrets are missing can be told without the key of the store.
	missing := func() (all []string) {
		for _, p := range c.Examine().Problems {
			if strings.Contains(p.Fix, "secret set") {
				all = append(all, p.Server+": "+p.Fix)
			}
		}
		return all
	}
	gh, key := "run: metarouter secret set GH", "run: metarouter secret set input-key"
	expect.Deep(t, missing(), []string{"a: " + gh, "a: " + key, "url: " + gh}, "missing")
	own, err := vault.Own()
	expect.OK(t, err)
	for _, name := range []string{"GH", "input-key"} {
		_, err := own.Set(t.Context(), name, "value")
		expect.OK(t, err)
	}
	expect.List(t, missing(), nil, "still missing")
}

// Wrong references are mistakes with a correction, and nothing is looked at in a text that
// is not trusted.
func TestWrongReferences(t *testing.T) {
	for entry, says := range map[string]string{
		`"command": "${keyring:A}"`:                            `works only in "env"`,
		`"command": "x", "cwd": "${file:A}"`:                   `works only in "env"`,
		`"command": "x", "env": {"A": "${keyring:A:-x}"}`:      "${VAR:-${keyring:A}}",
		`"command": "x", "env": {"A": "${keyring:a b}"}`:       "no valid name",
		`"command": "x", "env": {"A": "${cmd: }"}`:             "has no command",
		`"command": "x", "env": {"A": "${file:}"}`:             "names no file",
		`"command": "x", "env": {"A": "${cmd:{"}`:              "has no end",
		`"command": "x", "env": {"A": "${input:none}"}`:        "a prompt",
		`"command": "x", "env": {"A": "${file:${NOT_SET}/x}"}`: "NOT_SET is not set",
	} {
		text := []byte(`{"mcpServers": {"a": {` + entry + `}}}`)
		c, err := readExpanded("x.json", text)
		expect.OK(t, err)
		expect.Contains(t, c.Servers[0].Misconfigured, says, "%s", entry)
		if c, err = ReadText("x.json", text); err != nil || len(c.Servers[0].References) > 0 {
			t.Errorf("%s: as text: %+v, %v", entry, c.Servers[0].References, err)
		}
	}
	_, err := readExpanded("x.json", []byte(`{"mcpServers": {}, "metarouter": {"http": {"publicUrl": "${keyring:A}"}}}`))
	expect.Error(t, err, `works only in "env"`, "a public URL")
}

// A secret that is written out is warned of, with the command that moves it, and its value is in no message.
func TestSecretsInClearText(t *testing.T) {
	const github, random = "ghp_0123456789abcdefghijABCDEFGHIJ012345", "a1b2c3d4e5f6g7h8i9j0"
	for entry, want := range map[string]string{
		`"command": "x", "env": {"GITHUB_TOKEN": "` + github + `"}`:                 `"env.GITHUB_TOKEN" is a secret in clear text; to move it out of the file, run: metarouter secret set GITHUB_TOKEN --from 'my server'`,
		`"command": "x", "env": {"ANY": "` + github + `"}`:                          `secret set ANY --from`,
		`"command": "x", "env": {"MY_KEY": "` + random + `"}`:                       `secret set MY_KEY --from`,
		`"command": "x", "env": {"BUILD": "` + random + `"}`:                        "",
		`"command": "x", "env": {"MY_KEY": "short"}`:                                "",
		`"command": "x", "env": {"MY_KEY": "${keyring:MY_KEY}"}`:                    "",
		`"command": {"path": "x", "env": {"ANY": "` + github + `"}}`:                `secret set ANY --from`,
		`"command": "x", "args": ["--api-key", "` + random + `"]`:                   `"args[1]" is a secret in clear text; to move it out of the file, run: metarouter secret set API_KEY`,
		`"command": "x", "args": ["--api-key=` + random + `"]`:                      `"args[0]" is a secret in clear text`,
		`"command": "x", "args": ["` + github + `"]`:                                `secret set MY_SERVER_TOKEN`,
		`"url": "http://h/", "headers": {"Authorization": "Bearer ` + random + `"}`: `secret set MY_SERVER_TOKEN --from`,
		`"url": "http://h/", "headers": {"X-Version": "1"}`:                         "",
	} {
		c, err := ReadText("/m.json", []byte(`{"mcpServers": {"my server": {`+entry+`}}}`))
		expect.OK(t, err)
		var says []string
		for _, p := range c.Problems {
			if strings.Contains(p.Message, "clear text") {
				says = append(says, p.Message)
			}
		}
		if got := strings.Join(says, "\n"); (want == "") != (got == "") || !strings.Contains(got, want) || strings.Contains(got, github) || strings.Contains(got, random) {
			t.Errorf("%s: %q, want %q", entry, got, want)
		}
	}
}

// A path with ~, which no shell replaces, is warned of.
func TestWarnOfHome(t *testing.T) {
	for entry, want := range map[string]string{
		`"command": "x", "args": ["~/data"]`:                               `~ in "args[0]" as it is, since no shell replaces it; write "${HOME}/data"`,
		`"command": "x", "args": ["--dir", "~/my data"]`:                   `~ in "args[1]" as it is, since no shell replaces it; write "${HOME}/my data"`,
		`"command": "x", "args": ["--dir=~/data"]`:                         `~ in "args[0]"`,
		`"command": "x", "env": {"DATA": "~/data/db"}`:                     `~ in "env.DATA" as it is, since no shell replaces it; write "${HOME}/data/db"`,
		`"command": "uvx", "args": ["mcp-server-fetch", "-f", "~/f"]`:      `~ in "args[2]"`,
		`"command": "~/bin/x", "cwd": "~/data", "envFile": "~/no"`:         ``,
		`"command": "x", "args": ["~", "a~/b", "~x/y"], "env": {"A": "~"}`: ``,
		`"url": "https://example.org/~/x", "headers": {"X-A": "~/data"}`:   ``,
	} {
		c := loadText(t, `{"mcpServers": {"a": {`+entry+`}}}`)
		got := ""
		for _, p := range c.Problems {
			if strings.Contains(p.Message, "no shell") {
				got += p.Message
			}
		}
		if !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q", entry, got)
		}
	}
}

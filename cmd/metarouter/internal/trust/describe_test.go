package trust

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
)

func textOf(t *testing.T, text string) config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), ".mcp.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.LoadText(file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDescribe(t *testing.T) {
	t.Setenv("TOKEN", "value-of-the-variable")
	got := Describe(textOf(t, `{
  // a comment
  "theme": "not ours",
  "mcpServers": {
    "github": {
      "command": "npx", "args": ["-y", "pkg@1", "two words", "--token=${TOKEN}"], "cwd": "sub", "timeout": "1m", "inheritEnv": ["AWS_PROFILE"],
      "env": {"API_TOKEN": "written-here", "OTHER": "${TOKEN}", "NODE_OPTIONS": "--require ./x.js token=1", "GIT_ASKPASS": "./run.sh", "DB_URL": "pg://u:pw@h/d"},
      "envFile": ".env", "tools": {"timeout": {"slow": "1m"}, "rename": {"delete": "read"}}, "disabled": true, "autoApprove": []
    },
    "docs\u001b[2J": {"url": "https://u:pw@example.com/mcp?key=secret", "headers": {"Authorization": "Bearer ab${TOKEN:-secret}cd", "X": "secret"}}
  },
  "metarouter": {
    "mode": "auto", "fillArguments": true, "accessLog": "calls.log",
    "http": {"addr": "0.0.0.0:1", "tokens": ["secret", "${TOKEN}"], "maxBody": 1},
    "assist": {"url": "https://models.example/v1", "model": "m", "headers": {"K": "secret"}},
    "classification": {"type": "mcp", "url": "https://classes.example", "categories": [{"name": "c", "system_prompt": "say \"x\""}]}
  }
}`))
	want := `  github
    command        npx
    args           -y pkg@1 "two words" --token=${TOKEN}
    cwd            sub
    inheritEnv     AWS_PROFILE (variables of yours that it gets)
    env.API_TOKEN  •••
    env.OTHER      ${TOKEN}
    env.NODE_OPTIONS "--require ./x.js token=1"
    env.GIT_ASKPASS ./run.sh
    env.DB_URL     pg://•••@h/d
    envFile        .env (more variables; the approval does not cover what is in this file)
    tools.rename.delete read
    disabled       true
    autoApprove    []
  "docs\x1b[2J"
    url            https://•••@example.com/mcp?key=••• (gets the arguments of calls)
    headers.Authorization "Bearer •••${TOKEN:-•••}•••"
    headers.X      •••
  metarouter:
    fillArguments  true (the client's model is asked for arguments)
    accessLog      calls.log (each call is written there)
    http.addr      0.0.0.0:1 (with --http, the router listens there)
    http.tokens    ••• ${TOKEN}
    assist.url     https://models.example/v1 (gets tasks, and descriptions of tools)
    assist.model   m
    assist.headers.K •••
    classification.type mcp
    classification.url https://classes.example (gets the texts to classify)
    classification.categories[0].name c
    classification.categories[0].system_prompt "say \"x\""
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A file without a root key has servers, and what is there twice is shown twice: the
// approval covers both.
func TestDescribeDuplicates(t *testing.T) {
	got := Describe(textOf(t, `{"a": {"command": "x", "command": "y"}, "metarouter": {"accessLog": "1", "accessLog": "2"}}`))
	for _, want := range []string{"command        x\n", "command        y\n", "accessLog      1", "accessLog      2"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwithout %q", got, want)
		}
	}
}

// A long description is cut, and its last line says so.
func TestDescribeIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&b, `"s%d": {"command": "x"},`, i)
	}
	for _, text := range []string{
		`{"mcpServers": {` + b.String() + `}}`,
		`{"mcpServers": {"a": {"command": "` + strings.Repeat("x\u001b", 100_000) + `"}}}`,
		`{"mcpServers": {"a": {"env": {"` + strings.Repeat("K", 1<<20) + `": ""}}}}`,
		`{"mcpServers": {"a": {"args": ["` + strings.Repeat(`x","`, 100_000) + `"]}}}`,
	} {
		text = strings.ReplaceAll(text, "\x1b", `\u001b`)
		got := Describe(textOf(t, text))
		if len(got) > 100_000 || !strings.HasSuffix(got, "READ THE FILE before you approve it.\n") || strings.Contains(got, "\x1b") {
			t.Errorf("%.50s…: %d bytes that end in %q", text, len(got), got[max(0, len(got)-100):])
		}
	}
}

// shown are the keys that decide what runs, what leaves the machine, what is written, or what
// is open to others. A new key of the schema belongs here or among the harmless ones. The
// lists are about leaves: of "headers" only the values are shown.
var (
	shown = set(
		"pinned", "validate", "routeThreshold", "learning", "fillArguments", "assist", "assist.url", "assist.model", "assist.headers",
		"embeddings", "embeddings.url", "embeddings.model", "embeddings.headers", "accessLog", "accessLog.file", "accessLog.arguments", "accessLog.results",
		"accessLog.maxSize", "accessLog.maxFiles", "capabilities", "http.addr", "http.allowedHosts", "http.allowedOrigins", "http.tokens",
		"http.tlsCert", "http.tlsKey", "classification.categories", "classification.rules", "classification.model", "classification.use_reasoning",
		"classification.fallback", "classification.fallback_category", "classification.type", "classification.server", "classification.url",
		"classification.headers", "classification.tools.classify", "classification.tools.list_categories",
	)
	shownOfServer = set(
		"command", "command.path", "command.args", "command.env", "args", "env", "envFile", "cwd", "inheritEnv", "type", "transport", "transportType",
		"url", "httpUrl", "serverUrl", "headers", "disabled", "enabled", "capabilities", "group", "validate", "retry", "tools", "tools.allow",
		"tools.deny", "tools.rename", "questionsPerMinute", "killStrays", "includeTools", "excludeTools", "disabledTools",
	)
)

func TestEveryKeyIsJudged(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(config.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	defs := schema["$defs"].(map[string]any)
	router := schema["properties"].(map[string]any)["metarouter"].(map[string]any)
	for _, c := range []struct {
		what            string
		schema          any
		shown, harmless map[string]bool
		wrap            string
	}{
		{"metarouter", router, shown, harmless, `{"metarouter": %s}`},
		{"a server", defs["server"], shownOfServer, harmlessOfServer, `{"mcpServers": {"a": %s}}`},
	} {
		keys := map[string]bool{}
		leaves(keys, "", c.schema, defs)
		for key := range keys {
			if c.shown[key] == c.harmless[key] {
				t.Errorf("the key %q of %s must be either shown or harmless: decide, and add it to one of the lists", key, c.what)
			}
			text := `"v"`
			for _, part := range slices.Backward(strings.Split(key, ".")) {
				text = fmt.Sprintf(`{%q: %s}`, part, text)
			}
			got := Describe(textOf(t, fmt.Sprintf(c.wrap, text)))
			if strings.Contains(got, "    "+key+" ") == c.harmless[key] {
				t.Errorf("%s: %s is shown as\n%s", c.what, text, got)
			}
		}
		for key := range maps.Keys(c.shown) {
			if !keys[key] {
				t.Errorf("%s has no key %q", c.what, key)
			}
		}
		for key := range maps.Keys(c.harmless) {
			if !keys[key] {
				t.Errorf("%s has no key %q", c.what, key)
			}
		}
	}
}

// leaves adds the paths of all keys of a schema whose values are not only objects with
// known keys.
func leaves(to map[string]bool, path string, schema any, defs map[string]any) {
	s, ok := schema.(map[string]any)
	if !ok {
		return
	}
	if ref, ok := s["$ref"].(string); ok {
		leaves(to, path, defs[strings.TrimPrefix(ref, "#/$defs/")], defs)
	}
	for _, list := range []string{"anyOf", "oneOf", "allOf"} {
		all, _ := s[list].([]any)
		for _, one := range all {
			if _, required := one.(map[string]any)["required"]; !required || one.(map[string]any)["properties"] != nil {
				leaves(to, path, one, defs)
			}
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for key, one := range properties {
		leaves(to, strings.TrimPrefix(path+"."+key, "."), one, defs)
	}
	if t, _ := s["type"].(string); path != "" && properties == nil && s["$ref"] == nil && s["anyOf"] == nil && s["oneOf"] == nil && t != "null" {
		to[path] = true
	}
}

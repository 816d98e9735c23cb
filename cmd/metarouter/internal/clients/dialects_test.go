package clients

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

const codexFile = `model = "m" # mine

[mcp_servers.files]
command = "npx"
args = ["-y", "pkg", 80]
env = { DEBUG = true }
env_vars = ["A", { name = "B", source = "local" }]
startup_timeout_sec = 20
tool_timeout_sec = 90.5
enabled_tools = ["read"]
disabled_tools = ["write"]
default_tools_approval_mode = "prompt"
tools.read.approval_mode = "approve"

[mcp_servers.none]
command = "x"
enabled_tools = []
disabledTools = ["write"]

[mcp_servers.web]
url = "https://a.example"
bearer_token_env_var = "T"
http_headers = { "X-A" = "b" }
env_http_headers = { "X-B" = "C" }
enabled = false
scopes = ["r"]
`

const opencodeFile = `{
  // mine
  "mcp": {
    "a": {"type": "local", "command": ["python3", "s.py"], "environment": {"K": "{env:KEY}", "F": "{file:~/f}", "R": "{file:r}"}, "enabled": false, "timeout": 9000},
    "b": {"type": "remote", "url": "https://a.example", "oauth": {"scope": "r"}}, // there
    "policy": {"enabled": true},
  },
}
`

const opencode2File = `{"mcp": {"servers": {
  "a": {"type": "local", "command": ["x"], "timeout": {"startup": 9000, "request": 5}, "disabled": true},
  "b": {"type": "remote", "url": "https://a.example", "oauth": {"client_id": "i"}}
}}}`

const zedFile = `{
  "context_servers": {
    "new": {"command": "npx", "args": ["x"], "env": {}},
    "old": {"source": "custom", "command": {"path": "npx", "args": ["y"]}},
    "ext": {"source": "extension", "settings": {}},
    "web": {"url": "https://a.example", "headers": {"A": "b"}},
  },
}
`

// Our file has the same meaning as an entry in each client's dialect.
func TestImportDialects(t *testing.T) {
	for _, v := range []string{"A", "B", "T", "C", "KEY"} {
		t.Setenv(v, "v-"+v)
	}
	for _, tc := range []struct {
		client, data string
		want         map[string]config.Server // their compared members
		notes        []string
	}{
		{"codex", codexFile, map[string]config.Server{
			"files": {Command: "npx", Args: []string{"-y", "pkg", "80"}, Env: map[string]string{"DEBUG": "true"}, InheritEnv: []string{"A", "B"}, StartTimeout: 20e9, Timeout: 90.5e9,
				Tools: config.ToolFilter{Allow: []string{"read"}, Deny: []string{"write"}}},
			"none": {Command: "x", Tools: config.ToolFilter{Deny: []string{"*"}}, StartTimeout: 90e9, Timeout: 300e9},
			"web": {URL: "https://a.example", Headers: map[string]string{"Authorization": "Bearer v-T", "X-A": "b", "X-B": "v-C"}, Disabled: true,
				OAuth: &config.OAuth{Scopes: []string{"r"}}, StartTimeout: 90e9, Timeout: 300e9},
		}, []string{`"files": has "tools", which only Codex reads`, `has "default_tools_approval_mode"`}},
		{"opencode", opencodeFile, map[string]config.Server{
			"a": {Command: "python3", Args: []string{"s.py"}, Env: map[string]string{"K": "v-KEY", "F": "${file:~/f}", "R": "${file:/w/r}"}, Disabled: true, StartTimeout: 9e9, Timeout: 300e9},
			"b": {URL: "https://a.example", StartTimeout: 90e9, Timeout: 300e9},
		}, []string{"only opencode can start them: policy"}},
		{"opencode", opencode2File, map[string]config.Server{
			"a": {Command: "x", Disabled: true, StartTimeout: 9e9, Timeout: 5e6},
			"b": {URL: "https://a.example", OAuth: &config.OAuth{ClientID: "i"}, StartTimeout: 90e9, Timeout: 300e9},
		}, nil},
		{"zed", zedFile, map[string]config.Server{
			"new": {Command: "npx", Args: []string{"x"}, StartTimeout: 90e9, Timeout: 300e9},
			"old": {Command: "npx", Args: []string{"y"}, StartTimeout: 90e9, Timeout: 300e9},
			"web": {URL: "https://a.example", Headers: map[string]string{"A": "b"}, StartTimeout: 90e9, Timeout: 300e9},
		}, []string{"only Zed can start them: ext"}},
	} {
		c, _ := Find(tc.client)
		done, err := Import([]Source{{Client: c, Path: "/w/f", keys: c.keys, Data: []byte(tc.data)}}, "/m.json", nil, Ours{})
		expect.OK(t, err)
		read, err := readExpanded("/m.json", done.Data)
		if err != nil || len(read.Servers) != len(tc.want) {
			t.Fatalf("%s: %v in\n%s", tc.client, err, done.Data)
		}
		for _, s := range read.Servers {
			got := config.Server{Command: s.Command, Args: s.Args, Env: s.Env, URL: s.URL, Headers: s.Headers, OAuth: tc.want[s.Name].OAuth, InheritEnv: s.InheritEnv,
				Disabled: s.Disabled, StartTimeout: s.StartTimeout, Timeout: s.Timeout, Tools: s.Tools}
			if want := tc.want[s.Name]; !reflect.DeepEqual(got, want) || s.Misconfigured != "" {
				t.Errorf("%s: %q is %+v %s, want %+v", tc.client, s.Name, got, s.Misconfigured, want)
			}
			if o := tc.want[s.Name].OAuth; o != nil && (s.OAuth == nil || s.OAuth.ClientID != o.ClientID || !reflect.DeepEqual(s.OAuth.Scopes, o.Scopes)) {
				t.Errorf("%s: the login of %q is %+v", tc.client, s.Name, s.OAuth)
			}
		}
		for _, want := range tc.notes {
			expect.Contains(t, strings.Join(done.Notes, "\n"), want, "%s: no note", tc.client)
		}
	}
}

// Our entry goes into files of each dialect, and all else stays as it is. The second time there is
// nothing to do.
func TestInstallDialects(t *testing.T) {
	e := RouterEntry{Command: `C:\a b\metarouter.exe`, Configs: []string{`/"mcp".json`}, Variables: []string{"KEY"}, Chosen: true}
	for _, tc := range []struct{ client, data, want string }{
		{"opencode", opencodeFile, `"command": ["C:\\a b\\metarouter.exe", "serve", "--config", "/\"mcp\".json"]`},
		{"opencode", opencode2File, `"metarouter": {`},
		{"zed", zedFile, `"metarouter": {`},
	} {
		c, _ := Find(tc.client)
		s := Source{Client: c, Path: "f", keys: c.keys, Data: []byte(tc.data)}
		got, err := Install(s, e, all, nil)
		if err != nil || !strings.Contains(string(got), tc.want) {
			t.Errorf("%s: no %q in\n%s\n%v", tc.client, tc.want, got, err)
			continue
		}
		rest := string(got)
		for line := range strings.Lines(tc.data) { // all lines are there, in order
			if _, after, ok := strings.Cut(rest, strings.TrimSuffix(strings.TrimRight(line, "\r\n"), "}}}")); ok {
				rest = after
			} else {
				t.Errorf("%s: the line %q is not in\n%s", tc.client, line, got)
			}
		}
		s.Data = got
		if again, err := Install(s, e, all, nil); err != nil || string(again) != string(got) {
			t.Errorf("%s: the second time it says\n%s\n%v", tc.client, again, err)
		}
		all, _, err := find([]Source{s})
		if err != nil || all == nil {
			t.Fatal(err)
		}
		for _, f := range all {
			if entry, err := f.convert("/m.json"); f.name == EntryName && (err != nil || entry.server.Command != e.Command) {
				t.Errorf("%s: our entry is read as %+v, %v", tc.client, entry.server, err)
			}
		}
	}
}

// The lines of our entry for files that are not written.
func TestLines(t *testing.T) {
	e := RouterEntry{Command: `C:\a b\metarouter.exe`, Configs: []string{`/"mcp".json`}, Variables: []string{"KEY"}, Chosen: true}
	for client, want := range map[string]string{
		"codex": "[mcp_servers.metarouter]\ncommand = \"C:\\\\a b\\\\metarouter.exe\"\nargs = [\"serve\", \"--config\", \"/\\\"mcp\\\".json\"]\nenv_vars = [\"KEY\"]",
		"goose": "extensions:\n  metarouter:\n    enabled: true\n    type: \"stdio\"\n",
	} {
		c, _ := Find(client)
		lines := Lines(c, e, []Place{{Name: EntryName}})
		expect.Contains(t, strings.Join(lines, "\n"), want, client)
		others, err := Others(Source{Client: c, Path: "f", keys: c.keys, Data: []byte(strings.Join(lines, "\n"))}, "/m.json", Ours{})
		if err != nil || len(others) > 0 {
			t.Errorf("%s: read as %+v, %v", client, others, err)
		}
	}
}

// A file in TOML that can't be read is refused without a word of it.
func TestTOMLErrors(t *testing.T) {
	c, _ := Find("codex")
	for data, want := range map[string]string{
		"a = ":                              "is no TOML that can be read (line 1",
		"a = [sk-secret\n":                  "is no TOML that can be read (line",
		"a = " + strings.Repeat("[", 1<<20): "brackets",
	} {
		_, err := Import([]Source{{Client: c, Path: "f", keys: c.keys, Data: []byte(data)}}, "/m.json", nil, Ours{})
		expect.Error(t, err, want)
		if strings.Contains(err.Error(), "sk-secret") {
			t.Error(err)
		}
	}
}

func FuzzTOML(f *testing.F) {
	for _, text := range []string{codexFile, "[[mcp_servers]]\n", "\ufeffmcp_servers = {}\r\n", "mcp_servers = { a = { command = \"x\" } }\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, _ := Find("codex")
		done, err := Import([]Source{{Client: c, Path: "f", keys: c.keys, Data: data}}, "/m.json", nil, Ours{})
		if err == nil {
			_, err = open("/m.json", done.Data)
			expect.OK(t, err)
		}
	})
}

// Of two files in one folder, the one that is there is the user's.
func TestUserFileOfTwoNames(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, ".config", "opencode", "opencode.jsonc")
	expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	expect.OK(t, os.WriteFile(path, []byte(opencodeFile), 0o600))
	c, _ := Find("opencode")
	place := System{OS: "linux", Home: home, Env: func(string) string { return "" }, Glob: func(string) []string { return nil }}
	expect.Equal(t, filepath.Clean(c.UserFile(place)), path)
}

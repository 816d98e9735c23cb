package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/urls"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// fakeWorld is an environment of these files and variables, and nothing else.
func fakeWorld(files, vars map[string]string) environment {
	return environment{
		lookup: func(name string) (string, bool) { v, ok := vars[name]; return v, ok },
		readFile: func(path string) ([]byte, error) {
			if data, ok := files[filepath.ToSlash(path)]; ok {
				return []byte(data), nil
			}
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		},
		lookPath:   func(string) (string, error) { return "", fs.ErrNotExist },
		home:       "/home/me",
		executable: "/opt/metarouter",
	}
}

const testFile = "/project/.mcp.json"

func loadText(t *testing.T, text string) Config {
	t.Helper()
	c, err := tryText(text)
	expect.OK(t, err, "load")
	return c
}

// anyText is loadText for a file that may be refused. Then the settings of the value have no mode.
func anyText(t *testing.T, text string) Config {
	t.Helper()
	c, err := tryText(text)
	if why, refused := errors.AsType[Problem](err); refused != isRefused(c) || refused && len(c.Problems) == 0 {
		c.Problems = []Problem{why}
	}
	return c
}

// isRefused reports whether the files of a value are not used.
func isRefused(c Config) bool { return c.Router.Mode == "" }

// marked returns the configuration of a text, and its only problem, which says this of the place marked with §.
func marked(t *testing.T, text, says string) (Config, Problem) {
	t.Helper()
	before, after, ok := strings.Cut(text, "§")
	if !ok {
		t.Fatal("no place is marked")
	}
	c := anyText(t, before+after)
	if len(c.Problems) != 1 {
		t.Fatalf("got %d problems, want 1: %v", len(c.Problems), c.Problems)
	}
	p := c.Problems[0]
	line, column := strings.Count(before, "\n")+1, len(before)-strings.LastIndex(before, "\n")
	if p.File != testFile || p.Line != line || p.Column != column || !strings.Contains(p.Message, says) || strings.Contains(p.Message, "secret") {
		t.Errorf("got %v, want %q at %d:%d", p, says, line, column)
	}
	return c, p
}

// merged returns the configuration of two files without a problem.
func merged(t *testing.T, first, second string) Config {
	t.Helper()
	c, err := load([]string{"/1/a.json", "/2/b.json"}, fakeWorld(map[string]string{"/1/a.json": first, "/2/b.json": second}, nil))
	if err != nil || len(c.Problems) > 0 {
		t.Fatal(err, c.Problems)
	}
	return c
}

func tryText(text string) (Config, error) {
	return load([]string{testFile}, fakeWorld(map[string]string{
		testFile:          text,
		"/project/.env":   "FROM_FILE=file\nBOTH=file\n",
		"/project/broken": "A=1\nnonsense with sk-secret\n",
	}, map[string]string{"TOKEN": "sk-secret", "HOST": "example.com", "EMPTY": ""}))
}

// only is the one server of a file, as far as the test says something about it.
func only(t *testing.T, text string) Server {
	t.Helper()
	c := loadText(t, text)
	expect.List(t, c.Problems, nil, "problems")
	if len(c.Servers) != 1 {
		t.Fatalf("got %d servers, want 1", len(c.Servers))
	}
	return c.Servers[0]
}

func TestDialects(t *testing.T) {
	base := Server{
		Name: "a", Timeout: 5 * time.Minute, StartTimeout: 90 * time.Second, MaxConcurrent: 8, QuestionsPerMinute: 60,
		Validate: "on", NewTools: "show", Retry: "hints",
	}
	with := func(change func(*Server)) Server { s := base; change(&s); return s }
	stdio := func(s *Server) { s.Transport, s.Command, s.Args = Stdio, "npx", []string{"-y", "pkg"} }
	remote := func(t Transport) func(*Server) {
		return func(s *Server) { s.Transport, s.URL = t, "https://example.com/mcp" }
	}
	const npx = `"command": "npx", "args": ["-y", "pkg"]`
	const url = `"url": "https://example.com/mcp"`
	for _, tt := range []struct {
		name, text string
		want       Server
	}{
		{"Claude Desktop", `{"mcpServers": {"a": {` + npx + `}}}`, with(stdio)},
		{"comments and trailing commas", "// mine\n{\"mcpServers\": {\"a\": {" + npx + ",},}, /* end */}\n// eof", with(stdio)},
		{"byte order mark", "\ufeff" + `{"mcpServers": {"a": {` + npx + `}}}`, with(stdio)},
		{"VS Code", `{"inputs": [{"id": "x"}], "servers": {"a": {"type": "stdio", ` + npx + `}}}`, with(stdio)},
		{"Zed today", `{"theme": "x", "context_servers": {"a": {"source": "custom", "enabled": true, ` + npx + `}}}`, with(stdio)},
		{"Zed of old", `{"context_servers": {"a": {"command": {"path": "npx", "args": ["-y", "pkg"], "env": {"K": "v"}}, "settings": {}}}}`,
			with(func(s *Server) { stdio(s); s.Env = map[string]string{"K": "v"} })},
		{"bare map", `{"$schema": "x", "a": {` + npx + `}}`, with(stdio)},
		{"Claude Code http", `{"mcpServers": {"a": {"type": "http", ` + url + `, "headers": {"Authorization": "Bearer ${TOKEN}"}}}}`,
			with(func(s *Server) {
				remote(StreamableHTTP)(s)
				s.Headers = map[string]string{"Authorization": "Bearer sk-secret"}
			})},
		{"streamable-http", `{"mcpServers": {"a": {"type": "streamable-http", ` + url + `}}}`, with(remote(StreamableHTTP))},
		{"streamableHttp", `{"mcpServers": {"a": {"transportType": "streamableHttp", ` + url + `}}}`, with(remote(StreamableHTTP))},
		{"streamable_http", `{"mcpServers": {"a": {"transport": "streamable_http", ` + url + `}}}`, with(remote(StreamableHTTP))},
		{"sse", `{"mcpServers": {"a": {"type": "sse", ` + url + `}}}`, with(remote(SSE))},
		{"url alone", `{"mcpServers": {"a": {` + url + `}}}`, with(remote(AutoHTTP))},
		{"Gemini httpUrl", `{"mcpServers": {"a": {"httpUrl": "https://example.com/mcp", "url": "https://old.example.com", "trust": true}}}`, with(remote(StreamableHTTP))},
		{"Windsurf serverUrl", `{"mcpServers": {"a": {"serverUrl": "https://${HOST}/mcp"}}}`, with(remote(AutoHTTP))},
		{"type chooses http", `{"mcpServers": {"a": {"type": "http", ` + npx + `, ` + url + `}}}`, with(remote(StreamableHTTP))},
		{"type chooses stdio", `{"mcpServers": {"a": {"type": "stdio", ` + npx + `, ` + url + `}}}`, with(stdio)},
		{"Cline", `{"mcpServers": {"a": {` + npx + `, "disabled": true, "autoApprove": ["x"], "alwaysAllow": [], "timeout": 60}}}`,
			with(func(s *Server) { stdio(s); s.Disabled, s.Timeout = true, time.Minute })},
		{"Gemini timeout and tools", `{"mcpServers": {"a": {` + npx + `, "timeout": 600000, "includeTools": ["x"], "excludeTools": ["y"]}}}`,
			with(func(s *Server) {
				stdio(s)
				s.Timeout = 10 * time.Minute
				s.Tools = ToolFilter{Allow: []string{"x"}, Deny: []string{"y"}}
			})},
		{"Windsurf disabledTools", `{"mcpServers": {"a": {` + npx + `, "disabledTools": ["y"]}}}`,
			with(func(s *Server) { stdio(s); s.Tools.Deny = []string{"y"} })},
		{"Copilot tools", `{"mcpServers": {"a": {"type": "local", ` + npx + `, "tools": ["*"]}}}`,
			with(func(s *Server) { stdio(s); s.Tools.Allow = []string{"*"} })},
		{"enabled false", `{"mcpServers": {"a": {` + npx + `, "enabled": false}}}`,
			with(func(s *Server) { stdio(s); s.Disabled = true })},
		{"disabled lacks nothing", `{"mcpServers": {"a": {"url": "${NOWHERE}", "envFile": "none", "disabled": true}}}`,
			with(func(s *Server) {
				s.Transport, s.URL, s.EnvFile, s.Disabled = AutoHTTP, "${NOWHERE}", "/project/none", true
			})},
		{"env file", `{"mcpServers": {"a": {` + npx + `, "envFile": ".env", "env": {"BOTH": "entry"}}}}`,
			with(func(s *Server) {
				stdio(s)
				s.EnvFile = "/project/.env"
				s.Env = map[string]string{"FROM_FILE": "file", "BOTH": "entry"}
			})},
		{"cwd", `{"mcpServers": {"a": {` + npx + `, "cwd": "sub/dir"}}}`, with(func(s *Server) { stdio(s); s.Cwd = "/project/sub/dir" })},
		{"cwd at home", `{"mcpServers": {"a": {` + npx + `, "cwd": "~/x"}}}`, with(func(s *Server) { stdio(s); s.Cwd = "/home/me/x" })},
		{"null is absent", `{"mcpServers": {"a": {` + npx + `, "env": null, "url": null}}}`, with(stdio)},
		{"ours", `{"mcpServers": {"a": {` + npx + `, "inheritEnv": ["X"], "killStrays": false, "startTimeout": "10s", "lazy": true, "idleTimeout": "1h",
			"maxConcurrent": 2, "questionsPerMinute": 5, "capabilities": ["search"], "group": "g", "priority": -1, "validate": "warn", "retry": "never",
			"maxResultTokens": 9, "cache": "1m", "tools": {"allow": ["a*"], "deny": ["b"], "rename": {"old": "new"},
				"timeout": {"slow_*": "20m"}, "maxResultTokens": {"page": 0}}}}}`,
			with(func(s *Server) {
				stdio(s)
				s.InheritEnv, s.StartTimeout, s.Lazy, s.IdleTimeout = []string{"X"}, 10*time.Second, true, time.Hour
				s.KeepStrays, s.QuestionsPerMinute = true, 5
				s.MaxConcurrent, s.Capabilities, s.Group, s.Priority = 2, []string{"search"}, "g", -1
				s.Validate, s.Retry, s.MaxResultTokens, s.Cache = "warn", "never", 9, time.Minute
				s.Tools = ToolFilter{Allow: []string{"a*"}, Deny: []string{"b"}, Rename: map[string]string{"old": "new"}}
				s.ToolTimeouts, s.ToolResultTokens = map[string]time.Duration{"slow_*": 20 * time.Minute}, map[string]int{"page": 0}
			})},
		{"inherited", `{"mcpServers": {"a": {` + npx + `, "timeout": "1s"}}, "metarouter": {"lazy": true, "idleTimeout": "2s", "timeout": "3s", "validate": "off", "maxResultTokens": 4}}`,
			with(func(s *Server) {
				stdio(s)
				s.Lazy, s.IdleTimeout, s.Timeout, s.Validate, s.MaxResultTokens = true, 2*time.Second, time.Second, "off", 4
			})},
		{"this binary", `{"mcpServers": {"a": {"command": "metarouter", "args": ["builtin", "files"]}}}`,
			with(func(s *Server) {
				s.Transport, s.Command, s.Args = Stdio, "/opt/metarouter", []string{"builtin", "files"}
			})},
		{"ourselves", `{"mcpServers": {"a": {"command": "metarouter", "args": ["serve"]}}}`,
			with(func(s *Server) {
				s.Transport, s.Command, s.Args, s.Self = Stdio, "metarouter", []string{"serve"}, true
			})},
	} {
		got := only(t, tt.text)
		got.Variables = nil // see TestVariables
		if tt.want.Transport == Stdio && tt.want.Cwd == "" {
			tt.want.Cwd = "/project"
		}
		expect.Deep(t, got, tt.want, "%s", tt.name)
	}
}

func TestWorkspaceFolder(t *testing.T) {
	for file, want := range map[string]string{
		"/project/.mcp.json":        "/project",
		"/project/.vscode/mcp.json": "/project",
		"/project/.cursor/mcp.json": "/project",
	} {
		c, err := load([]string{file}, fakeWorld(map[string]string{
			file: `{"servers": {"a": {"command": "${workspaceFolder}/run", "args": ["${userHome}", "${workspaceFolderBasename}${/}a${pathSeparator}b ${/x} ${//}"], "cwd": "sub"}}}`,
		}, nil))
		if err != nil || len(c.Problems) > 0 {
			t.Fatal(err, c.Problems)
		}
		if s := c.Servers[0]; s.Command != want+"/run" || s.Args[0] != "/home/me" || s.Args[1] != "project/a/b ${/x} ${//}" || s.Cwd != want+"/sub" {
			t.Errorf("%s: got %q %q in %q", file, s.Command, s.Args, s.Cwd)
		}
	}
}

func TestRouter(t *testing.T) {
	c := loadText(t, `{"metarouter": {"mode": "search", "names": "bare", "separator": ".", "toolBudget": 1, "listWait": "1s", "pinned": ["files:read_file"], "findThreshold": 0.3, "routeThreshold": 0.75, "accessLog": "x.log",
		"http": {"addr": "[::1]:1", "allowedHosts": ["h"], "allowedOrigins": ["o"], "tokens": ["${TOKEN}"], "maxBody": "1KiB", "maxBodyMemory": "3KiB", "maxConnections": 7,
			"tlsCert": "tls/${TOKEN}.pem", "tlsKey": "/k.pem", "maxHeader": "2KiB", "maxSessions": 4,
			"sessionTimeout": "6s", "rate": "5/s burst 9"},
		"capabilities": {"invoicing": ["invoice"]}, "gateway": {"name": "dwo", "prefix": "gw."}, "scripts": {"timeout": "2m", "memory": "1GiB", "calls": 7}}}`)
	want := Router{
		Mode: "search", Names: "bare", Separator: ".", ToolBudget: 1, ListWait: time.Second, LoginTimeout: 720 * time.Hour,
		Pinned: []string{"files:read_file"}, Timeout: 5 * time.Minute, Validate: "on", NewTools: "show",
		FindThreshold: 0.3, RouteThreshold: 0.75, AccessLog: AccessLog{File: "/project/x.log", MaxSize: 100 << 20, MaxFiles: 5}, Audit: Audit{MaxSize: 10 << 20, MaxFiles: 10},
		HTTP: HTTP{Addr: "[::1]:1", AllowedHosts: []string{"h"}, AllowedOrigins: []string{"o"}, Tokens: []Token{plainToken("sk-secret")}, MaxBody: 1024, MaxBodyMemory: 3072, MaxConnections: 7,
			TLSCert: "/project/tls/sk-secret.pem", TLSKey: "/k.pem", MaxHeader: 2048, MaxSessions: 4,
			SessionTimeout: 6 * time.Second, Rate: Rate{PerSecond: 5, Burst: 9}},
		Capabilities: map[string][]string{"invoicing": {"invoice"}},
	}
	want.Gateway.Name, want.Gateway.Prefix = "dwo", "gw."
	want.Scripts.Timeout, want.Scripts.CPU, want.Scripts.Memory, want.Scripts.Calls, want.Scripts.Concurrent = 2*time.Minute, 10*time.Second, 1<<30, 7, 8
	expect.Deep(t, c.Router, want)
	expect.List(t, c.Problems, nil, "problems")
	if c := loadText(t, "{}"); !reflect.DeepEqual(c.Router, defaultRouter()) || len(c.Problems) > 0 {
		t.Errorf("empty file: got %+v", c)
	}
}

func TestMerge(t *testing.T) {
	c := merged(t,
		`{"mcpServers": {"x": {"command": "${NOT_SET}"}, "y": {"command": "one"}}, "metarouter": {"mode": "direct", "lazy": true}}`,
		`{"mcpServers": {"z": {"command": "two"}, "x": {"command": "two"}}, "metarouter": {"mode": "search"}}`)
	var got []string
	for _, s := range c.Servers {
		got = append(got, fmt.Sprint(s.Name, "=", s.Command, s.Lazy))
	}
	expect.Deep(t, got, []string{"x=twotrue", "y=onetrue", "z=twotrue"}, "servers")
	if c.Router.Mode != "search" || !c.Router.Lazy {
		t.Errorf("router: got %+v", c.Router)
	}
	expect.Deep(t, c.Files, []string{"/1/a.json", "/2/b.json"}, "files")
}

// Values that clients take for strings are strings, in every dialect, and null is left out.
func TestTexts(t *testing.T) {
	text := `{"mcpServers": {
		"a": {"command": "x", "args": ["-p", 8080, null, true, 1.50], "env": {"N": 1e3, "T": false, "Z": null, "S": "s"}},
		"b": {"command": {"path": "x", "args": [1, null], "env": {"N": 2}}},
		"c": {"url": "http://h/", "headers": {"X": 1, "Y": null}}}}`
	c, err := ReadText("/m.json", []byte(text))
	if err != nil || len(c.Servers) != 3 {
		t.Fatalf("got %+v, %v", c, err)
	}
	again, err := c.Expand()
	expect.OK(t, err)
	for i, want := range []string{"[-p 8080 true 1.50] map[N:1e3 S:s T:false] map[]", "[1] map[N:2] map[]", "[] map[] map[X:1]"} {
		for _, s := range []Server{c.Servers[i], again.Servers[i]} {
			if got := fmt.Sprint(s.Args, s.Env, s.Headers); got != want || s.Misconfigured != "" {
				t.Errorf("got %s (%s), want %s", got, s.Misconfigured, want)
			}
		}
	}
	if len(c.Problems) != 12 || slices.ContainsFunc(c.Problems, func(p Problem) bool { return p.Severity != severityWarning }) {
		t.Errorf("the problems are %v", c.Problems)
	}
}

// The place of the problem is marked with § in the text.
func TestProblems(t *testing.T) {
	entry := func(s string) string { return "{\"mcpServers\": {\n\t\"good\": {\"command\": \"x\"},\n\t" + s + "\n}}" }
	for _, tt := range []struct {
		name, text, server, says string
		harmless                 bool // the server starts all the same
	}{
		{"not an object", entry(`§"a": "npx"`), "a", `write {"command": "…"`, false},
		{"args", entry(`"a": {"command": "x", §"args": "y"}`), "a", `"args" must be an array of strings; write "args": ["y"]`, false},
		{"an argument", entry(`"a": {"command": "x", "args": ["y", §8080]}`), "a", `"args[1]" is no string, and is read as one; put it in quotes`, true},
		{"a nested argument", entry(`"a": {"command": "x", "args": ["y", §["z"]]}`), "a", `"args[1]" must be a string; put it in quotes`, false},
		{"env", entry(`"a": {"command": "x", "env": {"A": "1", §"PORT": 3000}}`), "a", `"env.PORT" is no string, and is read as one; put it in quotes`, true},
		{"a null in env", entry(`"a": {"command": "x", "env": {§"A": null}}`), "a", `"env.A" is null, so it is left out`, true},
		{"an object in env", entry(`"a": {"command": "x", "env": {§"A": {}}}`), "a", `"env.A" must be a string; put it in quotes`, false},
		{"a header", entry(`"a": {"url": "http://h/", "headers": {§"X": true}}`), "a", `"headers.X" is no string, and is read as one; put it in quotes`, true},
		{"command", entry(`"a": {§"command": ["npx"]}`), "a", `"command" must be a string`, false},
		{"timeout", entry(`"a": {"command": "x", §"timeout": "abc"}`), "a", `write it like "30s" or "5m"`, false},
		{"no timeout", entry(`"a": {"command": "x", §"timeout": 0}`), "a", `must be longer than 0`, false},
		{"negative", entry(`"a": {"command": "x", §"idleTimeout": "-1s"}`), "a", `must not be negative`, false},
		{"huge", entry(`"a": {"command": "x", §"timeout": 1e300}`), "a", `must be a duration`, false},
		{"disabled", entry(`"a": {"command": "x", §"disabled": "yes"}`), "a", `must be true or false, without quotes`, false},
		{"questionsPerMinute", entry(`"a": {"command": "x", §"questionsPerMinute": 0}`), "a", `at least 1`, false},
		{"maxConcurrent", entry(`"a": {"command": "x", §"maxConcurrent": 0}`), "a", `at least 1`, false},
		{"validate", entry(`"a": {"command": "x", §"validate": "yes"}`), "a", `must be "on", "warn" or "off"`, false},
		{"retry", entry(`"a": {"command": "x", §"retry": true}`), "a", `must be "hints", "never" or "always"`, false},
		{"pattern", entry(`"a": {"command": "x", "tools": {"deny": [§"a["]}}`), "a", `"deny[0]" must be a name or a pattern`, false},
		{"tool pattern", entry(`"a": {"command": "x", "tools": {"timeout": {§"a[": "1s"}}}`), "a", `"timeout.a[" must be a name or a pattern`, false},
		{"tool timeout", entry(`"a": {"command": "x", "tools": {"timeout": {"b": "1s", §"a*": "soon"}}}`), "a", `"timeout.a*" must be a duration`, false},
		{"tool tokens", entry(`"a": {"command": "x", "tools": {"maxResultTokens": {§"a": "9"}}}`), "a", `"maxResultTokens.a" must be a whole number`, false},
		{"web socket", entry(`"a": {§"type": "ws", "url": "wss://x"}`), "a", `can't be a WebSocket; write "http"`, false},
		{"type", entry(`"a": {§"type": "pipe", "command": "x"}`), "a", `must be "stdio", "http" or "sse"`, false},
		{"nothing to start", entry(`§"a": {"args": []}`), "a", `write "command" and "args", or "url"`, false},
		{"both", entry(`§"a": {"command": "x", "url": "https://x"}`), "a", `remove one, or add "type"`, false},
		{"stdio without command", entry(`§"a": {"type": "stdio", "url": "https://x"}`), "a", `write "command"`, false},
		{"http without url", entry(`§"a": {"type": "http", "command": "x"}`), "a", `write "url": "https://…"`, false},
		{"half a url", entry(`§"a": {"url": "example.com/sk-secret"}`), "a", `write "https://host/path"`, false},
		{"colon", entry(`§"a:b": {"command": "x"}`), "a:b", `write "a-b"`, false},
		{"no name", entry(`§"": {"command": "x"}`), "", `a server needs a name`, false},
		{"twice", entry(`"a": {"command": "x"}, §"a": {"command": "y"}`), "a", `the server is here twice; rename or remove one`, false},
		{"key twice", entry(`"a": {"command": "x", §"command": "y"}`), "a", `"command" is here twice`, false},
		{"unset", entry(`"a": {"command": "x", "args": [§"${NOPE}", "${env:NADA}"], "env": {"A": "${NOPE}"}}`), "a",
			`the variables NOPE, NADA are not set; set them, or write ${NOPE:-default}`, false},
		{"prompt", entry(`"a": {"command": "x", "env": {"K": §"${input:key}"}}`), "a", `${input:key} is a prompt, which only VS Code can show; write ${VAR}`, false},
		{"no env file", entry(`"a": {"command": "x", §"envFile": "none"}`), "a", `"envFile" can't be read: file does not exist`, false},
		{"bad env file", entry(`"a": {"command": "x", §"envFile": "broken"}`), "a", `line 2 is not KEY=VALUE`, false},
		{"comand", entry(`"a": {"command": "x", §"comand": "y"}`), "a", `did you mean "command"?`, false},
		{"arg", entry(`"a": {"command": "x", §"arg": ["y"]}`), "a", `did you mean "args"?`, false},
		{"enviroment", entry(`"a": {"command": "x", §"enviroment": {}}`), "a", `did you mean "env"?`, false},
		{"envfile", entry(`"a": {"command": "x", §"env_file": ""}`), "a", `did you mean "envFile"?`, false},

		{"root", `{§"mcpServer": {}}`, "", `did you mean "mcpServers"?`, true},
		{"servers", `{§"mcpServers": []}`, "", `"mcpServers" must be an object`, true},
		{"mode", `{"metarouter": {§"mode": "both"}}`, "", `must be "auto", "search", "direct" or "code"`, true},
		{"mode typo", `{"metarouter": {§"mode": "serch"}}`, "", `or "code"; did you mean "search"?`, true},
		{"names", `{"metarouter": {§"names": ""}}`, "", `must be "prefixed" or "bare"`, true},
		{"separator", `{"metarouter": {§"separator": ":"}}`, "", `must be "__", ".", "-" or "/"`, true},
		{"threshold", `{"metarouter": {§"routeThreshold": 2}}`, "", `a number from 0 to 1`, true},
		{"find threshold 0", `{"metarouter": {§"findThreshold": 0}}`, "", `a number between 0 and 1`, true},
		{"find threshold 1", `{"metarouter": {§"findThreshold": 1}}`, "", `a number between 0 and 1`, true},
		{"capability words", `{"metarouter": {"capabilities": {"a": ["x", §1]}}}`, "", `"capabilities.a[1]" must be a string`, true},
		{"router typo", `{"metarouter": {§"pined": []}}`, "", `did you mean "pinned"?`, true},
		{"router", `{§"metarouter": true}`, "", `"metarouter" must be an object`, true},
		{"maxBody", `{"metarouter": {"http": {§"maxBody": "16 Mb/s"}}}`, "", `write it like "16MiB"`, true},
		{"unset token", `{"metarouter": {"http": {"tokens": ["x", §"${NOPE}"]}}}`, "", `the variable NOPE is not set, so this token lets no client in`, true},
		{"empty token", `{"metarouter": {"http": {"tokens": [§"${EMPTY}"]}}}`, "", `an empty token proves nothing`, true},
		{"short token", `{"metarouter": {"http": {"tokens": ["0123456789abcdef", §"0123456789abcde"], "addr": ":1"}}}`, "", `at least 16 characters, so this token lets no client in; make one with 'metarouter token new'`, true},
		{"tokens", `{"metarouter": {"http": {§"tokens": "${TOKEN}"}}}`, "", `must be an array; write [{"token"`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, p := marked(t, tt.text, tt.says)
			expect.Equal(t, p.Server, tt.server, "server")
			for _, s := range c.Servers {
				expect.Equal(t, s.Name == "good" || tt.harmless, s.Misconfigured == "", "server %q is misconfigured: %q", s.Name, s.Misconfigured)
			}
		})
	}
}

// Each mistake is reported, also next to others that refuse the file.
func TestMistakesAtOnce(t *testing.T) {
	for oauth, says := range map[string]string{`{}`: `"oauth" has no issuers`, `{"issuers": [{"url": "https://a.example"}, {"url": "https://a.example"}]}`: "this issuer is here twice"} {
		c := anyText(t, `{"metarouter": {"mode": "x", "http": {"oauth": `+oauth+`, "tokens": [{"token": "0123456789abcdef", "profile": "gone"}]}, "cluster": {"urls": ["nats://a", "ws://b"], "share": ["gone"]}}}`)
		for _, want := range []string{`error: "mode" must be`, "error: " + says, `error: "urls" must be either`, `error: there is no profile "gone"`, `warning: "share" has the server "gone"`} {
			expect.Contains(t, saidOf(c), want)
		}
	}
}

func TestTokensFailClosed(t *testing.T) {
	for _, tokens := range []string{`["${NOPE}"]`, `["${EMPTY}"]`, `[5]`, `["${input:x}"]`} {
		c := loadText(t, `{"metarouter": {"http": {"tokens": `+tokens+`}}}`)
		expect.Deep(t, c.Router.HTTP.Tokens, []Token{{}}, "%s", tokens)
	}
}

func TestLoadErrors(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		line, col  int
		says       string
	}{
		{"empty", " \n", 1, 1, `write {"mcpServers": {}}`},
		{"not an object", "\n  []", 2, 3, `must hold an object; write {"mcpServers": {}}`},
		{"missing comma", "{\n \"a\": 1\n \"b\": 2}", 3, 2, "is a comma missing before it"},
		{"single quotes", "{'a': 1}", 1, 2, "write double quotes"},
		{"bare key", "{\n  mcpServers: {}}", 2, 3, "write keys and strings in double quotes"},
		{"equals", `{"a" = 1}`, 1, 6, "write a colon"},
		{"no end", "{\"a\": {}", 1, 9, "close every quote"},
		{"open string", `{"a": "b`, 1, 9, "close every quote"},
		{"bad escape", `{"a": "sk-secret\q"}`, 1, 7, "invalid literal; is a comma missing before it, or a backslash not doubled?"},
		{"no quotes", `{"a": sk-secret}`, 1, 7, "write keys and strings in double quotes"},
		{"two values", "{}\n{}", 2, 1, "after top-level value"},
		{"too deep", strings.Repeat("[", 1001), 1, 1001, "brackets"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := load([]string{testFile}, fakeWorld(map[string]string{testFile: tt.text}, nil))
			p, ok := errors.AsType[Problem](err)
			if !ok {
				t.Fatalf("got %v, want a Problem", err)
			}
			if p.File != testFile || p.Line != tt.line || p.Column != tt.col || !strings.Contains(p.Message, tt.says) {
				t.Errorf("got %v, want %d:%d and %q", p, tt.line, tt.col, tt.says)
			}
			expect.Equal(t, strings.Contains(err.Error(), "secret"), false, "%v tells a secret", err)
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got %v", err)
	}
}

func TestProblemError(t *testing.T) {
	for want, p := range map[string]Problem{
		`f:1:2: server "s": m`: {File: "f", Line: 1, Column: 2, Server: "s", Message: "m"},
		`f: m`:                 {File: "f", Message: "m"},
	} {
		expect.Equal(t, p.Error(), want)
	}
}

func TestHash(t *testing.T) {
	a := Server{Name: "a", Transport: Stdio, Command: "x", Env: map[string]string{"K": "1"}}
	same := a
	same.Name, same.Timeout, same.Disabled, same.Args, same.Lazy = "b", 1, true, []string{}, true
	if len(a.Hash()) != 32 || a.Hash() != same.Hash() {
		t.Errorf("got %s and %s, want 32 equal digits", a.Hash(), same.Hash())
	}
	for what, change := range map[string]func(*Server){
		"transport": func(s *Server) { s.Transport = SSE },
		"command":   func(s *Server) { s.Command = "y" },
		"args":      func(s *Server) { s.Args = []string{"y"} },
		"env":       func(s *Server) { s.Env = map[string]string{"K": "2"} },
		"cwd":       func(s *Server) { s.Cwd = "/y" },
		"url":       func(s *Server) { s.URL = "y" },
		"headers":   func(s *Server) { s.Headers = map[string]string{"K": "1"} },
		"users":     func(s *Server) { s.PerUser = true },
		"exchange":  func(s *Server) { s.Exchange = new(Exchange) },
	} {
		b := a
		change(&b)
		if a.Hash() == b.Hash() {
			t.Errorf("another %s has the same hash", what)
		}
		if secret := what == "env" || what == "headers"; a.SameSecrets(b) == secret {
			t.Errorf("another %s: SameSecrets is %v", what, !secret)
		}
	}
}

// checkAccess fails if clients are let in whom [Issuer] and [Certificate] do not promise to let in.
func checkAccess(t *testing.T, r Router) {
	for _, i := range r.HTTP.Issuers {
		u, err := url.Parse(i.URL)
		if i.URL == "" {
			expect.Deep(t, i, Issuer{}, "something is left of an issuer with a mistake")
		} else if err != nil || u.Scheme != "https" && !urls.IsLoopback(u.Hostname()) || i.User == "" {
			t.Errorf("%+v can't be asked safely", i)
		}
		for _, rule := range i.Profiles {
			if c := rule.Claim; c.Name == "" || (c.Name == "*") != (c.Value == "") || rule.Profile == "" {
				t.Errorf("the rule %+v", rule)
			}
		}
	}
	for _, c := range r.HTTP.Certificates {
		if _, ok := r.Profiles[c.Profile]; c.Name != "" && (len(c.Attributes) == 0 || c.Profile != "" && !ok) {
			t.Errorf("the certificate %+v", c)
		}
	}
	if u, err := url.Parse(r.HTTP.PublicURL); err != nil || strings.HasSuffix(u.Path, "/") || strings.HasSuffix(u.Path, "/mcp") {
		t.Errorf("the public URL %q", r.HTTP.PublicURL)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"mcpServers": {"a": {"command": "npx", "args": ["${A:-${B}}"], "env": {"K": 1}, "timeout": 1e3}}}`))
	f.Add([]byte(`{"servers": {"a:": {"type": "ws", "httpUrl": "x", "tools": {"deny": ["["]}}}, "metarouter": {"http": {"tokens": [""]}}}`))
	f.Add([]byte("{\"a\": {\"command\": {\"path\": \"sh\", \"args\": [\"-c\", \"x && metarouter serve\"]}, \"envFile\": \".env\"},}// c"))
	f.Add([]byte(`{"metarouter": {"classification": {"categories": [{"name": "a", "rules": [{"patterns": ["("]}]}, 1], "fallback": "b",
		"type": "mcp", "url": "${A}", "headers": {"B": "${C}"}}}}`))
	f.Add([]byte(`{"metarouter": {"profiles": {"A": {}, "a": {"servers": ["["], "tools": {"allow": 1}, "ask": [], "pinned": ["x"], "arguments": {"*": {"a": /*1*/ [1,]}}}}}}`))
	f.Add([]byte(`{"metarouter": {"http": {"publicUrl": "https://r.example/a/", "oauth": {"issuers": [{"url": "https://${A}", "audience": "x", "user": "email", "profiles": {"groups=a": "b", "*": 1},
		"admins": ["a=b", "*"], "scopeMap": {"x": "mcp:read", "y": ["mcp:call"]}, "jwksUrl": "", "clientId": "", "clientSecret": "${B}", "introspect": true}, 1]}}, "audit": false}}`))
	f.Add([]byte(`{"metarouter": {"http": {"clientCA": "a", "tlsCert": "b", "tlsKey": "c", "certificates": {"CN=a\\, b,dns=c": "ci", "O=x": {"name": "y", "rate": "1/s", "role": 1}}}, "audit": {"file": "a", "maxFiles": 2}}}`))
	f.Add([]byte(`{"metarouter": {"cluster": {"urls": ["nats://u:p@h:1,tls://[::1]", "tls://${A}/"], "name": "a", "node": "-", "creds": "~/x", "tls": {"ca": "", "cert": "c", "key": "k"}, "share": ["a*"], "use": ["[a]@?"],
		"trusted": ["` + keyA + `", 1]}}, "mcpServers": {"a": {"url": "http://x", "service": "s"}}}`))
	f.Add([]byte(`{"a": "\q"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		world := fakeWorld(map[string]string{testFile: string(data), "/project/.env": string(data)}, nil)
		c, err := load([]string{testFile}, world)
		problems := c.Problems
		if p, ok := errors.AsType[Problem](err); ok {
			problems = append(problems, p)
		} else if err != nil {
			t.Fatalf("got %v, want a Problem", err)
		}
		lines := strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n")
		for _, p := range problems {
			if p.Line < 1 || p.Line > len(lines) || p.Column < 1 || p.Column > len(lines[p.Line-1])+1 {
				t.Errorf("%v is not a place in the file", p)
			}
		}
		for _, s := range c.Servers {
			if s.Misconfigured == "" && s.Transport == "" {
				t.Errorf("nothing is wrong with server %q, and nothing to start or reach", s.Name)
			}
			s.Hash()
		}
		checkAccess(t, c.Router)
		checkJoined(t, c.Router.Cluster)
	})
}

// "roots" keeps the client's roots from a server. A mistake about it keeps the server from being
// started, so that the server does not get them.
func TestRootsOfAnEntry(t *testing.T) {
	for said, want := range map[string][]string{
		`"lazy": false`:  nil,
		`"roots": true`:  nil,
		`"roots": false`: {},
		`"roots": []`:    {},
		`"roots": ["src", "/a", "~/b", "file:///c", "${HOST}"]`: {"/project/src", "/a", "/home/me/b", "file:///c", "/project/example.com"},
	} {
		if got := only(t, `{"mcpServers": {"a": {"command": "/x", `+said+`}}}`); !reflect.DeepEqual(got.Roots, want) || got.Misconfigured != "" {
			t.Errorf("%s: %#v %s, want %#v", said, got.Roots, got.Misconfigured, want)
		}
	}
	for _, said := range []string{
		`"roots": "false"`, `"roots": "/a"`, `"roots": null`, `"roots": 0`, `"roots": {}`, `"roots": [false]`, `"roots": [""]`, `"roots": ["https://a"]`,
		`"root": false`, `"Roots": false`, `"roots": false, "roots": true`, `"tools": {"roots": false}`,
	} {
		c := anyText(t, `{"mcpServers": {"a": {"command": "/x", `+said+`}}}`)
		if len(c.Servers) == 1 && c.Servers[0].Misconfigured == "" {
			t.Errorf("%s: the server is started: %v", said, c.Problems)
		}
	}
}

// TestVariables has an entry say which variables of the environment it needs, and be read with other values of them.
func TestVariables(t *testing.T) {
	c := loadText(t, `{"mcpServers": {"a": {"command": "x", "args": ["${SECOND}", "${FIRST:-1}"], "env": {"A": "${SECOND} ${userHome}"}}, "b": {"command": "x"}}}`)
	if got := c.Servers[0].Variables; !slices.Equal(got, []string{"FIRST", "SECOND"}) || len(c.Servers[1].Variables) > 0 {
		t.Errorf("the entries need %q and %q", got, c.Servers[1].Variables)
	}
	other := c.With(func(name string) (string, bool) { return "other", name == "SECOND" })
	if got := other.Servers[0].Args; !slices.Equal(got, []string{"other", "1"}) || other.Equal(c) {
		t.Errorf("with other values the arguments are %q", got)
	}
}

// TestFolders has servers run in the folder of their file, in the home folder if it is the user's own, or in each client's.
func TestFolders(t *testing.T) {
	const text = `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x", "cwd": "client"}, "c": {"command": "x", "cwd": "./client"}}}`
	for path, want := range map[string][3]string{
		"/p/.mcp.json":        {"/p", "/home/me", "/p/client"},
		"/p/.vscode/mcp.json": {"/p", "/home/me", "/p/client"},
		"/home/me/own.json":   {"/home/me", "/home/me", "/home/me/client"},
		"/etc/own.json":       {"/home/me", "/home/me", "/etc/client"}, // the user's own file
	} {
		c, err := read(path, []byte(text), environment{home: "/home/me", own: "/etc/own.json", lookup: func(string) (string, bool) { return "", false }, lookPath: func(string) (string, error) { return "", errors.New("none") }})
		expect.OK(t, err)
		if got := [3]string{c.Servers[0].Cwd, c.Servers[1].Cwd, c.Servers[2].Cwd}; got != want || c.Servers[0].PerFolder || !c.Servers[1].PerFolder || c.Servers[2].PerFolder {
			t.Errorf("%s: the servers run in %q, want %q", path, got, want)
		}
	}
}

func TestAccessLog(t *testing.T) {
	for _, tt := range []struct {
		said string
		want AccessLog
		says string // a problem
	}{
		{`""`, AccessLog{"", false, false, 100 << 20, 5}, ""},
		{`"logs/calls.jsonl"`, AccessLog{"/project/logs/calls.jsonl", false, false, 100 << 20, 5}, ""},
		{`"~/calls.jsonl"`, AccessLog{"/home/me/calls.jsonl", false, false, 100 << 20, 5}, ""},
		{`"/var/${TOKEN}"`, AccessLog{"/var/sk-secret", false, false, 100 << 20, 5}, ""},
		{`{"file": "a", "arguments": true, "results": true, "maxSize": "1MiB", "maxFiles": 2}`, AccessLog{"/project/a", true, true, 1 << 20, 2}, ""},
		{`{"arguments": true}`, AccessLog{}, "names no file"},
		{`"${NOT_SET}/a"`, AccessLog{}, "has no value: the variable NOT_SET"},
		{`7`, AccessLog{}, "must be the path of a file, or an object"},
		{`{"file": "a", "maxFiles": 0}`, AccessLog{}, `"maxFiles" must be a whole number of at least 1`},
		{`{"file": "a", "maxSize": "much"}`, AccessLog{}, `"maxSize" must be a size`},
		{`{"file": "a", "maxfile": 3}`, AccessLog{}, `did you mean`},
	} {
		c := anyText(t, fmt.Sprintf(`{"metarouter": {"accessLog": %s}}`, tt.said))
		expect.Equal(t, c.Router.AccessLog, tt.want, "%s", tt.said)
		if said := saidOf(c); (said == "") != (tt.says == "") || !strings.Contains(said, tt.says) {
			t.Errorf("%s: says %q, want %q", tt.said, said, tt.says)
		}
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "there is no such.json")
	c, err := readExpanded(path, []byte(`{"$schema": "`+schemaURL+`", "mcpServers": {"a": {"command": "x", "cwd": "sub"}}}`))
	if err != nil || len(c.Problems) > 0 || len(c.Servers) != 1 || c.Servers[0].Cwd != filepath.Join(filepath.Dir(path), "sub") || c.Files[0] != path {
		t.Errorf("got %+v, %v", c, err)
	}
	// Nor is it a server where those have no key of their own.
	if c, err = readExpanded(path, []byte(`{"$schema": "x", "a": {"command": "x"}}`)); err != nil || len(c.Problems) > 0 || len(c.Servers) != 1 {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, err := readExpanded(path, []byte(`{`)); err == nil {
		t.Error("half an object was read")
	}
}

func TestServersKey(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                        "mcpServers",
		`{"metarouter": {}}`:                        "mcpServers",
		`{"servers": {}, "inputs": []}`:             "servers",
		`{"context_servers": {}}`:                   "context_servers",
		`{"servers": {}, "mcpServers": {}}`:         "mcpServers",
		`{"a": {"command": "x"}, "metarouter": {}}`: "",
	} {
		if _, got, err := Parse("f", []byte(text)); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
	if _, got, err := Parse("f", []byte(`{"history": "`+strings.Repeat("x", maxFile)+`", "servers": {}}`)); got != "servers" || err != nil {
		t.Errorf("a long history: %q, %v", got, err)
	}
	if _, _, err := Parse("f", []byte(`[]`)); err == nil {
		t.Error("an array has servers")
	}
}

// schemaURL is the "$id" of the schema.
var schemaURL = func() string {
	var root struct {
		ID string `json:"$id"`
	}
	if err := json.Unmarshal(Schema(), &root); err != nil {
		panic(err)
	}
	return root.ID
}()

// readExpanded returns the value of a text, with variables expanded.
func readExpanded(path string, data []byte) (Config, error) { return read(path, data, system()) }

func read(path string, data []byte, env environment) (Config, error) {
	others := env.readFile
	env.readFile = func(name string) ([]byte, error) {
		if name == path {
			return data, nil
		}
		return others(name)
	}
	return load([]string{path}, env)
}

// plainToken returns the token of an element of "tokens" that is a string.
func plainToken(text string) Token {
	t := Token{Role: roleAdmin, Plain: true}
	t.Hash, t.Text, _ = secret.ParseToken(text)
	return t
}

// A client that can't replace ${NAME} in its entry for us leaves it as it is: the variable is not set.
func TestVariableOfClient(t *testing.T) {
	text := `{"mcpServers": {"a": {"command": "x", "env": {"A": "${NAME}", "B": "${NAME:-b}"}}, "c": {"command": "x", "envFile": "/f", "env": {"A": "${NAME}"}}}}`
	c, err := load([]string{testFile}, fakeWorld(map[string]string{testFile: text, "/f": "NAME=own"}, map[string]string{"NAME": "${NAME}"}))
	expect.OK(t, err)
	expect.Contains(t, c.Servers[0].Misconfigured, "the variable NAME is not set")
	expect.Equal(t, c.Servers[1].Env["A"], "own", "of the envFile")
}

// The fix for a variable that is not set names a secret only where a reference to one works.
func TestFixOfVariable(t *testing.T) {
	for entry, secret := range map[string]bool{`"command": "${NONE}"`: false, `"command": "x", "env": {"A": "${NONE}"}`: true} {
		c := loadText(t, `{"mcpServers": {"a": {`+entry+`}}}`)
		expect.Equal(t, strings.Contains(c.Problems[0].Fix, "${keyring:NONE}"), secret, "%s", entry)
	}
}

// A variable in the form of Gemini and of shells is a text here, which a warning says.
func TestDollarName(t *testing.T) {
	c := loadText(t, `{"mcpServers": {"a": {"command": "x", "args": ["$", "a$B", "${HOST}"], "env": {"A": "$TOKEN", "B": "$ecret"}}}}`)
	expect.Equal(t, c.Servers[0].Env["A"], "$TOKEN", "env")
	if len(c.Problems) != 1 || c.Problems[0].Severity != severityWarning || c.Problems[0].Fix != "write ${NAME} for the value of the variable" {
		t.Errorf("problems: %+v", c.Problems)
	}
}

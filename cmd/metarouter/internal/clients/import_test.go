package clients

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// reading is our file as Ours.
func reading(t *testing.T, path, text string) Ours {
	t.Helper()
	c, err := readExpanded(path, []byte(text))
	expect.OK(t, err)
	return Ours{Config: c, Files: []Source{{Path: path, Data: []byte(text)}}}
}

func TestImportIntoOurs(t *testing.T) {
	const path = "/home/ada/mcp.json"
	c, _ := Find("claude-desktop")
	theirs := Source{Client: c, Path: "theirs.json", keys: claudeKeys, Data: []byte(`{"mcpServers": {
		"same": {"args": ["x"], "command": "run"},
		"other": {"command": "theirs", "env": {"A": "b"}},
		"known": {"command": "other name"},
		"a:b": {"command": "colon"},
		"me": {"command": "metarouter", "args": ["serve"]},
		"wrong": 3,
		"new": {"command": "new", "args": ["${X}"]}
	}}`)}
	const own = `// ours
{
  "metarouter": { "lazy": true }, // first
  "servers": {
    "same": { "command": "run", "args": ["x"], "lazy": false },
    "other": { "command": "ours" },
    "under": { "command": "other name" }
  }
}
`
	done, err := Import([]Source{theirs}, path, []byte(own), reading(t, path, own))
	expect.OK(t, err)
	text := string(done.Data)
	want := Imported{
		Added: []string{"a-b", "new"}, Same: []string{"same", "known (as under)"}, Conflicts: []string{"other"}, Routers: []string{"me"},
		Data: done.Data, Notes: done.Notes, Hashes: done.Hashes,
	}
	expect.Deep(t, done, want)
	notes := strings.Join(done.Notes, "\n")
	for _, part := range []string{`"a-b": is called "a-b" here`, `"wrong" must be an object`} {
		expect.Contains(t, notes, part, "no note")
	}
	if !strings.HasPrefix(text, own[:strings.Index(own, "\n  }\n}")-1]) || !strings.Contains(text, `"under": { "command": "other name" },`+"\n    \"a-b\": ") {
		t.Errorf("it says\n%s", text)
	}
	// In a file without a root key, settings stay.
	bare := `{"mine": {"command": "x"}, "metarouter": {"mode": "search"}, "_note": "mine"}`
	theirs.Data = []byte(strings.Replace(string(theirs.Data), `"same":`, `"metarouter": {"command": "y"}, "servers": {"command": "z"}, "_note": {"command": "n"}, "same":`, 1))
	done, err = Import([]Source{theirs}, path, []byte(bare), reading(t, path, bare))
	if read, bad := readExpanded(path, done.Data); err != nil || bad != nil || len(read.Servers) != 6 || read.Router.Mode != "search" || !slices.Equal(done.Conflicts, []string{"_note"}) {
		t.Errorf("a file without a root key says %s, %v %v", done.Data, err, bad)
	}
}

func TestImportFillsIn(t *testing.T) {
	const path = "/home/ada/mcp.json"
	c, _ := Find("vscode")
	s := Source{Client: c, Path: "/w/shop/.vscode/mcp.json", Project: "/w/shop", keys: []string{"servers"}, Data: []byte(`{
  "inputs": [{"id": "api-key", "description": "The key"}, {"id": "path", "default": "a"}, 3],
  "servers": {
    "db": {"command": "./tools/db", "args": ["${workspaceFolder}/x", "${workspaceFolderBasename}", "${input:path}", "${command:pick}"], "envFile": ".env", "env": {"K": "${input:api-key}"}},
    "home": {"command": "npx", "cwd": "${userHome}"},
    "web": {"url": "https://example.org/${input:9}"}
  }
}`)}
	done, err := Import([]Source{s}, path, nil, Ours{})
	expect.OK(t, err)
	text := string(done.Data)
	for _, part := range []string{
		`"command": "/w/shop/tools/db"`, `["/w/shop/x", "shop", "${keyring:input-path}", "${command:pick}"]`, `"envFile": "/w/shop/.env"`, `"K": "${keyring:input-api-key}"`,
		`"cwd": "/w/shop"`, `"cwd": "${userHome}"`, `https://example.org/${keyring:input-9}`,
	} {
		expect.Contains(t, text, part)
	}
	expect.Equal(t, strings.Count(text, `"cwd"`), 2, "a remote server runs in a folder:\n%s", text)
	notes := strings.Join(done.Notes, "\n")
	for _, part := range []string{`VS Code asks for "api-key", which is a secret here: run: metarouter secret set input-api-key`, "${command:pick}, which only VS Code", "runs in the folder /w/shop"} {
		expect.Contains(t, notes, part, "no note")
	}

	// The user's own servers belong to no folder.
	s.Project = ""
	done, err = Import([]Source{s}, path, nil, Ours{})
	notes = strings.Join(done.Notes, "\n")
	if err != nil || !strings.Contains(notes, "the folder that is open in VS Code") || !strings.Contains(notes, `"command" relative`) || strings.Contains(string(done.Data), "/w/shop") {
		t.Errorf("%v\n%s\n%s", err, notes, done.Data)
	}
}

func TestProjectsOfClaudeCode(t *testing.T) {
	c, _ := Find("claude-code")
	data := examples[1].variants(t)["as it is"]
	s := Source{Client: c, Path: "f", Data: data, keys: claudeKeys}
	expect.Deep(t, s.Projects(), []string{"/home/ada/shop"})
	sources := c.ProjectSources("/home/ada/shop", "f")
	sources[1].Data = data
	done, err := Import(sources[1:], "/m.json", nil, Ours{})
	if err != nil || !reflect.DeepEqual(done.Added, []string{"shop-db"}) || !strings.Contains(string(done.Data), `"/home/ada/shop/tools/db-server"`) {
		t.Errorf("got %+v, %v", done, err)
	}
}

func TestInstallUpdates(t *testing.T) {
	c, _ := Find("cursor")
	data := "/d"
	e := RouterEntry{Command: "/new/metarouter", Configs: []string{"/a.json", "/b.json"}, Data: &data}
	for name, test := range map[string]struct{ old, want string }{
		"an older entry": {
			`{"command": "/old/metarouter", "args": ["serve", "--config=/x.json", "--mode", "search", "--data", "/e"], "autoApprove": ["find_tools"] /* mine */}`,
			`{"command": "/new/metarouter", "args": ["serve", "--config", "/a.json", "--config", "/b.json", "--data", "/d", "--mode", "search"], "autoApprove": ["find_tools"] /* mine */, "type": "stdio"}`,
		},
		"a remote entry": {
			`{"url": "http://127.0.0.1:8787/mcp", "headers": {}, "note": 1}`,
			`{"note": 1, "type": "stdio", "command": "/new/metarouter", "args": ["serve", "--config", "/a.json", "--config", "/b.json", "--data", "/d"]}`,
		},
		"flags before serve": {
			`{"command": "/old/metarouter", "args": ["--log-level", "debug", "serve", "--names", "bare"]}`,
			`{"command": "/new/metarouter", "args": ["serve", "--config", "/a.json", "--config", "/b.json", "--data", "/d", "--names", "bare"], "type": "stdio"}`,
		},
		"another spelling of the type": {
			`{"url": "http://127.0.0.1:8787/mcp", "transport": "sse"}`,
			`{"transport": "stdio", "type": "stdio", "command": "/new/metarouter", "args": ["serve", "--config", "/a.json", "--config", "/b.json", "--data", "/d"]}`,
		},
		"no object": {
			`"x"`,
			`{"type": "stdio", "command": "/new/metarouter", "args": ["serve", "--config", "/a.json", "--config", "/b.json", "--data", "/d"]}`,
		},
		"args of another kind": {
			`{"type": "stdio", "command": "/new/metarouter", "args": {}}`,
			`{"type": "stdio", "command": "/new/metarouter", "args": ["serve", "--config", "/a.json", "--config", "/b.json", "--data", "/d"]}`,
		},
	} {
		s := Source{Client: c, Path: "f", keys: claudeKeys, Data: []byte(`{"mcpServers": {"metarouter": ` + test.old + `}}`)}
		got, err := Install(s, e, all, nil)
		if want := `{"mcpServers": {"metarouter": ` + test.want + `}}`; err != nil || string(got) != want && meaning(t, got) != meaning(t, []byte(want)) {
			t.Errorf("%s: got %v\n%s\nwant\n%s", name, err, got, want)
		}
	}
}

// Gemini replaces $VAR as well as ${VAR}, and passes on variables that look secret only if an entry
// names it.
func TestGemini(t *testing.T) {
	c, _ := Find("gemini")
	s := Source{Client: c, Path: "f", keys: claudeKeys, Data: []byte(`{"mcpServers": {"a": {"command": "x", "args": ["$HOME/a", "$5", "${B}"], "env": {"K": "$MY_KEY"}}}}`)}
	done, err := Import([]Source{s}, "/m.json", nil, Ours{})
	if want := `"args":["${HOME}/a","$5","${B}"],"env":{"K":"${MY_KEY}"}`; err != nil || !strings.Contains(meaning(t, done.Data), want) {
		t.Errorf("got %s, %v, want %s", done.Data, err, want)
	}

	ours := reading(t, "m.json", `{
		"mcpServers": {"a": {"command": "x", "env": {"K": "${MY_KEY}", "L": "${env:OTHER} ${MY_KEY} ${WITH:-a default} ${input:no}"}, "inheritEnv": ["SSH_AUTH_SOCK"]}},
		"metarouter": {"http": {"tokens": ["${ROUTER_TOKEN}"]}}}`)
	e := RouterEntry{Command: "/bin/metarouter", Variables: ours.Variables()}
	expect.Deep(t, e.Variables, []string{"MY_KEY", "OTHER", "ROUTER_TOKEN", "SSH_AUTH_SOCK"}, "our files name")
	e.Variables = e.Variables[:2]
	for old, want := range map[string]string{
		`{}`: `{"mcpServers":{"metarouter":{"command":"/bin/metarouter","args":["serve"],"env":{"MY_KEY":"${MY_KEY}","OTHER":"${OTHER}"}}}}`,
		`{"mcpServers":{"metarouter":{"command":"metarouter","args":["serve"],"env":{"OTHER":"mine","X":"y"},"trust":true}}}`: `{"mcpServers":{"metarouter":{"command":"/bin/metarouter","args":["serve"],"env":{"OTHER":"mine","X":"y","MY_KEY":"${MY_KEY}"},"trust":true}}}`,
	} {
		s := Source{Client: c, Path: "f", keys: claudeKeys, Data: []byte(old)}
		got, err := Install(s, e, all, nil)
		if err != nil || meaning(t, got) != want {
			t.Errorf("%s: got %v\n%s\nwant\n%s", old, err, got, want)
		}
		s.Data = got
		if again, err := Install(s, e, all, nil); err != nil || string(again) != string(got) {
			t.Errorf("the second time: %v\n%s", err, again)
		}
	}
}

// An entry of somebody else is not overwritten.
func TestInstallRefuses(t *testing.T) {
	for client, test := range map[string]struct{ text, why string }{
		"cursor":         {`{"mcpServers": {"metarouter": {"command": "python", "args": ["-m", "other"], "env": {"KEY": "x"}}}}`, "starts another program"},
		"claude-desktop": {`{"mcpServers": {"metarouter": {"mode": "direct"}}}`, `the key "metarouter" is that of no server`},
		"windsurf":       {`{"servers": {}}`, `under "servers", where this client has them under "mcpServers"`},
		"vscode":         {`{"mcpServers": {"a": {"command": "x"}}}`, `under "mcpServers"`},
	} {
		c, _ := Find(client)
		s := Source{Client: c, Path: "f", keys: c.keys, Data: []byte(test.text)}
		if got, err := Install(s, RouterEntry{Command: "/bin/metarouter"}, all, nil); err == nil || !strings.Contains(err.Error(), test.why) {
			t.Errorf("%s: got %s, %v", test.text, got, err)
		}
	}
}

func TestOthers(t *testing.T) {
	c, _ := Find("claude-desktop")
	s := Source{Client: c, Path: "f", keys: claudeKeys, Data: []byte(`{"mcpServers": {
		"metarouter": {"command": "metarouter", "args": ["serve"]}, "again": {"command": "metarouter", "args": ["serve"]},
		"same": {"command": "x", "autoApprove": []}, "alone": {"command": "y"}, "broken": {"command": "${NO_SUCH_VARIABLE_HERE}"}, "odd": 1,
		"off": {"command": "z", "args": [], "timeout": 5, "autoApprove": [ "a" ], "disabled": false}, "env": {"command": "x", "env": {"A": "b"}},
		"cwd": {"command": "x", "cwd": "/elsewhere"}, "theirs off": {"command": "w", "disabled": true}}}`)}
	own := reading(t, "/m.json", `{"mcpServers": {"ours": {"command": "x"}, "broken": {"command": "${NO_SUCH_VARIABLE_HERE}"},
		"off": {"command": "z", "timeout": 6, "autoApprove": ["a" /* c */], "disabled": true}, "on": {"command": "w", "disabled": false}}}`)
	got, err := Others(s, "/m.json", own)
	if err != nil || len(got) != 9 {
		t.Fatalf("got %+v, %v", got, err)
	}
	for i, start := range []string{"", "yours lacks", "", "yours can't start: ", "", "yours lacks", "", "", "yours lacks"} {
		if !strings.HasPrefix(got[i].Stays, start) || start == "" && got[i].Stays != "" {
			t.Errorf("%+v, want %s", got[i], start)
		}
		got[i].Stays = ""
	}
	want := []Other{
		{Name: "again", Router: true}, {Name: "same", Ours: "ours"}, {Name: "alone"}, {Name: "broken", Ours: "broken"}, {Name: "odd"},
		{Name: "off", Ours: "off"}, {Name: "env"}, {Name: "cwd"}, {Name: "theirs off", Ours: "on"},
	}
	expect.Deep(t, got, want)
}

// An entry that was imported, and is as it was then, may go, however ours differs from it now, unless ours is gone.
func TestOthersAfterImport(t *testing.T) {
	c, _ := Find("claude-desktop")
	source := func(text string) Source { return Source{Client: c, Path: "f", keys: claudeKeys, Data: []byte(text)} }
	before := source(`{"mcpServers": {"env": {"command": "x", "env": {"TOKEN": "abc"}}, "args": {"command": "npx", "args": ["a"]}, "gone": {"command": "y"},
		"edited": {"command": "z"}, "keys": {"command": "k", "env": {"P": "${userHome}/x"}, "timeout": 5}, "taken": {"command": "t"}}}`)
	done, err := Import([]Source{before}, "/m.json", nil, reading(t, "/m.json", `{"mcpServers": {"taken": {"command": "other"}}}`))
	if err != nil || len(done.Hashes) != 5 {
		t.Fatalf("%+v, %v", done.Hashes, err)
	}
	home := filepath.ToSlash(t.TempDir())
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	own := reading(t, "/m.json", `{"mcpServers": {"env": {"command": "x", "env": {"TOKEN": "${keyring:T}"}}, "args": {"command": "npx", "args": ["-y", "a@1"]},
		"edited": {"command": "zz"}, "keys": {"command": "k", "env": {"P": "`+home+`/x"}}, "taken": {"command": "other"}}}`)
	own.Imported = done.Hashes
	now := source(strings.Replace(string(before.Data), `{"command": "z"}`, `{"command": "z",  "args": ["new"]}`, 1))
	got, err := Others(now, "/m.json", own)
	expect.OK(t, err)
	for _, o := range got { // the value of a reference is no difference
		expect.List(t, o.Differs, map[string][]string{"env": {"env"}, "args": {"args"}, "keys": {"timeout"}}[o.Name], "%s", o.Name)
	}
	less, err := Install(now, RouterEntry{}, nil, Needless(got))
	expect.OK(t, err)
	left, _ := open("f", less)
	var names []string
	for _, i := range items(left.at(claudeKeys...)) {
		names = append(names, i.key)
	}
	expect.List(t, names, []string{"gone", "edited", "taken"}, "left")
	again, err := Import([]Source{now}, "/m.json", []byte("{}"), own)
	if err != nil || !slices.Equal(again.Conflicts, []string{"edited", "taken"}) || !slices.Equal(again.Added, []string{"gone"}) {
		t.Errorf("imported again: %+v, %v", again, err)
	}
}

// A whole command line as a command gets one note, with the fix.
func TestImportCommandLine(t *testing.T) {
	c, _ := Find("claude-desktop")
	for command, want := range map[string]string{"npx -y @o/pkg": "whole command line", "bin/x": "relative to a folder"} {
		s := Source{Client: c, Path: "f", keys: claudeKeys, Data: []byte(`{"mcpServers": {"a": {"command": "` + command + `"}}}`)}
		done, err := Import([]Source{s}, "/m.json", nil, Ours{})
		if err != nil || len(done.Notes) != 1 || !strings.Contains(done.Notes[0], want) {
			t.Errorf("%s: %q, %v", command, done.Notes, err)
		}
	}
}

// A router that serves is not taken over, and secrets are known wherever they stand.
func TestImportKnowsRoutersAndSecrets(t *testing.T) {
	c, _ := Find("claude-desktop")
	for entry, secrets := range map[string]bool{
		`{"command": "x", "args": ["--port", "80"]}`:     false,
		`{"command": "x", "args": ["--token", "abc"]}`:   true,
		`{"url": "https://h.example/mcp?key=abc"}`:       true,
		`{"command": "x", "env": {"A": "b"}}`:            true,
		`{"command": "x", "args": ["${A_KEY:-secret}"]}`: true,
	} {
		s := Source{Client: c, Path: "f", keys: claudeKeys, Data: []byte(`{"mcpServers": {"metarouter": {"url": "http://127.0.0.1:8787/mcp"}, "a": ` + entry + `}}`)}
		done, err := Import([]Source{s}, "/m.json", nil, Ours{})
		if err != nil || !reflect.DeepEqual(done.Added, []string{"a"}) || !reflect.DeepEqual(done.Routers, []string{"metarouter"}) || done.Secrets != secrets {
			t.Errorf("%s: got %+v, %v", entry, done, err)
		}
		if notes := strings.Join(done.Notes, "\n"); strings.Contains(notes, "secret") {
			t.Errorf("a note says %s", notes)
		}
	}
}

// An entry is written in the style of our file, without its comments, which a note says.
func TestImportKeepsPlainJSON(t *testing.T) {
	c, _ := Find("vscode")
	s := Source{Client: c, Path: "theirs.json", keys: []string{"servers"}, Data: []byte("{\"servers\": {\"a\": {\n  // why\n  \"command\": \"x\", /* y */\n}}}")}
	done, err := Import([]Source{s}, "/w/.mcp.json", nil, Ours{})
	if d, bad := open("f", done.Data); err != nil || bad != nil || !d.root.IsStandard() || !slices.Contains(done.Notes, `"a": has comments or trailing commas, which are left out`) {
		t.Errorf("a new file: got %v\n%s\n%q", err, done.Data, done.Notes)
	}
}

// A note says which entry is left out, and names no file that lacks it.
func TestImportRefused(t *testing.T) {
	c, _ := Find("cursor")
	s := Source{Client: c, Path: "theirs.json", keys: claudeKeys, Data: []byte(`{"mcpServers": {"a": {"command": "x", "mode": "direct"}}}`)}
	done, err := Import([]Source{s}, "/m.json", nil, Ours{})
	if want := `"a": the key "mode" has no effect here; write it in metarouter; it is left out`; err != nil || !slices.Contains(done.Notes, want) {
		t.Errorf("%v, %q", err, done.Notes)
	}
}

// Whatever our reader accepts is taken over by a file that it accepts, and once only.
func FuzzImport(f *testing.F) {
	for _, text := range []string{
		`{"mcpServers":{"a":{"command":"x","args":["${input:a}","${workspaceFolder}"]},"a:b":{"url":"http://x/"},"":{},"c":{"command":3}}}`,
		"\ufeff{\"servers\":{\r\n \"a\":{\r\n  // c\r\n  \"command\":\"./x\",\r\n },\r\n}}", `{"mcpServers":{"a":{"command":"x"},"b":{"command":"x"},"a":{}}}`,
	} {
		f.Add([]byte(text), []byte(`{}`))
		f.Add([]byte(text), []byte(text))
	}
	f.Fuzz(func(t *testing.T, data, own []byte) {
		const path = "/home/ada/mcp.json"
		read, err := readExpanded(path, own)
		if err != nil {
			return
		}
		for _, name := range []string{"cursor", "vscode"} {
			c, _ := Find(name)
			s := Source{Client: c, Path: "/w/theirs.json", Data: data, keys: c.keys, Project: "/w"}
			ours := Ours{Config: read, Files: []Source{{Path: path, Data: own}}}
			done, err := Import([]Source{s}, path, own, ours)
			if err != nil {
				continue
			}
			after, err := readExpanded(path, done.Data)
			expect.OK(t, err, "%s: %s", name, done.Data)
			expect.Equal(t, len(after.Servers), len(read.Servers)+len(done.Added), "%s: servers with %q in\n%s", name, done.Added, done.Data)
			ours = Ours{Config: after, Files: []Source{{Path: path, Data: done.Data}}}
			again, err := Import([]Source{s}, path, done.Data, ours)
			if err != nil || len(again.Added) > 0 {
				t.Errorf("%s: the second time %q are added, %v", name, again.Added, err)
			}
		}
	})
}

// A client starts a program of npm's cache by npx, and a newer version replaces the entry.
func TestInstallByNPX(t *testing.T) {
	for system, want := range map[string]string{"linux": "npx", "windows": "cmd"} {
		c, _ := Find("cursor")
		s := Source{Client: c, Path: "/mcp.json", Data: []byte("{}"), keys: c.keys}
		for _, version := range []string{"1.2.3", "1.2.4"} {
			command, before := byNPX(system, version)
			data, err := Install(s, RouterEntry{Command: command, Before: before, Configs: []string{"/a.json"}}, all, nil)
			expect.OK(t, err)
			s.Data = data
			entry := meaning(t, data)
			if !strings.Contains(entry, `"command":"`+want+`"`) || !strings.Contains(entry, `"-y","metarouter@`+version+`","serve","--config","/a.json"`) || strings.Count(entry, "serve") != 1 {
				t.Errorf("%s, version %s: %s", system, version, entry)
			}
		}
	}
}

func TestMayNeedLogin(t *testing.T) {
	for entry, want := range map[string]bool{
		`{"url": "https://mcp.linear.app/sse"}`:                                                 true,
		`{"type": "http", "url": "https://MCP.Notion.com:443/mcp"}`:                             true,
		`{"url": "https://example.org/mcp", "oauth": {"clientId": "x"}}`:                        true,
		`{"url": "https://example.org/mcp"}`:                                                    false,
		`{"url": "https://mcp.linear.app.example.org/mcp"}`:                                     false,
		`{"url": "https://mcp.linear.app/sse", "headers": {"Authorization": "Bearer ${T:-t}"}}`: false,
		`{"command": "npx", "args": ["-y", "mcp-remote", "https://mcp.linear.app/sse"]}`:        false,
	} {
		read, err := readExpanded("f", []byte(`{"mcpServers": {"s": `+entry+`}}`))
		expect.OK(t, err)
		expect.Equal(t, MayNeedLogin(read.Servers[0]), want, "%s", entry)
	}
}
